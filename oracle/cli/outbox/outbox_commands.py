"""`outbox list` and `outbox show`: intents, their transactions, and advice about them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.outbox import outbox_actions, rebuild_command
from oracle.cli.outbox.outbox_actions import CallArgument
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.ids import TaskKey
from oracle.errors import InputError
from oracle.queries.intent_view import (
    AttemptView,
    IntentDetail,
    JournalLine,
    group_of,
    intent_detail,
    intent_view,
    reason_of,
    sent_of,
    task_of,
)
from oracle.queries.outbox_advice import SentState, after_pause
from oracle.queries.outbox_figures import CALL_KINDS
from oracle.queries.text.human_numbers import span
from oracle.queries.text.prefixes import call_named
from oracle.queries.text.text_tables import in_utc, print_table
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    REBUILT,
    Attempt,
    Intent,
    IntentState,
)

_COLUMNS = ("id", "kind", "about", "state", "nonce", "sent", "gwei", "age", "changed", "reason")
_TEXT = ("kind", "about", "state", "changed", "reason")
_GWEI, _ETHER = 10**9, 10**18
_TIMES_OF_DAY = ("created_at", "updated_at", "not_before", "deadline")
# Printed below the other fields, one line per entry.
_NOT_SHOWN = ("attempts", "journal")
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))
# Digits of a task key that identify it in a list.
_SHORT = len("0x") + 8
_NAME_WIDTH = 14
_EVENT_WIDTH = len("superseded")
_TIMES = {1: "once", 2: "twice"}
_MOMENT = "%Y-%m-%d %H:%M:%S"


def show_intents(found: Iterable[tuple[Intent, SentState]], now: int) -> None:
    """Print one row per intent; tasks are shown by their first digits, reasons by their class.

    `sent` counts all broadcasts of the transactions signed for the nonce; `gwei` is the max fee of
    the newest one; `age` is the time since the intent was created, relative to `now` in unix
    seconds.
    """
    rows = [_cells(*one, now) for one in found]
    if not rows:
        typer.echo("the outbox has no such call")
        return
    print_table(_COLUMNS, rows, left=_TEXT)


def show_intent(answer: IntentDetail) -> None:
    """Print all details of one intent."""
    for name in type(answer).model_fields:
        value = getattr(answer, name)
        # The task has a line of its own.
        is_said = name in _NOT_SHOWN or (name == "about" and answer.task is not None)
        if value is not None and not is_said:
            spoken = name.removesuffix("_wei").removesuffix("_seconds").replace("_", " ")
            typer.echo(f"{spoken:<{_NAME_WIDTH}}{_said(name, value)}")
    for attempt in answer.attempts:
        typer.echo(f"{'transaction':<{_NAME_WIDTH}}{_told(attempt)}")
    for _, alike in groupby(answer.journal, key=lambda one: (one.event, one.detail, one.actor)):
        typer.echo(_lived(list(alike)))


def _said(name: str, value: object) -> str:
    """Return times, amounts and ages in readable form; --json has the raw values."""
    if name in _TIMES_OF_DAY:
        return f"{in_utc(int(str(value)), _MOMENT)} UTC"
    if name == "max_cost_wei":
        return f"{int(str(value)) / _ETHER:.9f} ether"
    return span(int(str(value))) if name == "age_seconds" else str(value)


def _lived(alike: Sequence[JournalLine]) -> str:
    """Return consecutive journal entries with equal content as one line."""
    first, last = alike[0], alike[-1]
    by = "" if first.actor is None else f"by {first.actor}"
    detail = " ".join(part for part in (first.detail, by) if part)
    times = _TIMES.get(len(alike), f"{len(alike)} times")
    again = "" if len(alike) == 1 else f" ({times}, until {in_utc(last.at, _MOMENT)})"
    said = f"{first.event:<{_EVENT_WIDTH}} {detail}".rstrip()
    return f"{in_utc(first.at, _MOMENT)}  {said}{again}"


def _told(attempt: AttemptView) -> str:
    """Return the hash, fees, number of broadcasts and last error of an attempt."""
    times = _TIMES.get(attempt.sends, f"{attempt.sends} times")
    sent = f"sent {times}" if attempt.sends else "not sent"
    since = "" if attempt.first_sent_block is None else f" since block {attempt.first_sent_block}"
    error = attempt.last_error_text or attempt.last_error
    pays = f"up to {attempt.max_fee_wei / _GWEI:g} gwei, tip {attempt.tip_wei / _GWEI:g}"
    answered = "" if error is None else f"; answered last: {error}"
    return f"{attempt.hash}, {sent}{since} ({attempt.why}; {pays}{answered})"


def _cells(intent: Intent, sent: SentState, now: int) -> list[str]:
    newest = sent.attempts[-1] if sent.attempts else None
    return [
        str(intent.id),
        intent.request.kind.replace("_", " "),
        _about(intent),
        intent.state.value,
        "" if intent.nonce is None else str(intent.nonce),
        "" if newest is None else str(sum(one.sends for one in sent.attempts)),
        "" if newest is None else f"{newest.signed.max_fee_wei / _GWEI:.3g}",
        _age(now - intent.created_at),
        in_utc(intent.updated_at, "%m-%d %H:%M:%S"),
        _why(intent, newest),
    ]


def _why(intent: Intent, newest: Attempt | None) -> str:
    """Return why an intent waits or ended; for a live one, the class of the last error."""
    if intent.state is IntentState.LIVE and newest is not None:
        return newest.last_error_class or ""
    return "" if reason_of(intent) is None else intent.error_class or reason_of(intent) or ""


def _age(seconds: int) -> str:
    for uow, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {uow}"
    return f"{max(0, seconds)} s"


def _about(intent: Intent) -> str:
    """Return the task started and the block that drew it, or the round and its subject."""
    request, started = intent.request, task_of(intent) or group_of(intent)
    if started is not None:
        seed = "" if request.as_of_block is None else f", block {request.as_of_block}"
        return f"{started[:_SHORT]}…{seed}"
    around = "" if request.round is None else f"round {request.round}"
    return ", ".join(part for part in (around, request.subject) if part)


outbox = typer.Typer(no_args_is_help=True)
_KINDS = ", ".join((*CALL_KINDS, REBUILT))


def register(app: typer.Typer) -> None:
    """Register `outbox` on the command line."""
    outbox_actions.add_to(outbox)
    rebuild_command.add_to(outbox)
    app.add_typer(outbox, name="outbox", help="What we want on chain, and how far it has come.")


@outbox.command("list", epilog="Example: qos-oracle outbox list --kind push --state live --json")
def list_intents(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    kind: Annotated[
        str | None, typer.Option("--kind", help=f"Only those of this kind: {_KINDS}.")
    ] = None,
    state: Annotated[
        IntentState | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List intents, newest first.

    Tasks are shown by their first digits and reasons by their class; `outbox show ID` has the
    details.
    """
    if kind is not None and kind not in (*CALL_KINDS, REBUILT):
        raise InputError(f"--kind {kind}: there are {_KINDS}")
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        intents = uow.outbox.intents.newest(limit, state, kind)
        paused = uow.outbox.accounts.paused()
        sent = [sent_of(uow, intent) for intent in intents]
    for account, pause in paused.items():
        typer.echo(
            f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}): "
            f"{after_pause(account, pause)}",
            err=True,
        )
    now = int(unix_seconds())
    if as_json:
        pairs = zip(intents, sent, strict=True)
        print_answer([intent_view(intent, one, now) for intent, one in pairs])
        return
    show_intents(zip(intents, sent, strict=True), now)


@outbox.command("show", epilog="Example: qos-oracle outbox show 7")
def show_one(
    which: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show one intent: all transactions signed for it, and its journal."""
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        intent = call_named(uow, which)
        journal = uow.outbox.journal.of_intent(intent.id)
        sent = sent_of(uow, intent)
        view = intent_view(intent, sent, int(unix_seconds()))
        answer = intent_detail(view, _node(uow, intent), journal)
    if as_json:
        print_answer(answer)
    else:
        show_intent(answer)


def _node(uow: UnitOfWork, intent: Intent) -> str | None:
    """Return the node drawn for the task of a start, or None if there is no such draw."""
    task, seed = task_of(intent), intent.request.as_of_hash
    draws = [] if task is None else uow.draws.of_task(TaskKey(task))
    return next((draw.node for draw in draws if draw.seed_hash == seed), None)
