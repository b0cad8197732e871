"""The `contract` commands, which show and check the oracle contract and encode calls to it.

The calls are sent by the multisigs of admin, pauser and vetoer, in the order of
docs/explanation/kickouts.md#power. The commands send nothing, because the daemon has none of these
keys. `contract deploy` is in contract_deploy.
"""

from typing import Annotated

import typer

from oracle.bindings.inspection import ContractMismatch, inspect_roots_contract
from oracle.bindings.kick_target_checks import (
    find_kick_target_mismatches,
    find_shipped_kick_target,
    find_single_key_owner_mismatches,
)
from oracle.bindings.kick_targets import TASK_NETWORK
from oracle.bindings.power import find_contract_weaknesses, find_timelock_weaknesses
from oracle.bindings.qos_roots import RootsConfiguration, RootsContract
from oracle.bindings.timelock import fetch_timelock_delay, fetch_timelock_roles
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_model
from oracle.cli.setup.contract_calls import (
    CONTRACT_CALLS,
    build_contract_call,
    encode_contract_call,
)
from oracle.cli.setup.contract_deploy import deploy
from oracle.cli.setup.contract_values import (
    parse_addresses,
    print_contract_result,
)
from oracle.daemon.chain_endpoints import open_checked_chain
from oracle.daemon.config.loader import Config
from oracle.daemon.configured_keys import make_key_opener
from oracle.daemon.event_readers import open_reader
from oracle.daemon.senders import (
    build_expected_contract,
    find_configured_objections_mismatches,
    find_kick_target_address,
    get_oracle_address,
    open_report_account,
    open_reporter_keys,
)
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.queries.contract_models import build_contract_answer
from oracle.rpc.fanout import EndpointCaller, PoolView

contract = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(
        contract,
        name="contract",
        help="Deploy, inspect and check the oracle contract.",
    )


