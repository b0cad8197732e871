"""`report verify`: recomputes an accepted round from the stored logs and compares it."""

from typing import Annotated

import typer

from oracle.bindings.qos_oracle import ContractStatus
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_folded, print_json
from oracle.cli.report.report_commands import report
from oracle.daemon.app import App
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, NEVER_REPORTED
from oracle.queries.reports.round_check import LaneDifference, RoundCheck, RuleNames, check_round
from oracle.queries.text.human_numbers import counted
from oracle.signing.typed_data import Domain

_QOS_STEPS = 10_000


def register(_: typer.Typer) -> None:
    """Put `verify` under `report`."""
    report.command(epilog="Example: qos-oracle report verify 42")(verify)


def verify(
    number: Annotated[int, typer.Argument(metavar="ROUND", min=1, help="As accepted on chain.")],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Recompute an accepted round from the stored logs, and compare it with the chain.

    Compared are every lane, the as-of block, the signed digest, and, for the newest round, what
    the contract holds now. Exit code 1 where anything differs.
    """
    with open_folded(config) as app:
        domain = Domain(app.config.chain.id, app.oracle_address)
        names = RuleNames(app.rules, app.report_settings, domain)
        found = check_round(number, app.chain, app.store, app.reader, names)
        contract = _contract(app, found)
    if as_json:
        print_json(_answer(found, contract=contract))
    else:
        _print(found, contract=contract)
    if not found.is_good or contract is False:
        raise typer.Exit(1)


def _contract(app: App, found: RoundCheck) -> bool | None:
    """Tell whether the contract holds just this round's words; None: a newer one came since."""
    contract = app.contract
    contract_status: ContractStatus = contract.contract_status()
    accepted = found.accepted
    if contract_status.head.round != accepted.round:
        return None
    held = contract.words([index for index, _ in accepted.words], contract_status.block)
    return contract_status.last_report == accepted.digest and held == dict(accepted.words)


def _answer(found: RoundCheck, *, contract: bool | None) -> dict[str, object]:
    accepted = found.accepted
    return {
        "round": accepted.round,
        "as_of": accepted.as_of,
        "as_of_hash": accepted.as_of_hash,
        "transmitter": accepted.transmitter,
        "digest": accepted.digest,
        "same": found.is_good and contract is not False,
        "same_block": found.is_same_block,
        "same_digest": found.is_same_digest,
        "same_registrations": found.registers is None,
        "contract_holds_it": contract,
        "differences": [
            {"index": one.index, "accepted": one.accepted, "computed": one.computed}
            for one in found.lanes
        ],
    }


def _print(found: RoundCheck, *, contract: bool | None) -> None:
    accepted = found.accepted
    typer.echo(f"round {accepted.round}, as of block {accepted.as_of} {accepted.as_of_hash}")
    typer.echo(f"  {counted(len(accepted.words), 'word')}, sent by {accepted.transmitter}")
    if found.is_good:
        typer.echo("  computed anew from the stored logs it is the same, to the signed digest")
    if not found.is_same_block:
        typer.echo("  NOT the chain's block: the chain has another one at that height")
    for one in found.lanes:
        typer.echo(f"  lane {one.index}: {_differs(one)}")
    if found.registers is not None:
        ours = ", ".join(found.registers.fresh) or "nobody"
        typer.echo(f"  NOT the nodes that it had to register: computed {ours}")
    elif found.is_same_block and not found.is_same_digest and not found.lanes:
        typer.echo("  the words are the same, the digest is NOT: it was made under other rules")
    if contract is not None:
        holds = "holds" if contract else "does NOT hold"
        typer.echo(f"  the contract {holds} these words now")


def _differs(one: LaneDifference) -> str:
    return f"accepted {_said(one.accepted)}, computed {_said(one.computed)}"


def _said(lane: int | None) -> str:
    if lane is None:
        return "nothing"
    if lane == NEVER_REPORTED:
        return "never reported"
    if lane == DO_NOT_SELECT:
        return "do not select"
    return f"{(lane - LOWEST_SCORE) / _QOS_STEPS:.4f}"
