"""`contract show` and `check`: the oracle contract, compared with the configuration."""

from typing import Annotated

import typer

from oracle.bindings.inspection import ContractMismatch, inspected
from oracle.bindings.kick_target_checks import (
    WiredTarget,
    kick_target_mismatches,
    plain_account_owner,
    shipped_target_at,
)
from oracle.bindings.kick_targets import TASK_NETWORK
from oracle.bindings.power import timelock_weaknesses, weaknesses
from oracle.bindings.qos_oracle import ContractConfiguration, OracleContract
from oracle.bindings.timelock import delay_of
from oracle.bindings.timelock_roles import timelock_roles
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.setup.spoken_values import tell
from oracle.cli.setup.written_values import addresses_in
from oracle.daemon.compose import open_checked_chain, open_reader
from oracle.daemon.config.loader import Config
from oracle.daemon.senders import (
    expected_contract,
    key_opener,
    kick_target,
    oracle_address,
    report_account,
    reporter_keys,
)
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.queries.contract_models import contract_answer
from oracle.rpc.fanout import EndpointCaller, PoolView

contract = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register `contract` on the command line."""
    app.add_typer(
        contract,
        name="contract",
        help="The oracle contract: deploy, show, check, calls for its people.",
    )


@contract.command(epilog="Example: qos-oracle contract show --json")
def show(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show the contract's code hash, roles, signers, rules, limits and head."""
    settings = load_config(config)
    address = oracle_address(settings)
    with open_checked_chain(settings) as chain:
        found = OracleContract(report_account(settings, chain).lines, address).constitution()
    tell(contract_answer(found), as_json=as_json)


@contract.command(epilog="Example: qos-oracle contract check")
def check(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dev: Annotated[
        bool, typer.Option("--dev", help="Let one key have all power, and any limit stand.")
    ] = False,
    proposers: Annotated[
        str, typer.Option("--proposers", help="Who may propose to the timelock, by commas.")
    ] = "",
    since: Annotated[
        int | None,
        typer.Option(
            "--since",
            metavar="BLOCK",
            min=0,
            help="The timelock is no older; default: start_block.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the contract with the configuration and audit its roles.

    An adapter must hold the network's role. Exit code 2 if anything differs, or if a single key
    could do harm immediately.
    """
    settings = load_config(config)
    address = oracle_address(settings)
    expected = expected_contract(
        settings, open_reader(settings), reporter_keys(key_opener(settings))
    )
    with open_checked_chain(settings) as chain:
        lines = report_account(settings, chain).lines
        constitution, found = inspected(lines, address, expected)
        found = [*found, *_of_kick_target(lines, settings, constitution.target, dev=dev)]
        if not dev:
            named = addresses_in(proposers) if proposers else []
            first = settings.chain.start_block if since is None else since
            found += weaknesses(lines, constitution)
            found += _of_timelock(lines, constitution, first, named)
    if as_json:
        print_answer(found)
    elif not found:
        typer.echo(f"{address} is as configured")
    else:
        for difference in found:
            typer.echo(difference.line())
    if found:
        raise InputError(f"{address} differs from the configuration in {len(found)} points")


def _of_timelock(
    lines: PoolView, found: ContractConfiguration, first: int, named: list[Address]
) -> list[ContractMismatch]:
    """Print the roles of the timelock, and return the roles that weaken it.

    Raises:
        TransientError: no endpoint responds.
    """
    if delay_of(lines, found.admin) is None:
        return []
    roles = timelock_roles(lines, found.admin, first)
    typer.echo(roles.line(), err=True)
    return timelock_weaknesses(roles, found.vetoer, named)


def _of_kick_target(
    lines: PoolView, config: Config, target: Address, *, dev: bool
) -> list[ContractMismatch]:
    """Return the mismatches of the oracle's kick target.

    The endpoint with the fewest mismatches is trusted, as for the oracle contract itself.

    Raises:
        TransientError: no endpoint responds.
    """
    if target == ZERO_ADDRESS:
        return []
    seen = lines.each(lambda line: _seen_by(line, config, target, dev=dev))
    return min((found for _, found in seen), key=len)


def _seen_by(
    lines: EndpointCaller, config: Config, target: Address, *, dev: bool
) -> list[ContractMismatch]:
    kind = TASK_NETWORK if target == kick_target(config) else shipped_target_at(lines, target)
    if kind is None:
        shipped = "an adapter that is shipped here (of another one only you know what it does)"
        return [] if dev else [ContractMismatch("kick target", shipped, target)]
    wired = WiredTarget(kind, target, oracle_address(config), config.network.contracts)
    found = kick_target_mismatches(lines, wired)
    return found if dev else [*found, *plain_account_owner(lines, wired)]
