"""`notify test` and `notify list`: test messages and delivery progress of notification targets."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.daemon.notify_targets import targets_of
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.notify.target import NotDeliveredError, Target, a_test_message
from oracle.queries.notice_models import NoticeDelivery, NoticeRecipients, notice_target
from oracle.queries.text.text_tables import in_utc
from oracle.store.notice_repository import TargetPlace

notify = typer.Typer(no_args_is_help=True)
_FORM = "%Y-%m-%d %H:%M:%S UTC"


def register(app: typer.Typer) -> None:
    """Register `notify` on the command line."""
    app.add_typer(notify, name="notify", help="Who is told what happened.")


@notify.command("test", epilog="Example: qos-oracle notify test --target pager")
def send_tests(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    target: Annotated[
        str | None, typer.Option("--target", metavar="NAME", help="This one alone.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say who would be told, and tell nobody.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a test message to each notification target.

    The daemon may be running. Test messages have no sequence number and are not recorded, so the
    delivery progress of the targets is unchanged.
    """
    targets = targets_of(load_config(config).notify, unix_seconds)
    if not targets:
        raise InputError("[[notify]]: names no target; docs/how-to/notifications.md says how")
    chosen = [one for one in targets if target in {None, one.name}]
    if not chosen:
        named = ", ".join(one.name for one in targets)
        raise InputError(f"--target {target}: no such target in [[notify]], which has {named}")
    if dry_run:
        _print_recipients([target.name for target in chosen], as_json=as_json)
        return
    results = {one.name: _sent(one) for one in chosen}
    if as_json:
        print_answer([NoticeDelivery(target=name, error=error) for name, error in results.items()])
    else:
        for name, error in results.items():
            typer.echo(f"{name}: {'took it' if error is None else error}")
    if any(error is not None for error in results.values()):
        raise typer.Exit(1)


def _print_recipients(names: list[str], *, as_json: bool) -> None:
    if as_json:
        print_answer(NoticeRecipients(would_be_told=names))
    else:
        typer.echo(f"dry run, nothing sent: would be told: {', '.join(names)}")


def _sent(target: Target) -> str | None:
    try:
        target.send(a_test_message(int(unix_seconds())))
    except NotDeliveredError as error:
        return str(error)
    return None


@notify.command("list", epilog="Example: qos-oracle notify list --json")
def list_targets(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """List the notification targets with progress and last error."""
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        names = [one.name for one in records.config.notify]
        newest = uow.notices.newest()
        places = {one.target: one for one in uow.notices.places()}
    if as_json:
        print_answer([notice_target(name, places.get(name), newest) for name in names])
        return
    if not names:
        typer.echo("nobody is told: [[notify]] names no target")
    for name in names:
        typer.echo(f"{name}: {_state(places.get(name), newest)}")


def _state(place: TargetPlace | None, newest: int) -> str:
    if place is None:
        return "new: told of what comes from the daemon's next turn on"
    if place.tries:
        return (
            f"told up to {place.seq} of {newest}; the next failed {place.tries} times "
            f"({place.last_error}), and is tried again at {in_utc(place.next_at, _FORM)}"
        )
    return f"told up to {place.seq} of {newest}"
