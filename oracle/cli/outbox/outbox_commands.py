"""`outbox list` and `outbox show`: what we want on chain, how far it has come, what to do."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.outbox import outbox_actions, rebuild_command
from oracle.cli.outbox.outbox_actions import CallArgument
from oracle.cli.outbox.outbox_view import show_intent, show_intents
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.ids import TaskKey
from oracle.errors import InputError
from oracle.queries.outbox.intent_view import intent_detail, intent_view, sent_of, task_of
from oracle.queries.outbox.outbox_advice import after_pause
from oracle.queries.outbox.outbox_figures import CALL_KINDS
from oracle.queries.text.prefixes import call_named
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    REBUILT,
    Intent,
    IntentState,
)

outbox = typer.Typer(no_args_is_help=True)
_KINDS = ", ".join((*CALL_KINDS, REBUILT))


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
    """Show one of them: every transaction signed for it, and its journal."""
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
    """Return who was drawn for the task that a start is about; None: no start, or no such draw."""
    task, seed = task_of(intent), intent.request.as_of_hash
    draws = [] if task is None else uow.draws.of_task(TaskKey(task))
    return next((draw.node for draw in draws if draw.seed_hash == seed), None)
