"""`contract deploy`: a timelock, an oracle with it as admin, and the adapter of the network."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oracle.bindings.deployment import DEFAULT_LIMITS, NO_FLOORS, OracleSetup, with_limits
from oracle.bindings.kick_targets import KickTarget, kick_target_named, kick_target_of
from oracle.bindings.timelock import DEFAULT_DELAY
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    YesOption,
    load_config,
)
from oracle.cli.setup.contract_commands import contract
from oracle.cli.setup.deploy_plan import DeployPlan, PlannedAdapter, PowerHolders
from oracle.cli.setup.written_values import address_in, limit_in, named_address_in
from oracle.daemon.compose import open_checked_chain, open_reader, rules_hash
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import report_settings
from oracle.daemon.records import configured_rules, open_records
from oracle.daemon.senders import OpenKey, key_opener, kick_target, oracle_address, reporter_keys
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.rpc.pool import EndpointPool
from oracle.signing.local import KeySigner
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits

_NOBODY = ""
# Value of --adapter that deploys no adapter although the profile has one.
_NO_ADAPTER = "none"


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `contract`."""
    del app


@contract.command(
    epilog="Example: qos-oracle contract deploy --admin 0x… --signers 0x…,0x…,0x… --quorum 2 "
    "--pauser 0x… --vetoer 0x…"
)
def deploy(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    admin: Annotated[
        str, typer.Option("--admin", help="The multisig that proposes to the timelock.")
    ],
    signers: Annotated[
        str, typer.Option("--signers", help="Who signs, by commas; default: our own signer.")
    ] = _NOBODY,
    quorum: Annotated[int, typer.Option("--quorum", help="How many of them must.")] = 1,
    pauser: Annotated[str, typer.Option("--pauser", help="Who may stop for a while.")] = _NOBODY,
    vetoer: Annotated[str, typer.Option("--vetoer", help="Who may cancel kickouts.")] = _NOBODY,
    admin_delay: Annotated[
        int, typer.Option("--admin-delay", help="Seconds that what the admin does has to wait.")
    ] = DEFAULT_DELAY,
    target: Annotated[
        str, typer.Option("--target", help="A kick target that stands already.")
    ] = _NOBODY,
    adapter: Annotated[
        str,
        typer.Option(
            "--adapter", metavar="NAME", help="Put before the network; default: the profile's."
        ),
    ] = _NOBODY,
    contracts: Annotated[
        list[str] | None,
        typer.Option(
            "--contract",
            metavar="NAME=0x…",
            help="What the adapter is told beside [network] contracts.",
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option("--replace", help="Take the configured oracle's place and expulsions."),
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=NUMBER", help="A limit other than the default."),
    ] = None,
    dev: Annotated[
        bool, typer.Option("--dev", help="No timelock, no floors, one signer will do.")
    ] = False,
    keystore: Annotated[
        Path | None, typer.Option("--keystore", help="The key that pays; default: transmitter.")
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="Its password file.")
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Deploy an oracle for the configured network, and its timelock.

    The timelock is the admin of the oracle. For a network without oracle support its adapter is
    deployed too, unless `--adapter none` is given. Prints the transactions and asks for
    confirmation. Limits lie within floors that nobody can loosen.
    """
    _check_one_target(target, adapter, contracts or [])
    settings = load_config(config)
    open_key = key_opener(settings)
    payer = _payer(open_key, keystore, password_file)
    people = PowerHolders(
        owner=address_in(admin),
        signers=_signers(open_key, signers),
        quorum=quorum,
        pauser=address_in(pauser),
        vetoer=address_in(vetoer),
        delay=admin_delay,
        dev=dev,
    )
    people.check()
    setup = _setup(settings, people, address_in(target), limit or [])
    before = None if target else _adapter(settings, adapter, contracts or [])
    _check_network(settings)
    replaced = oracle_address(settings) if take_over else None
    if replaced is not None:
        setup = replace(setup, expelled=_expelled(settings))
    publisher = _lookout(settings)
    try:
        plan = DeployPlan(settings, publisher, payer, people, setup, before, replaced)
        plan.run(yes=yes, dry_run=dry_run, as_json=as_json)
    finally:
        publisher.pool.close()


def _signers(open_key: OpenKey, written: str) -> tuple[Address, ...]:
    if written:
        return tuple(address_in(one.strip()) for one in written.split(","))
    keys = reporter_keys(open_key)
    if keys is None or keys.signer is None:
        raise InputError(
            "--signers: name them, or configure a signer: the contract has to know it"
        )
    return (keys.signer.address,)


def _check_one_target(target: str, adapter: str, contracts: list[str]) -> None:
    """Raise InputError if both a target and an adapter are given; an oracle has one target."""
    if target and (adapter or contracts):
        option = "--adapter" if adapter else "--contract"
        raise InputError(
            f"{option}: with --target no adapter is deployed; leave one of the two out"
        )


def _adapter(config: Config, name: str, written: list[str]) -> PlannedAdapter | None:
    """Return the requested adapter, or that of the profile, or None if there is none."""
    told = dict(named_address_in(one) for one in written)
    kind = _kind_of_target(config, name)
    if kind is None or kind.artifact is None:
        if told:
            raise InputError("--contract: no adapter is deployed that could be told of it")
        return None
    unknown = sorted(set(told) - set(kind.needs) - {kind.grantor})
    if unknown:
        needs = ", ".join(kind.needs)
        raise InputError(f"--contract {unknown[0]}: {kind.name} is told of {needs} alone")
    return PlannedAdapter(kind, {**config.network.contracts, **told})


def _kind_of_target(config: Config, name: str) -> KickTarget | None:
    if name == _NO_ADAPTER:
        return None
    return kick_target_named(name) if name else kick_target_of(config.network.profile)


def _expelled(config: Config) -> tuple[Address, ...]:
    """Return the nodes that the configured oracle expelled and did not readmit, as indexed.

    Raises:
        InputError: the index is behind the final block, so some nodes may be missing.
    """
    with open_checked_chain(config) as chain:
        final = chain.heads().final.number
    with open_records(config) as records, records.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or cursor.number < final:
            read = "nothing" if cursor is None else f"up to block {cursor.number}"
            raise InputError(
                f"--replace: the database has {read}, block {final} is final: `qos-oracle run "
                "--once` first, or who was expelled comes back"
            )
        return tuple(kick.node for kick in uow.rounds.expelled() if kick.is_expelled(cursor.time))


def _setup(
    config: Config, people: PowerHolders, target: Address, limits: list[str]
) -> OracleSetup:
    settings = report_settings(config.oracle, configured_rules(config))
    wanted = {
        "kick_below": settings.kick_below,
        "anchor_window": config.oracle.anchor_window,
        **dict(limit_in(written) for written in limits),
    }
    setup = OracleSetup(
        admin=people.owner,
        pauser=people.pauser,
        vetoer=people.vetoer,
        target=target if target != ZERO_ADDRESS else kick_target(config) or ZERO_ADDRESS,
        signers=people.signers,
        quorum=people.quorum,
        rules_hash=rules_hash(config, open_reader(config)),
        limits=with_limits(DEFAULT_LIMITS, wanted),
    )
    return replace(setup, floors=NO_FLOORS) if people.dev else setup


def _check_network(config: Config) -> None:
    """Check the chain and the network first: a deployed contract is bound to them for ever.

    The configured oracle contract is ignored: it may be gone, and this command deploys its
    successor.
    """
    without = config.oracle.model_copy(update={"address": None, "publish": False})
    with open_checked_chain(config.model_copy(update={"oracle": without})) as chain:
        chain.heads()


def _lookout(config: Config) -> SenderAccount:
    """Open a sender account that belongs to no contract yet and cannot sign."""
    chain = config.chain
    caps = SendLimits(
        config.limits.max_fee_per_gas_wei,
        config.limits.max_cost_per_transaction_wei,
        config.limits.max_cost_per_day_wei,
    )
    pool = EndpointPool.open(chain.endpoints, chain.id, providers=chain.providers)
    return SenderAccount(pool, domain=Domain(chain.id, ZERO_ADDRESS), caps=caps)


def _payer(open_key: OpenKey, keystore: Path | None, password_file: Path | None) -> Signer:
    if (keystore is None) != (password_file is None):
        raise InputError("--keystore and --password-file: give both or none")
    if keystore is not None and password_file is not None:
        return KeySigner.open(keystore, password_file)
    keys = reporter_keys(open_key)
    if keys is None or keys.transmitter is None:
        raise InputError("--keystore: name the key that pays, or configure a transmitter")
    return keys.transmitter
