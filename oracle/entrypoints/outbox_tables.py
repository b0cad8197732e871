"""What `outbox` shows to people: a row for each wish, and one of them whole."""

from collections.abc import Iterable, Mapping, Sequence

import typer

from oracle.entrypoints.terminal import in_utc, print_table
from oracle.store.outbox_rows import Attempt, Intent, IntentState, JournalEntry

_COLUMNS = ("id", "kind", "about", "state", "nonce", "changed", "reason")
_TEXT = ("kind", "about", "state", "changed", "reason")
# Digits of a task's key that tell it from its neighbours in a list.
_SHORT = len("0x") + 8
_NAME_WIDTH = 14
_TIMES = {1: "once", 2: "twice"}
_TASK = "task="


def show_intents(intents: Iterable[Intent]) -> None:
    """Print a row for each; tasks by their first digits, reasons by their class."""
    print_table(_COLUMNS, map(_cells, intents), left=_TEXT)


def show_intent(
    answer: Mapping[str, object], attempts: Sequence[Attempt], journal: Sequence[JournalEntry]
) -> None:
    """Print everything that is known of one."""
    for name, value in answer.items():
        if value is not None:
            typer.echo(f"{name:<{_NAME_WIDTH}}{value}")
    for attempt in attempts:
        times = _TIMES.get(attempt.sends, f"{attempt.sends} times")
        sent = f"sent {times}" if attempt.sends else "not sent"
        typer.echo(f"{'transaction':<{_NAME_WIDTH}}{attempt.signed.tx_hash}, {sent}")
    for entry in journal:
        moment = in_utc(entry.at, "%Y-%m-%d %H:%M:%S")
        typer.echo(f"{moment}  {entry.event:<10}{entry.detail}".rstrip())


def task_of(intent: Intent) -> str | None:
    """Return the key of the task that a call of the dispatcher is about; None: about none."""
    first = intent.wish.subject.partition(":")[0]
    return first.removeprefix(_TASK) if first.startswith(_TASK) else None


def reason_of(intent: Intent) -> str | None:
    """Return why a call waits or came to nothing; None: there is nothing to say."""
    if intent.state in {IntentState.MINED, IntentState.FINAL}:
        return None
    return intent.error_text or intent.error_class


def _cells(intent: Intent) -> list[str]:
    told = reason_of(intent)
    return [
        str(intent.id),
        intent.wish.kind.value.replace("_", " "),
        _about(intent),
        intent.state.value,
        "" if intent.nonce is None else str(intent.nonce),
        in_utc(intent.updated_at, "%m-%d %H:%M:%S"),
        "" if told is None else intent.error_class or told,
    ]


def _about(intent: Intent) -> str:
    """Say it in few words: a task and its seed block, or a round and what it is about there."""
    wish, task = intent.wish, task_of(intent)
    if task is not None:
        seed = "" if wish.as_of_block is None else f", seed block {wish.as_of_block}"
        return f"{task[:_SHORT]}…{seed}"
    around = "" if wish.round is None else f"round {wish.round}"
    return ", ".join(part for part in (around, wish.subject) if part)
