"""Implements `contract deploy`, which deploys a timelock, an oracle and an adapter."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.deployment import (
    DEFAULT_LIMITS,
    DEFAULT_TIGHTEST,
    NO_FLOORS,
    NO_KICK_FLOORS,
    OracleSetup,
    WordsSetup,
    compute_min_score_age_limit,
    override_limits,
)
from oracle.bindings.kick_targets import KickTarget, find_default_kick_target, get_kick_target
from oracle.bindings.timelock import DEFAULT_DELAY
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    load_config,
)
from oracle.cli.setup.contract_values import (
    parse_addresses,
    parse_limit,
    parse_named_address,
    parse_optional_address,
    parse_required_address,
)
from oracle.cli.setup.deploy_plan import DeployPlan, PlannedAdapter, check_key_separation
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.compose import compute_rules_hash
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.daemon.configured_keys import OpenKey, make_key_opener
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import build_configured_rules, open_records
from oracle.daemon.senders import find_kick_target_address, get_oracle_address, open_reporter_keys
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.rpc.pool import EndpointPool
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits

_UNSET = ""
# `--adapter none` deploys no adapter, even if the profile has one.
_NO_ADAPTER = "none"


def deploy(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    admin: Annotated[
        str,
        typer.Option("--admin", help="Address of the multisig that proposes to the timelock."),
    ],
    signers: Annotated[
        str,
        typer.Option(
            "--signers",
            help="Signer addresses, comma-separated. Default: the configured signer.",
        ),
    ] = _UNSET,
    quorum: Annotated[
        int,
        typer.Option(
            "--quorum",
            help="Signatures required per report (more than half of --signers).",
        ),
    ] = 1,
    pauser: Annotated[
        str, typer.Option("--pauser", help="Address that may pause reports and kickouts.")
    ] = _UNSET,
    vetoer: Annotated[
        str, typer.Option("--vetoer", help="Address that may cancel kickouts.")
    ] = _UNSET,
    admin_delay: Annotated[
        int, typer.Option("--admin-delay", help="Delay of admin calls in seconds.")
    ] = DEFAULT_DELAY,
    target: Annotated[
        str, typer.Option("--target", help="Address of an already deployed kick target.")
    ] = _UNSET,
    adapter: Annotated[
        str,
        typer.Option(
            "--adapter",
            metavar="NAME",
            help=(
                "Adapter to deploy in front of the network contract, or none. Default: the "
                "profile's."
            ),
        ),
    ] = _UNSET,
    contracts: Annotated[
        list[str] | None,
        typer.Option(
            "--contract",
            metavar="NAME=0x…",
            help=(
                "Contract address for the adapter, in addition to [network] contracts; repeatable."
            ),
        ),
    ] = None,
    replace_oracle: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace the configured oracle and take over its expulsions."
        ),
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=NUMBER",
            help="Contract limit that overrides the default; repeatable.",
        ),
    ] = None,
    hot_set: Annotated[
        bool,
        typer.Option(
            "--hot-set",
            help="Also deploy the contract from which consumers read scores without a proof.",
        ),
    ] = False,
    objections: Annotated[
        bool,
        typer.Option(
            "--objections",
            help="Also deploy the contract that accepts objections to kickouts.",
        ),
    ] = False,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            help="Development only: deploy without timelock or minimum limits, with one signer.",
        ),
    ] = False,
    keystore: Annotated[
        Path | None,
        typer.Option(
            "--keystore",
            help="Keystore of the paying account. Default: the configured transmitter.",
        ),
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="Password file of --keystore.")
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Deploy an oracle for the configured network, and its timelock.

    The timelock is the admin of the oracle. If the network's contracts do not support an oracle,
    the adapter of its profile is deployed too, unless `--adapter none` is given. Prints the
    transactions and asks for confirmation. The contract has fixed bounds for its limits, which no
    role can exceed.
    """
    _check_target_has_no_adapter(target, adapter, contracts or [])
    loaded_config = load_config(config)
    open_key = make_key_opener(loaded_config)
    payer = _open_payer(open_key, keystore, password_file)
    oracle_setup = OracleSetup(
        admin=parse_required_address(admin),
        signers=_resolve_signers(open_key, signers),
        rules_hash=compute_rules_hash(loaded_config, open_reader(loaded_config)),
        target=parse_optional_address(target),
        quorum=quorum,
        pauser=parse_optional_address(pauser),
        vetoer=parse_optional_address(vetoer),
    )
    if not dev:
        check_key_separation(oracle_setup)
    oracle_setup = complete_oracle_setup(loaded_config, oracle_setup, limit or [], dev=dev)
    planned_adapter = None if target else _plan_adapter(loaded_config, adapter, contracts or [])
    _check_network(loaded_config)
    replaced_oracle = get_oracle_address(loaded_config) if replace_oracle else None
    if replaced_oracle is not None:
        oracle_setup = replace(oracle_setup, expelled=_load_expelled_nodes(loaded_config))
    deployment_account = _open_deployment_account(loaded_config)
    try:
        plan = DeployPlan(
            loaded_config,
            deployment_account,
            payer,
            oracle_setup,
            None if dev else admin_delay,
            planned_adapter,
            replaced_oracle,
            WordsSetup() if hot_set else None,
            with_objections=objections,
        )
        plan.run(yes=yes, dry_run=dry_run, as_json=as_json)
    finally:
        deployment_account.pool.close()


