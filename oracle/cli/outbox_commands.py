"""Implements `outbox list` and `outbox show`, which print intents, transactions and advice."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated

import typer

from oracle.cli import outbox_actions, outbox_rebuild
from oracle.cli.options import (
    DEFAULT_CONFIG,
    MAX_STORED_NUMBER,
    ConfigOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.cli.outbox_actions import CallArgument
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.ids import TaskKey
from oracle.errors import InputError
from oracle.queries.intent_view import (
    AttemptView,
    IntentDetail,
    JournalLine,
    SentState,
    build_intent_detail,
    build_intent_view,
    find_wait_or_failure_reason,
    format_resume_action,
    load_sent_state,
    parse_group_key,
    parse_task_key,
)
from oracle.queries.text.human_numbers import format_duration, format_gwei
from oracle.queries.text.prefixes import find_intent
from oracle.queries.text.text_tables import format_utc, print_table
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CALL_KINDS, REBUILT, Attempt, Intent, IntentState

_COLUMNS = ("id", "kind", "about", "state", "nonce", "sent", "gwei", "age", "changed", "reason")
_TEXT_COLUMNS = ("kind", "about", "state", "changed", "reason")
_ETHER = 10**18
_TIME_FIELDS = ("created_at", "updated_at", "not_before", "deadline")
# Printed below the other fields, one line per entry.
_NESTED_FIELDS = ("attempts", "journal")
_AGE_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))
# This many characters identify a task in a list.
_TASK_PREFIX_LENGTH = len("0x") + 8
_NAME_WIDTH = 14
_EVENT_WIDTH = len("superseded")
_COUNT_WORDS = {1: "once", 2: "twice"}
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


def show_intents(intent_states: Iterable[tuple[Intent, SentState]], now: int) -> None:
    """Print a row for each intent, with a shortened task key and the error class.

    `sent` counts all broadcasts of the transactions that were signed for the nonce. `gwei` is the
    max fee of the newest transaction. `age` is the time from the creation of the intent until
    `now`, in unix seconds.
    """
    rows = [_format_row(*intent_state, now) for intent_state in intent_states]
    if not rows:
        typer.echo("no matching intents")
        return
    print_table(_COLUMNS, rows, left_columns=_TEXT_COLUMNS)


def show_intent(intent_detail: IntentDetail) -> None:
    for name in type(intent_detail).model_fields:
        value = getattr(intent_detail, name)
        # The task has a line of its own, so `about` would repeat it.
        is_omitted = name in _NESTED_FIELDS or (name == "about" and intent_detail.task is not None)
        if value is not None and not is_omitted:
            label = name.removesuffix("_wei").removesuffix("_seconds").replace("_", " ")
            typer.echo(f"{label:<{_NAME_WIDTH}}{_format_field(name, value)}")
    for attempt in intent_detail.attempts:
        typer.echo(f"{'transaction':<{_NAME_WIDTH}}{_format_attempt(attempt)}")
    for _, repeated_entries in groupby(
        intent_detail.journal, key=lambda entry: (entry.event, entry.detail, entry.actor)
    ):
        typer.echo(_format_journal_entries(list(repeated_entries)))


def _format_field(name: str, value: object) -> str:
    """Format a field's value as readable text; `--json` has the raw value."""
    if name in _TIME_FIELDS:
        return f"{format_utc(int(str(value)), _TIME_FORMAT)} UTC"
    if name == "max_cost_wei":
        return f"{int(str(value)) / _ETHER:.9f} ether"
    return format_duration(int(str(value))) if name == "age_seconds" else str(value)


def _format_journal_entries(entries: Sequence[JournalLine]) -> str:
    """Format consecutive journal entries with equal content as one line."""
    first_entry = entries[0]
    last_entry = entries[-1]
    actor_note = "" if first_entry.actor is None else f"by {first_entry.actor}"
    detail = " ".join(part for part in (first_entry.detail, actor_note) if part)
    count_text = _COUNT_WORDS.get(len(entries), f"{len(entries)} times")
    repeat_note = (
        ""
        if len(entries) == 1
        else f" ({count_text}, until {format_utc(last_entry.at, _TIME_FORMAT)})"
    )
    entry_text = f"{first_entry.event:<{_EVENT_WIDTH}} {detail}".rstrip()
    return f"{format_utc(first_entry.at, _TIME_FORMAT)}  {entry_text}{repeat_note}"


def _format_attempt(attempt: AttemptView) -> str:
    """Format the hash, fees, broadcast count and last error of an attempt."""
    count_text = _COUNT_WORDS.get(attempt.sends, f"{attempt.sends} times")
    sent_text = f"sent {count_text}" if attempt.sends else "not sent"
    since_text = (
        "" if attempt.first_sent_block is None else f" since block {attempt.first_sent_block}"
    )
    error = attempt.last_error_text or attempt.last_error
    fee_text = f"up to {format_gwei(attempt.max_fee_wei)} gwei, tip {format_gwei(attempt.tip_wei)}"
    error_note = "" if error is None else f"; last error: {error}"
    return f"{attempt.hash}, {sent_text}{since_text} ({attempt.why}; {fee_text}{error_note})"


