"""`report show` and `report push`: what a period says about every node, and sending it by hand."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from oracle.app import App
from oracle.chain.heads import Heads
from oracle.domain.lanes import (
    DO_NOT_SELECT,
    LANES_PER_WORD,
    LOWEST_SCORE,
    NEVER_REPORTED,
    lanes_of,
)
from oracle.domain.report import Report, decode
from oracle.domain.turns import Cut
from oracle.entrypoints.acting import unix_seconds
from oracle.entrypoints.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    open_folded,
    print_json,
)
from oracle.entrypoints.sending import published, rehearsed
from oracle.errors import InputError
from oracle.publisher.contract import Standing
from oracle.services.desk import Desk, Step
from oracle.services.missed import MISSED
from oracle.services.planning import cuts_now, plan_push, turn_now, why_missed
from oracle.services.quorum.landing import waits_for_finality
from oracle.services.recalling import last_block_of, recall
from oracle.services.timing.gating import why_held
from oracle.store.gates import Gate
from oracle.store.reports import ReportState, StoredReport
from oracle.store.store import Unit

_QOS_STEPS = 10_000
# Wide enough for whole rows where the terminal is none.
_PIPE_WIDTH = 160

report = typer.Typer(no_args_is_help=True)

_PeriodOption = Annotated[
    int | None, typer.Option("--period", min=0, metavar="P", help="Only this period, in full.")
]
_PublishOption = Annotated[
    bool, typer.Option("--publish/--dry-run", help="Send it; default: only say what it would be.")
]


def register(app: typer.Typer) -> None:
    """Put `report` on the command line."""
    app.add_typer(report, name="report", help="What periods say about nodes.")


@report.command(epilog="Example: qos-oracle report show --period 29764920 --json")
def show(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    period: _PeriodOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest reports, or compute one period's anew from the stored logs.

    The computed report is compared with the one that was cut; exit code 1 if they differ.
    """
    with open_folded(config) as app:
        if period is None:
            _list(app, as_json=as_json)
            return
        _show(app, period, as_json=as_json)


@report.command(epilog="Example: qos-oracle report push --publish")
def push(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    publish: _PublishOption = False,
    as_json: JsonOption = False,
) -> None:
    """Push the report that has the turn; a dry run unless --publish."""
    with open_folded(config) as app:
        app.require_oracle()
        first = _turn(app)
        if publish:
            sent = published(app, "report push", _plan)
            _check_pushed(first, sent)
            steps = [f"{step.did} {step.detail}" for step in sent]
        else:
            steps = [_rehearsed(app, first)]
    answer = {**_facts(first), "dry_run": not publish, "steps": steps}
    if as_json:
        print_json(answer)
        return
    typer.echo(f"period {first.period}, as of block {first.as_of.number}")
    for step in steps:
        typer.echo(f"  {step}")


def _check_pushed(turn: Report, steps: list[Step]) -> None:
    """Make sure that something came of it: a report may lose its turn while it is looked at.

    Raises:
        InputError: nothing did.
    """
    if all(step.did == MISSED for step in steps):
        raise InputError(
            f"nothing was pushed: period {turn.period} lost its turn meanwhile, too old to be "
            "accepted; `qos-oracle run --once` folds what came since, and cuts the next"
        )


def _turn(app: App) -> Report:
    """Return the report that has the turn.

    Raises:
        InputError: none has, and why.
    """
    standing = app.publisher.contract.standing()
    with app.store.reading() as unit:
        cuts = cuts_now(unit, app.report_settings)
        found = turn_now(unit, app.report_settings, cuts, standing)
        due = [
            one.cut
            for one in cuts
            if one.state is ReportState.DUE and not waits_for_finality(unit, one)
        ]
        is_late = found is not None and any(
            one.cut.period == found.report.period and why_missed(one.cut, standing) is not None
            for one in cuts
        )
        held = None if found is None or is_late else _held(app, unit, found)
    if held is not None:
        period = held.period
        raise InputError(f"period {period} is held: {held.reason}; `report release {period}`")
    if found is not None and not is_late:
        return found.report
    raise InputError(_why_none(due, standing))


def _why_none(due: list[Cut], standing: Standing) -> str:
    """Say why no report has the turn; `due` are those that wait for it, the oldest first."""
    if not due:
        return "no report is due: the next one is cut when a period ends"
    gone = {cut.period: why_missed(cut, standing) for cut in due}
    alive = next((period for period, why in gone.items() if why is None), None)
    if alive is None:
        newest = due[-1].period
        return (
            f"no report has the turn: nothing that is due can be accepted any more (the newest, "
            f"{newest}: {gone[newest]}); `qos-oracle run --once` folds what came since, and cuts "
            "the next"
        )
    return (
        f"no report has the turn; the first that is due, {alive}, waits until it is folded that "
        "the last round was accepted, or for a shift that was seen from its start"
    )


