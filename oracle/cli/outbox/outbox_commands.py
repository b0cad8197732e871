"""`outbox list` and `outbox show`: what we want on chain, how far it has come, what to do."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_json
from oracle.cli.outbox import outbox_actions, rebuild_command
from oracle.cli.outbox.outbox_actions import named
from oracle.cli.outbox.outbox_view import reason_of, show_intent, show_intents, task_of
from oracle.cli.write_session import unix_seconds
from oracle.domain.ids import TaskKey
from oracle.errors import InputError
from oracle.queries.outbox_figures import CALL_KINDS
from oracle.queries.text.outbox_advice import SentState, advice, after_pause
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    ADOPTED,
    Attempt,
    Intent,
    IntentState,
    JournalEntry,
    NonceSlot,
)

outbox = typer.Typer(no_args_is_help=True)
_KINDS = ", ".join((*CALL_KINDS, ADOPTED))


def register(app: typer.Typer) -> None:
    """Put `outbox` on the command line."""
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
    """List what was wanted on chain, the newest first.

    A task is shown by its first digits, a reason by its class: `outbox show ID` has all of it.
    """
    if kind is not None and kind not in (*CALL_KINDS, ADOPTED):
        raise InputError(f"--kind {kind}: there are {_KINDS}")
    with open_app(config) as app, app.store.reading() as uow:
        intents = uow.outbox.intents.newest(limit, state, kind)
        paused = uow.outbox.senders.paused()
        sent = [sent_of(uow, intent) for intent in intents]
    for account, pause in paused.items():
        typer.echo(
            f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}): "
            f"{after_pause(account, pause)}",
            err=True,
        )
    if as_json:
        pairs = zip(intents, sent, strict=True)
        print_json([intent_answer(intent, one) for intent, one in pairs])
        return
    show_intents(zip(intents, sent, strict=True), int(unix_seconds()))


@outbox.command("show", epilog="Example: qos-oracle outbox show 7")
def show_one(
    intent_id: Annotated[int, typer.Argument(metavar="ID", help="As `outbox list` shows it.")],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show one of them: every transaction signed for it, and its journal."""
    with open_app(config) as app, app.store.reading() as uow:
        intent = named(uow, intent_id)
        journal = uow.outbox.journal.of_intent(intent_id)
        sent = sent_of(uow, intent)
        answer = {**intent_answer(intent, sent), "node": _node(uow, intent)}
    if not as_json:
        show_intent(answer, sent.attempts, journal)
        return
    print_json({**answer, "journal": [_entry_answer(entry) for entry in journal]})


def intent_answer(intent: Intent, sent: SentState) -> dict[str, object]:
    """Write an intent for programs; amounts in wei as decimal text, times in unix seconds."""
    wish, told, slot = intent.wish, advice(intent, sent), sent.slot
    return {
        "id": intent.id,
        "kind": wish.kind,
        "state": intent.state.value,
        "about": wish.subject or wish.dedup_key,
        "task": task_of(intent),
        "period": wish.period,
        "round": wish.round,
        "as_of_block": wish.as_of_block,
        "as_of_hash": wish.as_of_hash,
        "digest": wish.digest,
        "sender": wish.account.address,
        "nonce": intent.nonce,
        "opened_block": None if slot is None else slot.opened_block,
        "mined_block": None if slot is None else slot.block_number,
        "gas_limit": intent.gas_limit,
        "max_cost_wei": None if intent.max_cost_wei is None else str(intent.max_cost_wei),
        "not_before": wish.not_before,
        "deadline": wish.deadline,
        "reason": reason_of(intent),
        "replaces": intent.replaces,
        "superseded_by": intent.superseded_by,
        "age_seconds": max(0, int(unix_seconds()) - intent.created_at),
        "waits_for": told.waits_for,
        "what_to_do": told.what_to_do,
        "created_at": intent.created_at,
        "updated_at": intent.updated_at,
        "attempts": [_attempt_answer(attempt, slot) for attempt in sent.attempts],
    }


def sent_of(uow: UnitOfWork, intent: Intent) -> SentState:
    """Return what was sent of a call, its rivals on the same nonce too."""
    account = intent.wish.account
    pause = uow.outbox.senders.paused_because(account)
    slot = None if intent.nonce is None else uow.outbox.slots.at(account, intent.nonce)
    return SentState(slot, [] if slot is None else uow.outbox.slots.attempts(slot), pause)


def _node(uow: UnitOfWork, intent: Intent) -> str | None:
    """Return who was drawn for the task that a start is about; None: no start, or no such draw."""
    task, seed = task_of(intent), intent.wish.as_of_hash
    draws = [] if task is None else uow.draws.of_task(TaskKey(task))
    return next((draw.node for draw in draws if draw.seed_hash == seed), None)


def _attempt_answer(attempt: Attempt, slot: NonceSlot | None) -> dict[str, object]:
    return {
        "hash": attempt.signed.tx_hash,
        "intent": attempt.intent_id,
        "why": attempt.reason.value,
        "won": slot is not None and slot.won_attempt == attempt.id,
        "max_fee_wei": str(attempt.signed.max_fee_wei),
        "tip_wei": str(attempt.signed.tip_wei),
        "gas_limit": attempt.signed.gas_limit,
        "sends": attempt.sends,
        "first_sent_block": attempt.first_sent_block,
        "last_sent_block": attempt.last_sent_block,
        "last_error": attempt.last_error_class,
        "last_error_text": attempt.last_error_text,
    }


def _entry_answer(entry: JournalEntry) -> dict[str, object]:
    return {
        "at": entry.at,
        "event": entry.event,
        "detail": entry.detail,
        "epoch": entry.epoch,
        "actor": entry.actor,
    }