def _format_row(intent: Intent, sent_state: SentState, now: int) -> list[str]:
    newest_attempt = sent_state.attempts[-1] if sent_state.attempts else None
    return [
        str(intent.id),
        intent.request.kind.replace("_", " "),
        _describe_intent_subject(intent),
        intent.state.value,
        "" if intent.nonce is None else str(intent.nonce),
        ""
        if newest_attempt is None
        else str(sum(attempt.sends for attempt in sent_state.attempts)),
        "" if newest_attempt is None else format_gwei(newest_attempt.signed.max_fee_wei),
        _format_age(now - intent.created_at),
        format_utc(intent.updated_at, "%m-%d %H:%M:%S"),
        _format_reason(intent, newest_attempt),
    ]


def _format_reason(intent: Intent, newest_attempt: Attempt | None) -> str:
    """Return a live intent's last error class, or why the intent waits or has ended."""
    if intent.state is IntentState.LIVE and newest_attempt is not None:
        return newest_attempt.last_error_class or ""
    if find_wait_or_failure_reason(intent) is None:
        return ""
    return intent.error_class or find_wait_or_failure_reason(intent) or ""


def _format_age(seconds: int) -> str:
    for unit, unit_seconds in _AGE_UNITS:
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds} {unit}"
    return f"{max(0, seconds)} s"


def _describe_intent_subject(intent: Intent) -> str:
    """Return an intent's task or group, or else its round."""
    request = intent.request
    task_or_group = parse_task_key(intent) or parse_group_key(intent)
    if task_or_group is not None:
        block_note = "" if request.as_of_block is None else f", block {request.as_of_block}"
        return f"{task_or_group[:_TASK_PREFIX_LENGTH]}…{block_note}"
    round_text = "" if request.round is None else f"round {request.round}"
    return ", ".join(part for part in (round_text, request.subject) if part)


outbox = typer.Typer(no_args_is_help=True)
_KINDS = ", ".join((*CALL_KINDS, REBUILT))


def register(app: typer.Typer) -> None:
    outbox_actions.add_outbox_action_commands(outbox)
    outbox_rebuild.add_rebuild_command(outbox)
    app.add_typer(
        outbox,
        name="outbox",
        help="List, inspect and control the daemon's transactions.",
    )


@outbox.command("list", epilog="Example: qos-oracle outbox list --kind push --state live --json")
def list_intents(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    kind: Annotated[
        str | None, typer.Option("--kind", help=f"Only intents of this kind: {_KINDS}.")
    ] = None,
    state: Annotated[
        IntentState | None, typer.Option("--state", help="Only intents in this state.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=1,
            max=MAX_STORED_NUMBER,
            help="Maximum number of intents, newest first.",
        ),
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """List intents, newest first.

    Task keys are shortened to their first digits, and reasons to their kind. `outbox show ID`
    shows both in full.
    """
    if kind is not None and kind not in (*CALL_KINDS, REBUILT):
        raise InputError(f"--kind {kind}: unknown kind; expected one of: {_KINDS}")
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        intents = uow.outbox.intents.list_newest(limit, state, kind)
        pause_by_account = uow.outbox.accounts.get_pause_by_account()
        sent_states = [load_sent_state(uow, intent) for intent in intents]
    for account, pause in pause_by_account.items():
        typer.echo(
            f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}): "
            f"{format_resume_action(account, pause)}",
            err=True,
        )
    now = int(unix_seconds())
    if as_json:
        intents_with_states = zip(intents, sent_states, strict=True)
        print_model(
            [
                build_intent_view(intent, sent_state, now)
                for intent, sent_state in intents_with_states
            ]
        )
        return
    show_intents(zip(intents, sent_states, strict=True), now)


@outbox.command("show", epilog="Example: qos-oracle outbox show 7")
def show_call(
    call_reference: CallArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show one intent: all transactions signed for it, and its journal."""
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        intent = find_intent(uow, call_reference)
        journal = uow.outbox.journal.list_for_intent(intent.id)
        sent_state = load_sent_state(uow, intent)
        view = build_intent_view(intent, sent_state, int(unix_seconds()))
        intent_detail = build_intent_detail(view, _find_drawn_node(uow, intent), journal)
    if as_json:
        print_model(intent_detail)
    else:
        show_intent(intent_detail)


def _find_drawn_node(uow: UnitOfWork, intent: Intent) -> str | None:
    """Return the node drawn for the task that a call starts, if there is one."""
    task = parse_task_key(intent)
    seed_hash = intent.request.as_of_hash
    draws = [] if task is None else uow.draws.list_for_task(TaskKey(task))
    return next((draw.node for draw in draws if draw.seed_hash == seed_hash), None)
