"""`contract show` and `check`: the oracle contract beside what we are configured for."""

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
from oracle.bindings.qos_oracle import ContractConfiguration
from oracle.bindings.timelock import delay_of
from oracle.bindings.timelock_roles import timelock_roles
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_answer
from oracle.cli.setup.spoken_values import tell
from oracle.cli.setup.written_values import addresses_in
from oracle.daemon.app import App
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.errors import InputError
from oracle.queries.contract_models import contract_answer
from oracle.rpc.fanout import EndpointCaller

contract = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Put `contract` on the command line."""
    app.add_typer(
        contract,
        name="contract",
        help="The oracle contract: deploy, show, check, calls for its people.",
    )


@contract.command(epilog="Example: qos-oracle contract show --json")
def show(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show the contract's code hash, roles, signers, rules, limits and head."""
    with open_app(config) as app:
        found = app.contract.constitution()
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
    """Compare the contract with the configuration, and look who has which power.

    Of an adapter: whether it holds the network's role. Exit code 2 where something differs, or
    where one key could do harm at once.
    """
    with open_app(config) as app:
        address = app.oracle_address
        constitution, found = inspected(app.publisher.lines, address, app.expected)
        found = [*found, *_of_kick_target(app, constitution.target, dev=dev)]
        if not dev:
            named = addresses_in(proposers) if proposers else []
            found += weaknesses(app.publisher.lines, constitution)
            found += _of_timelock(app, constitution, since, named)
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
    app: App, found: ContractConfiguration, since: int | None, named: list[Address]
) -> list[ContractMismatch]:
    """Say who has which role of the timelock, and return who should not.

    Raises:
        TransientError: no endpoint tells.
    """
    lines = app.publisher.lines
    if delay_of(lines, found.admin) is None:
        return []
    first = app.config.chain.start_block if since is None else since
    roles = timelock_roles(lines, found.admin, first)
    typer.echo(roles.line(), err=True)
    return timelock_weaknesses(roles, found.vetoer, named)


def _of_kick_target(app: App, target: Address, *, dev: bool) -> list[ContractMismatch]:
    """Return what keeps the oracle's kick target from its work.

    An endpoint that shows it as it is meant is believed, as of the oracle contract itself.

    Raises:
        TransientError: no endpoint tells.
    """
    if target == ZERO_ADDRESS:
        return []
    told = app.publisher.lines.each(lambda line: _seen_by(line, app, target, dev=dev))
    return min((found for _, found in told), key=len)


def _seen_by(
    lines: EndpointCaller, app: App, target: Address, *, dev: bool
) -> list[ContractMismatch]:
    kind = TASK_NETWORK if target == app.kick_target else shipped_target_at(lines, target)
    if kind is None:
        shipped = "an adapter that is shipped here (of another one only you know what it does)"
        return [] if dev else [ContractMismatch("kick target", shipped, target)]
    wired = WiredTarget(kind, target, app.oracle_address, app.config.network.contracts)
    found = kick_target_mismatches(lines, wired)
    return found if dev else [*found, *plain_account_owner(lines, wired)]