def _rehearsed(app: App, turn: Report) -> str:
    said = rehearsed(app, plan_push, "it would be sent, as far as that goes now")
    desk = app.desk(0, unix_seconds)
    with app.store.reading() as unit:
        stored = unit.reports.at(turn.period)
        is_signed = stored is None or stored.digest is not None or not desk.publisher.has_signer
        why = None if is_signed else why_held(desk, unit, turn)
    return said if why is None else f"it would be held: {why}"


def _held(app: App, unit: Unit, turn: StoredReport) -> Gate | None:
    """Return what keeps a report from being signed until a human lets it go; None: nothing."""
    gate = unit.gates.at(turn.report.period)
    is_ours = app.publisher.has_signer and turn.digest is None
    return gate if is_ours and gate is not None and gate.released_at is None else None


def _plan(desk: Desk, heads: Heads) -> Step | None:
    """Sign, gather and plan, as far as that goes now; return the last step of it."""
    last = None
    while (step := plan_push(desk, heads)) is not None:
        last = step
        if step.intent is not None:
            break
    return last


def _list(app: App, *, as_json: bool) -> None:
    with app.store.reading() as unit:
        stored = unit.reports.latest()
    if as_json:
        print_json([{**_facts(one.report), **_fate(one)} for one in stored])
        return
    table = Table("period", "as of block", "round", "words", "state", "reason")
    for one in stored:
        words = len(decode(one.report.records))
        number = "" if one.round is None else str(one.round)
        facts = (one.report.period, one.report.as_of.number, number, words, one.state.value)
        table.add_row(*map(str, facts), one.reason or "")
    _console().print(table)


def _show(app: App, period: int, *, as_json: bool) -> None:
    as_of = last_block_of(app.chain, app.store, period, app.report_settings.period_seconds)
    computed = recall(app.store, app.reader, app.rules, app.report_settings, as_of)
    with app.store.reading() as unit:
        stored = unit.reports.at(period)
        indexes = unit.rounds.load().indexes
    # A missed report may speak of a block that left the chain.
    is_kept = stored is not None and stored.state is not ReportState.MISSED
    same = stored.report == computed if stored is not None and is_kept else None
    lanes: list[dict[str, object]] = [
        {
            "index": index,
            "node": indexes[index].node if index in indexes else None,
            "says": _spoken(lane),
        }
        for word, value in decode(computed.records)
        for index, lane in enumerate(lanes_of(value), start=word * LANES_PER_WORD)
        if lane != NEVER_REPORTED
    ]
    if as_json:
        fate = {} if stored is None else _fate(stored)
        print_json({**_facts(computed), **fate, "same_as_cut": same, "lanes": lanes})
    else:
        _print_one(computed, stored, lanes)
    if same is False:
        raise typer.Exit(1)


def _print_one(
    computed: Report, stored: StoredReport | None, lanes: list[dict[str, object]]
) -> None:
    console = _console()
    when = f"as of block {computed.as_of.number} (time {computed.as_of.time})"
    console.print(f"period {computed.period}, {when}, on top of round {computed.head_round}")
    if stored is None:
        console.print("no report was cut for it: this one was computed from the stored logs")
    else:
        words = "the same" if stored.report == computed else "NOT the same"
        reason = f": {stored.reason}" if stored.reason else ""
        console.print(f"{stored.state.value}{reason}; computed anew it is {words}")
    table = Table("lane", "node", "says")
    for lane in lanes:
        table.add_row(str(lane["index"]), str(lane["node"] or "-"), str(lane["says"]))
    console.print(table if lanes else "it has nothing to say")


def _facts(found: Report) -> dict[str, object]:
    return {
        "period": found.period,
        "as_of": {
            "block": found.as_of.number,
            "hash": found.as_of.hash,
            "time": found.as_of.time,
        },
        "head_round": found.head_round,
        "prev": found.prev,
        "deadline": found.deadline,
        "words": len(decode(found.records)),
        "fingerprint": found.fingerprint,
    }


def _fate(stored: StoredReport) -> dict[str, object]:
    return {
        "state": stored.state.value,
        "reason": stored.reason,
        "round": stored.round,
        "digest": stored.digest,
    }


def _spoken(lane: int) -> str:
    if lane == DO_NOT_SELECT:
        return "do not select"
    return f"{(lane - LOWEST_SCORE) / _QOS_STEPS:.4f}"


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)