@contract.command(epilog="Example: qos-oracle contract show --json")
def show(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show the contract's code hash, roles, signers, rules, limits and head."""
    loaded_config = load_config(config)
    address = get_oracle_address(loaded_config)
    with open_checked_chain(loaded_config) as chain:
        contract_state = RootsContract(
            open_report_account(loaded_config, chain).pool_view, address
        ).fetch_configuration()
    print_contract_result(build_contract_answer(contract_state), as_json=as_json)


@contract.command(epilog="Example: qos-oracle contract check")
def check(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev", help="Development only: accept one key in all roles, and any limits."
        ),
    ] = False,
    proposers: Annotated[
        str,
        typer.Option(
            "--proposers",
            help="Addresses allowed to propose to the timelock, comma-separated. Default: none.",
        ),
    ] = "",
    since_block: Annotated[
        int | None,
        typer.Option(
            "--since",
            metavar="BLOCK",
            min=0,
            help="First block to search for timelock events. Default: chain.start_block.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the contract with the configuration and audit its roles.

    The objections contract, if any, must be the shipped one and belong to this oracle. An
    adapter must hold the network's role. Exit code 2 if anything differs, or if a single key could
    do harm immediately.
    """
    loaded_config = load_config(config)
    address = get_oracle_address(loaded_config)
    expected_contract = build_expected_contract(
        loaded_config,
        open_reader(loaded_config),
        open_reporter_keys(make_key_opener(loaded_config)),
    )
    with open_checked_chain(loaded_config) as chain:
        pool_view = open_report_account(loaded_config, chain).pool_view
        contract_state, mismatches = inspect_roots_contract(pool_view, address, expected_contract)
        mismatches = [
            *mismatches,
            *_check_kick_target(pool_view, loaded_config, contract_state.target, dev=dev),
            *_find_timelock_setting_mismatches(loaded_config, contract_state.admin),
            *find_configured_objections_mismatches(loaded_config, pool_view, contract_state),
        ]
        if not dev:
            proposer_addresses = parse_addresses(proposers) if proposers else []
            first_block = loaded_config.chain.start_block if since_block is None else since_block
            mismatches += find_contract_weaknesses(
                pool_view, contract_state, expected_contract.settings
            )
            mismatches += _report_timelock_weaknesses(
                pool_view, address, contract_state, first_block, proposer_addresses
            )
    if as_json:
        print_model(mismatches)
    elif not mismatches:
        typer.echo(f"{address} matches the configuration")
    else:
        for difference in mismatches:
            typer.echo(difference.format_line())
    if mismatches:
        raise InputError(
            f"{address}: {len(mismatches)} mismatches were found; they are listed above"
        )


def _find_timelock_setting_mismatches(config: Config, admin: Address) -> list[ContractMismatch]:
    """Return a mismatch if the configured timelock is not the contract's admin."""
    timelock = config.oracle.timelock
    if timelock is None or timelock == admin:
        return []
    return [ContractMismatch("admin", f"oracle.timelock {timelock}", admin)]


def _report_timelock_weaknesses(
    pool_view: PoolView,
    oracle: Address,
    contract_state: RootsConfiguration,
    first_block: int,
    proposers: list[Address],
) -> list[ContractMismatch]:
    """Print the roles of the timelock, and return the mismatches that weaken it.

    Raises:
        TransientError: no endpoint responds.
    """
    if fetch_timelock_delay(pool_view, contract_state.admin) is None:
        return []
    roles = fetch_timelock_roles(pool_view, contract_state.admin, first_block)
    typer.echo(roles.format_line(), err=True)
    return find_timelock_weaknesses(roles, oracle, contract_state, proposers)


def _check_kick_target(
    pool_view: PoolView, config: Config, target: Address, *, dev: bool
) -> list[ContractMismatch]:
    """Compare the oracle's kick target with the expected contract.

    The endpoint with the fewest mismatches is trusted, as for the oracle contract itself.

    Raises:
        TransientError: no endpoint responds.
    """
    if target == ZERO_ADDRESS:
        return []
    mismatches_by_endpoint = pool_view.read_from_each(
        lambda caller: _find_target_mismatches(caller, config, target, dev=dev)
    )
    return min((mismatches for _, mismatches in mismatches_by_endpoint), key=len)


def _find_target_mismatches(
    caller: EndpointCaller, config: Config, target: Address, *, dev: bool
) -> list[ContractMismatch]:
    kick_target = (
        TASK_NETWORK
        if target == find_kick_target_address(config)
        else find_shipped_kick_target(caller, target)
    )
    if kick_target is None:
        expected_text = "a shipped adapter (any other contract is unverified)"
        return [] if dev else [ContractMismatch("kick target", expected_text, target)]
    mismatches = find_kick_target_mismatches(
        caller, kick_target, target, get_oracle_address(config), config.network.contracts
    )
    if dev:
        return mismatches
    return [*mismatches, *find_single_key_owner_mismatches(caller, kick_target, target)]


@contract.command("calldata", epilog="Example: qos-oracle contract calldata pause 86400")
def print_calldata(
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACT", help=(f"Action to encode. One of: {', '.join(CONTRACT_CALLS)}.")
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENTS",
            help="Arguments of the action, for example SECONDS for `pause`, or all limits as "
            "NAME=NUMBER,… for `set-limits`.",
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    salt: Annotated[
        int,
        typer.Option(
            "--salt",
            help=("Salt that distinguishes a scheduled call from an earlier identical one."),
        ),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Print calldata for emergency calls of admin, pauser or vetoer.

    Nothing is sent. Admin calls go through the timelock: the output has the call that schedules
    the action, and the call that executes it after the delay.
    """
    calldata = encode_contract_call(action, arguments or [])
    loaded_config = load_config(config)
    oracle = get_oracle_address(loaded_config)
    with open_checked_chain(loaded_config) as chain:
        pool_view = open_report_account(loaded_config, chain).pool_view
        configuration = RootsContract(pool_view, oracle).fetch_configuration()
        delay = fetch_timelock_delay(pool_view, configuration.admin)
    contract_call = build_contract_call(action, calldata, oracle, configuration, delay, salt)
    print_contract_result(contract_call, as_json=as_json)


contract.command(
    epilog="Example: qos-oracle contract deploy --admin 0x… --signers 0x…,0x…,0x… --quorum 2 "
    "--pauser 0x… --vetoer 0x…"
)(deploy)
