"""`outbox`: what we want on chain and how far it has come; and letting a sender go on."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from oracle.domain.ids import Address
from oracle.entrypoints.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    open_app,
    print_json,
)
from oracle.errors import InputError
from oracle.services.leasing import leased
from oracle.store.outbox_rows import (
    Account,
    Attempt,
    Intent,
    IntentState,
    JournalEntry,
    Stamp,
)
from oracle.store.store import Unit

# Wide enough for whole hashes where the terminal is none.
_PIPE_WIDTH = 200

outbox = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Put `outbox` on the command line."""
    app.add_typer(outbox, name="outbox", help="What we want on chain, and how far it has come.")


@outbox.command("list", epilog="Example: qos-oracle outbox list --state live --json")
def list_intents(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    state: Annotated[
        IntentState | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The newest so many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List what was wanted on chain, the newest first."""
    with open_app(config) as app, app.store.reading() as unit:
        intents = unit.outbox.intents.newest(limit, state)
        paused = unit.outbox.senders.paused()
    for account, reason in paused.items():
        typer.echo(f"{account.address} sends nothing: {reason} (`outbox release`)", err=True)
    if as_json:
        print_json([intent_answer(intent) for intent in intents])
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "kind", "about", "state", "nonce", "changed", "reason"):
        table.add_column(name)
    for intent in intents:
        table.add_row(*_cells(intent))
    Console(width=None if Console().is_terminal else _PIPE_WIDTH).print(table)


@outbox.command("show", epilog="Example: qos-oracle outbox show 7")
def show_intent(
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
    if as_json:
        print_json(
            {
                **intent_answer(intent),
                "attempts": [_attempt_answer(attempt) for attempt in attempts],
                "journal": [_entry_answer(entry) for entry in journal],
            }
        )
        return
    for name, value in intent_answer(intent).items():
        if value is not None:
            typer.echo(f"{name:<14}{value}")
    for attempt in attempts:
        typer.echo(f"{'transaction':<14}{attempt.signed.tx_hash}, sent {attempt.sends} times")
    for entry in journal:
        typer.echo(f"{_moment(entry.at)}  {entry.event:<10}{entry.detail}")


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
    typer.echo(f"{account.address} {would} again; it was stopped because {paused[account]}")


def intent_answer(intent: Intent) -> dict[str, object]:
    """Write an intent for programs; amounts in wei as decimal text."""
    wish = intent.wish
    return {
        "id": intent.id,
        "kind": wish.kind.value,
        "state": intent.state.value,
        "about": wish.subject or wish.dedup_key,
        "period": wish.period,
        "round": wish.round,
        "digest": wish.digest,
        "sender": wish.account.address,
        "nonce": intent.nonce,
        "gas_limit": intent.gas_limit,
        "max_cost_wei": None if intent.max_cost_wei is None else str(intent.max_cost_wei),
        "not_before": wish.not_before,
        "deadline": wish.deadline,
        "reason": _reason(intent) or None,
        "created_at": intent.created_at,
        "updated_at": intent.updated_at,
    }


def _attempts(unit: Unit, intent: Intent) -> list[Attempt]:
    if intent.nonce is None:
        return []
    slot = unit.outbox.slots.at(intent.wish.account, intent.nonce)
    return [] if slot is None else unit.outbox.slots.attempts(slot)


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


def _cells(intent: Intent) -> list[str]:
    wish = intent.wish
    about = f"round {wish.round}" + (f", {wish.subject}" if wish.subject else "")
    return [
        str(intent.id),
        wish.kind.value.replace("_", " "),
        about,
        intent.state.value,
        "" if intent.nonce is None else str(intent.nonce),
        _moment(intent.updated_at),
        _reason(intent),
    ]


def _reason(intent: Intent) -> str:
    return intent.error_text or intent.error_class or ""


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
