"""`outbox`: what we want on chain and how far it has come; and letting a sender go on."""

import time
from typing import Annotated

import typer

from oracle.domain.ids import Address, TaskKey
from oracle.entrypoints.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    open_app,
    print_json,
)
from oracle.entrypoints.outbox_tables import reason_of, show_intent, show_intents, task_of
from oracle.errors import InputError
from oracle.services.leasing import leased
from oracle.store.outbox_rows import (
    Account,
    Attempt,
    Intent,
    IntentKind,
    IntentState,
    JournalEntry,
    Stamp,
)
from oracle.store.store import Unit

outbox = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Put `outbox` on the command line."""
    app.add_typer(outbox, name="outbox", help="What we want on chain, and how far it has come.")


@outbox.command("list", epilog="Example: qos-oracle outbox list --kind push --state live --json")
def list_intents(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    kind: Annotated[
        IntentKind | None, typer.Option("--kind", help="Only those of this kind.")
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
    with open_app(config) as app, app.store.reading() as unit:
        intents = unit.outbox.intents.newest(limit, state, kind)
        paused = unit.outbox.senders.paused()
    for account, pause in paused.items():
        typer.echo(f"{account.address} sends nothing: {pause.reason} (`outbox release`)", err=True)
    if as_json:
        print_json([intent_answer(intent) for intent in intents])
        return
    show_intents(intents)


@outbox.command("show", epilog="Example: qos-oracle outbox show 7")
def show_one(
    intent_id: Annotated[int, typer.Argument(metavar="ID", help="As `outbox list` shows it.")],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show one of them: every transaction signed for it, and its journal."""
    with open_app(config) as app, app.store.reading() as unit:
        intent = unit.outbox.intents.named(intent_id)
        if intent is None:
            raise InputError(f"the outbox has no {intent_id}; `qos-oracle outbox list` shows them")
        journal = unit.outbox.journal.of_intent(intent_id)
        attempts = _attempts(unit, intent)
        answer = {**intent_answer(intent), "node": _node(unit, intent)}
    if not as_json:
        show_intent(answer, attempts, journal)
        return
    print_json(
        {
            **answer,
            "attempts": [_attempt_answer(attempt) for attempt in attempts],
            "journal": [_entry_answer(entry) for entry in journal],
        }
    )


@outbox.command("release", epilog="Example: qos-oracle outbox release 0x…")
def release_sender(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The transmitter that rests.")],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
) -> None:
    """Let a transmitter send again, once a human has found out why it was stopped."""
    with open_app(config) as app:
        with app.store.reading() as unit:
            paused = unit.outbox.senders.paused()
        account = Account(app.config.chain.id, Address(address.lower()))
        if account not in paused:
            raise InputError(f"{address} is not stopped; `qos-oracle outbox list` shows who is")
        if not dry_run:
            with leased(app.store, "qos-oracle outbox release") as epoch:
                stamp = Stamp(int(time.clock_gettime(time.CLOCK_REALTIME)), epoch)
                with app.store.transaction() as unit:
                    unit.lease.guard(epoch)
                    unit.outbox.senders.resume(account, stamp)
    would = "would send" if dry_run else "sends"
    typer.echo(f"{account.address} {would} again; it was stopped because {paused[account].reason}")


def intent_answer(intent: Intent) -> dict[str, object]:
    """Write an intent for programs; amounts in wei as decimal text."""
    wish = intent.wish
    return {
        "id": intent.id,
        "kind": wish.kind.value,
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
        "gas_limit": intent.gas_limit,
        "max_cost_wei": None if intent.max_cost_wei is None else str(intent.max_cost_wei),
        "not_before": wish.not_before,
        "deadline": wish.deadline,
        "reason": reason_of(intent),
        "created_at": intent.created_at,
        "updated_at": intent.updated_at,
    }


def _attempts(unit: Unit, intent: Intent) -> list[Attempt]:
    if intent.nonce is None:
        return []
    slot = unit.outbox.slots.at(intent.wish.account, intent.nonce)
    return [] if slot is None else unit.outbox.slots.attempts(slot)


def _node(unit: Unit, intent: Intent) -> str | None:
    """Return who was drawn for the task that a start is about; None: no start, or no such draw."""
    task, seed = task_of(intent), intent.wish.as_of_hash
    draws = [] if task is None else unit.draws.of_task(TaskKey(task))
    return next((draw.node for draw in draws if draw.seed_hash == seed), None)


def _attempt_answer(attempt: Attempt) -> dict[str, object]:
    return {
        "hash": attempt.signed.tx_hash,
        "max_fee_wei": str(attempt.signed.max_fee_wei),
        "tip_wei": str(attempt.signed.tip_wei),
        "sends": attempt.sends,
        "last_error": attempt.last_error_class,
    }


def _entry_answer(entry: JournalEntry) -> dict[str, object]:
    return {"at": entry.at, "event": entry.event, "detail": entry.detail, "epoch": entry.epoch}
