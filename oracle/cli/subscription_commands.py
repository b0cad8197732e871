"""Implements `subscription`, which lists and ends the subscriptions of node owners."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_model,
)
from oracle.daemon.records import open_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.errors import InputError
from oracle.queries.command_models import SubscriptionEntry, build_subscription_entry
from oracle.queries.text.text_tables import format_block_time, format_table
from oracle.store.subscription_repository import SubscriptionState

subscription = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(
        subscription, name="subscription", help="List and end subscriptions of node owners."
    )


@subscription.command("list", epilog="Example: qos-oracle subscription list --json")
def list_subscriptions(
    config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False
) -> None:
    """List the subscriptions of node owners, oldest first, without delivery addresses.

    Subscriptions that ended within 30 days are listed with the reason.
    """
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        entries = [build_subscription_entry(entry) for entry in uow.subscriptions.list_all()]
    if as_json:
        print_model(entries)
        return
    if not entries:
        typer.echo("no owner has subscribed")
        return
    columns = ("id", "node", "channel", "state", "created", "kinds", "reason")
    for line in format_table(columns, [_build_cells(entry) for entry in entries]):
        typer.echo(line)


@subscription.command(
    "end", epilog='Example: qos-oracle subscription end 3f0c… --reason "the address bounces"'
)
def end_subscription(
    subscription_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the subscription, as `list` prints it.")
    ],
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason, which the owner can list.")
    ],
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """End the subscription of a node's owner, and erase the owner's address.

    The daemon may be running. The owner can subscribe again.
    """
    if not reason.strip():
        raise InputError("--reason: must not be empty")
    # No lease is needed, because owners also end subscriptions while the daemon runs.
    with open_records(load_config(config)) as records, records.store.transaction() as uow:
        stored_subscription = uow.subscriptions.get(subscription_id)
        if stored_subscription is None or stored_subscription.state is SubscriptionState.ENDED:
            raise InputError(
                f"{subscription_id}: no active subscription has this id; see "
                "`qos-oracle subscription list`"
            )
        if not dry_run:
            end_reason = f"ended by the operator: {reason.strip()}"
            uow.subscriptions.end(stored_subscription.id, end_reason, int(unix_seconds()))
        ended_subscription = uow.subscriptions.get(subscription_id) or stored_subscription
    if as_json:
        print_model(build_subscription_entry(ended_subscription))
        return
    verb = "would be" if dry_run else "is"
    typer.echo(f"subscription {ended_subscription.id} of {ended_subscription.node} {verb} ended")


def _build_cells(entry: SubscriptionEntry) -> tuple[str, ...]:
    return (
        *(entry.id, entry.node, entry.channel, entry.state),
        format_block_time(entry.created_at),
        ",".join(entry.kinds) or "all",
        entry.reason or "",
    )
