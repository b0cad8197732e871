"""What `queue` shows to people: one table for each group, then who comes and who goes."""

from collections.abc import Sequence

import typer

from oracle.cli.select.select_tables import shown_as_of
from oracle.domain.state.task import Task
from oracle.queries.selection.asked_downloads import AskedDownload, downloads_in
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.queue_view import NodeOffer, QueueCapacity, QueueSnapshot, TrioOffer
from oracle.queries.text.text_tables import foreign, print_table
from oracle.systems.crynux.crynux_queue import QueuedTask, QueueGroup
from oracle.systems.legacy.legacy_queue import TaskGroup, TrioTask as LegacyOffer

# Of each group, on a terminal; --json has them all.
_MOST_ROWS = 20


def show_queue(
    line: QueueSnapshot, snapshot: NetworkSnapshot, capacity: QueueCapacity | None
) -> None:
    """Print the groups in order, the largest VRAM first, and how many more fit in."""
    queue = line.queue
    tasks = "1 task waits" if len(queue) == 1 else f"{len(queue)} tasks wait"
    typer.echo(f"{tasks}, {shown_as_of(snapshot)}")
    for group, entries in queue.groups().items():
        typer.echo("")
        typer.echo(f"{shown_group(group)}: {len(entries)}")
        rows = [(each.key, _value(each), str(each.created.block)) for each in entries[:_MOST_ROWS]]
        print_table(("task", "wei/s", "block"), rows)
        if len(entries) > _MOST_ROWS:
            typer.echo(f"… and {len(entries) - _MOST_ROWS} more; --json has them all")
    _show_left_out(line.left_out)
    _show_drawn(snapshot)
    _show_downloads(downloads_in(snapshot))
    if capacity is not None:
        typer.echo("")
        typer.echo(
            f"{capacity.most} may wait, with {capacity.members} members; one more would drop"
        )
        for each in capacity.dropped[:_MOST_ROWS]:
            typer.echo(f"  {each.key}")
        if not capacity.dropped:
            typer.echo("  nothing")


def _show_left_out(tasks: Sequence[Task]) -> None:
    if not tasks:
        return
    typer.echo("")
    typer.echo("not in line: the group is not complete, or can start no more")
    for task in tasks[:_MOST_ROWS]:
        typer.echo(f"  {task.key}")
    if len(tasks) > _MOST_ROWS:
        typer.echo(f"… and {len(tasks) - _MOST_ROWS} more; --json has them all")


def _show_drawn(snapshot: NetworkSnapshot) -> None:
    if not snapshot.drawn:
        return
    typer.echo("")
    typer.echo("drawn, and about to start")
    for key, address in snapshot.drawn.items():
        typer.echo(f"  {key}")
        typer.echo(f"      on {address}")


def _show_downloads(downloads: Sequence[AskedDownload]) -> None:
    if not downloads:
        return
    typer.echo("")
    typer.echo("asked to download a model that few available nodes have")
    for each in downloads[:_MOST_ROWS]:
        typer.echo(f"  {foreign(each.model)} ({each.state})")
        typer.echo(f"      {each.node}")
    if len(downloads) > _MOST_ROWS:
        typer.echo(f"… and {len(downloads) - _MOST_ROWS} more; --json has them all")


def show_offer(offer: NodeOffer | TrioOffer) -> None:
    """Print what a node would take, and why not each other head."""
    typer.echo("")
    if offer.unfit is not None:
        typer.echo(f"node {offer.node} takes nothing: it is {_words(offer.unfit)}")
        return
    typer.echo(f"node {offer.node}, if it were freed now, takes")
    if isinstance(offer, TrioOffer):
        _show_trios(offer.offers)
        return
    taken = offer.taken
    typer.echo("  nothing that waits" if taken is None else f"  {taken.waiting.key}")
    for head in offer.heads:
        if head.why_not is not None:
            typer.echo(f"  not {head.waiting.key}")
            typer.echo(f"      {shown_group(head.group)}: {_words(head.why_not)}")


def _show_trios(offers: Sequence[LegacyOffer]) -> None:
    if not offers:
        typer.echo("  nothing that waits: no three nodes can run any of it")
    for place, offer in enumerate(offers):
        typer.echo(f"  {'not ' if place else ''}{offer.waiting.key}")
        card = offer.combination.card
        those = f"at least {offer.combination.vram} GB" if card is None else foreign(card.text)
        why = ", less valuable" if place else ""
        typer.echo(f"      {offer.group.text}: with 2 of {len(offer.partners)}, {those}{why}")
        for node in offer.partners[:_MOST_ROWS] if not place else ():
            typer.echo(f"        {node.address}")


def shown_group(group: QueueGroup | TaskGroup) -> str:
    """Say what the tasks of a group ask for."""
    if isinstance(group, TaskGroup):
        return group.text
    card = "any GPU" if group.gpu is None else foreign(group.gpu)
    return f"{group.vram} GB, {card}"


def _value(waiting: QueuedTask) -> str:
    """Whole wei a second; less than one is shown as a fraction."""
    value = waiting.value
    return str(int(value)) if value >= 1 or not value else f"{float(value):.6f}"


def _words(reason: str) -> str:
    return reason.replace("_", " ")