def _resolve_signers(open_key: OpenKey, signers_text: str) -> tuple[Address, ...]:
    if signers_text:
        return tuple(parse_addresses(signers_text))
    keys = open_reporter_keys(open_key)
    if keys is None or keys.signer is None:
        raise InputError("--signers: required unless keys.signer_keystore is configured")
    return (keys.signer.address,)


def _check_target_has_no_adapter(target: str, adapter: str, contracts: list[str]) -> None:
    """Check that an adapter and another kick target are not both given.

    Raises:
        InputError: both are given; an oracle has only one kick target.
    """
    if target and (adapter or contracts):
        option = "--adapter" if adapter else "--contract"
        raise InputError(
            f"{option} and --target: mutually exclusive; with --target no adapter is deployed"
        )


def _plan_adapter(config: Config, name: str, pairs: list[str]) -> PlannedAdapter | None:
    """Return the requested or default adapter, or None if no adapter is deployed."""
    address_by_contract = dict(parse_named_address(pair_text) for pair_text in pairs)
    kick_target = _find_requested_kick_target(config, name)
    if kick_target is None or kick_target.artifact is None:
        if address_by_contract:
            raise InputError("--contract: not used, because no adapter is deployed")
        return None
    unknown_names = sorted(
        set(address_by_contract) - set(kick_target.required_addresses) - {kick_target.grantor}
    )
    if unknown_names:
        required_names = ", ".join(kick_target.required_addresses)
        raise InputError(
            f"--contract {unknown_names[0]}: not used by {kick_target.name}; expected one of: "
            f"{required_names}"
        )
    return PlannedAdapter(kick_target, {**config.network.contracts, **address_by_contract})


def _find_requested_kick_target(config: Config, name: str) -> KickTarget | None:
    if name == _NO_ADAPTER:
        return None
    return get_kick_target(name) if name else find_default_kick_target(config.network.profile)


def _load_expelled_nodes(config: Config) -> tuple[Address, ...]:
    """Return the nodes that the configured oracle has expelled and not readmitted.

    Raises:
        InputError: the index is behind the final block, so some nodes may be missing.
    """
    with open_checked_chain(config) as chain:
        final_number = chain.fetch_heads().final.number
    with open_records(config) as records, records.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None or cursor.number < final_number:
            index_progress = "is empty" if cursor is None else f"ends at block {cursor.number}"
            raise InputError(
                f"--replace: the database {index_progress}, but block {final_number} is final; "
                "run `qos-oracle run --once` first, otherwise expelled nodes would be readmitted"
            )
        return tuple(
            kick.node for kick in uow.rounds.list_expulsions() if kick.is_expelled(cursor.time)
        )


def complete_oracle_setup(
    config: Config, setup: OracleSetup, limits: list[str], *, dev: bool
) -> OracleSetup:
    """Complete the oracle's constructor argument for the configured network.

    `setup` contains the roles. Its target, if it is zero, and its limits are completed. `limits`
    are texts of the form NAME=NUMBER, which override the defaults. With `dev`, the admin can set
    the limits without bounds.

    Raises:
        InputError: a limit is unknown or malformed.
    """
    settings = build_report_settings(config.oracle, build_configured_rules(config))
    if setup.target == ZERO_ADDRESS:
        setup = replace(setup, target=find_kick_target_address(config) or ZERO_ADDRESS)
    min_age = compute_min_score_age_limit(settings, setup.lag_rounds)
    limit_by_name = {
        "kick_below": settings.kick_below,
        "anchor_window": config.oracle.anchor_window,
        "max_age_seconds": max(DEFAULT_LIMITS.max_age_seconds, min_age),
        **dict(parse_limit(limit_text) for limit_text in limits),
    }
    tightest_limits = replace(
        DEFAULT_TIGHTEST,
        # Even with the tightest limits, the contract accepts a round in every period, so that
        # scores do not become stale.
        min_interval=settings.period_seconds,
        max_age_seconds=max(DEFAULT_TIGHTEST.max_age_seconds, min_age),
        anchor_window=limit_by_name["anchor_window"],
    )
    setup = replace(
        setup, limits=override_limits(setup.limits, limit_by_name), tightest=tightest_limits
    )
    if dev:
        return replace(setup, floors=NO_FLOORS, kick_floors=NO_KICK_FLOORS)
    return setup


def _check_network(config: Config) -> None:
    """Check the chain and the network that the contract will be bound to permanently.

    The configured oracle contract is not checked. It may no longer exist, and this command deploys
    its successor.
    """
    unset_oracle = config.oracle.model_copy(update={"address": None, "publish": False})
    with open_checked_chain(config.model_copy(update={"oracle": unset_oracle})) as chain:
        chain.fetch_heads()


def _open_deployment_account(config: Config) -> SenderAccount:
    """Open a sender account that is not bound to a contract and cannot sign."""
    chain = config.chain
    send_limits = SendLimits(
        config.limits.max_fee_per_gas_wei,
        config.limits.max_cost_per_transaction_wei,
        config.limits.max_cost_per_day_wei,
    )
    pool = EndpointPool.from_urls(chain.endpoints, chain.id, providers=chain.providers)
    return SenderAccount(pool, domain=Domain(chain.id, ZERO_ADDRESS), caps=send_limits)


def _open_payer(open_key: OpenKey, keystore: Path | None, password_file: Path | None) -> Signer:
    if (keystore is None) != (password_file is None):
        raise InputError("--keystore and --password-file: give both or neither")
    if keystore is not None and password_file is not None:
        return KeySigner.open(keystore, password_file)
    keys = open_reporter_keys(open_key)
    if keys is None or keys.transmitter is None:
        raise InputError("--keystore: required unless a transmitter key is configured")
    return keys.transmitter
