"""Implements `notify`, which sends test messages and lists delivery progress."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_model
from oracle.daemon.notify_job import open_notification_targets
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.notify.target import NotDeliveredError, Target, build_test_message
from oracle.queries.command_models import NoticeDelivery, NoticeRecipients, build_notice_target
from oracle.queries.text.text_tables import format_block_time
from oracle.store.notice_repository import DeliveryProgress

notify = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(
        notify, name="notify", help="Test notification targets and show their delivery progress."
    )


@notify.command("test", epilog="Example: qos-oracle notify test --target pager")
def send_test_messages(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="Only the target with this name. Default: all targets in [[notify]].",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="List the targets that would receive a message; send nothing."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a test message to each notification target.

    The daemon may be running. Test messages have no sequence number and are not recorded, so the
    delivery progress of the targets is unchanged.
    """
    targets = open_notification_targets(load_config(config).notify, unix_seconds)
    if not targets:
        raise InputError("[[notify]]: no target is configured; see docs/how-to/notifications.md")
    selected_targets = [recipient for recipient in targets if target in {None, recipient.name}]
    if not selected_targets:
        target_names = ", ".join(recipient.name for recipient in targets)
        raise InputError(
            f"--target {target}: not a target in [[notify]]; expected one of: {target_names}"
        )
    if dry_run:
        _print_recipients([target.name for target in selected_targets], as_json=as_json)
        return
    error_by_target = {
        recipient.name: _send_test_message(recipient) for recipient in selected_targets
    }
    if as_json:
        print_model(
            [NoticeDelivery(target=name, error=error) for name, error in error_by_target.items()]
        )
    else:
        for name, error in error_by_target.items():
            typer.echo(f"{name}: {'delivered' if error is None else error}")
    if any(error is not None for error in error_by_target.values()):
        raise typer.Exit(1)


def _print_recipients(names: list[str], *, as_json: bool) -> None:
    if as_json:
        print_model(NoticeRecipients(recipients=names))
    else:
        typer.echo(f"dry run, nothing sent; a message would go to: {', '.join(names)}")


def _send_test_message(target: Target) -> str | None:
    try:
        target.send(build_test_message(int(unix_seconds())))
    except NotDeliveredError as error:
        return str(error)
    return None


@notify.command("list", epilog="Example: qos-oracle notify list --json")
def list_targets(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """List targets and owners' subscriptions with progress and last error."""
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        target_names = [target_settings.name for target_settings in records.config.notify]
        target_names += [entry.progress_name for entry in uow.subscriptions.list_live()]
        newest_seq = uow.notices.get_newest_seq()
        progress_by_target = {
            progress.target: progress for progress in uow.notices.list_progress()
        }
    if as_json:
        print_model(
            [
                build_notice_target(name, progress_by_target.get(name), newest_seq)
                for name in target_names
            ]
        )
        return
    if not target_names:
        typer.echo("no notification target is configured in [[notify]], and nobody subscribed")
    for name in target_names:
        typer.echo(
            f"{name}: {_describe_delivery_progress(progress_by_target.get(name), newest_seq)}"
        )


def _describe_delivery_progress(state: DeliveryProgress | None, newest_seq: int) -> str:
    if state is None:
        return "new: receives notices once the daemon's notifier runs"
    if state.tries:
        return (
            f"delivered up to {state.seq} of {newest_seq}; the next notice failed {state.tries} "
            f"times ({state.last_error}) and is retried at "
            f"{format_block_time(state.next_at)}"
        )
    return f"delivered up to {state.seq} of {newest_seq}"
