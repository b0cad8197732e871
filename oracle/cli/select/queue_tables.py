"""What `queue` shows to people: one table for each group, then who comes and who goes."""

from collections.abc import Sequence

import typer

from oracle.cli.select.select_tables import shown_as_of
from oracle.domain.fixed_point import UNIT
from oracle.queries.selection.queue_models import (
    QueueAnswer,
    QueueCapacity,
    QueueDownload,
    QueueEntry,
    QueueGroupName,
    QueueHead,
    QueueOffer,
)
from oracle.queries.text.text_tables import foreign, print_table
from oracle.systems.legacy.trio_line import TaskGroup

# Of each group, on a terminal; --json has them all.
_MAX_ROWS = 20


def show_queue(answer: QueueAnswer) -> None:
    """Print the groups in order, the largest VRAM first, then who comes and who goes."""
    tasks = "1 task waits" if answer.waiting == 1 else f"{answer.waiting} tasks wait"
    typer.echo(f"{tasks}, {shown_as_of(answer.as_of)}")
    for group in sorted({entry.queue_group for entry in answer.entries}, key=_group_order):
        _show_group(group, [entry for entry in answer.entries if entry.queue_group == group])
    _show_left_out(answer.left_out)
    _show_drawn(answer.entries)
    _show_downloads(answer.downloads)
    if answer.capacity is not None:
        _show_capacity(answer.capacity)
    if answer.offer is not None:
        _show_offer(answer.offer)


def _group_order(group: QueueGroupName) -> tuple[bool, int, bool, str]:
    if group.kind is not None:
        return group.kind == "gpt", group.vram, False, ""
    return False, -group.vram, group.gpu is None, group.gpu or ""


def _show_group(group: QueueGroupName, entries: Sequence[QueueEntry]) -> None:
    typer.echo("")
    typer.echo(f"{_group_text(group)}: {len(entries)}")
    rows = [
        (entry.task, _value_text(entry.value), str(entry.created.block))
        for entry in entries[:_MAX_ROWS]
    ]
    print_table(("task", "wei/s", "block"), rows)
    _show_more(len(entries))


def _show_capacity(capacity: QueueCapacity) -> None:
    typer.echo("")
    typer.echo(
        f"{capacity.max_tasks} may wait, with {capacity.members} members; one more would drop"
    )
    for key in capacity.dropped_next[:_MAX_ROWS]:
        typer.echo(f"  {key}")
    if not capacity.dropped_next:
        typer.echo("  nothing")


def _show_left_out(keys: Sequence[str]) -> None:
    if not keys:
        return
    typer.echo("")
    typer.echo("not in line: the group is not complete, or can start no more")
    for key in keys[:_MAX_ROWS]:
        typer.echo(f"  {key}")
    _show_more(len(keys))


def _show_drawn(entries: Sequence[QueueEntry]) -> None:
    drawn = [entry for entry in entries if entry.drawn]
    if not drawn:
        return
    typer.echo("")
    typer.echo("drawn, and about to start")
    for entry in drawn:
        for key, address in zip(entry.tasks, entry.drawn, strict=False):
            typer.echo(f"  {key}")
            typer.echo(f"      on {address}")


def _show_downloads(downloads: Sequence[QueueDownload]) -> None:
    if not downloads:
        return
    typer.echo("")
    typer.echo("asked to download a model that few available nodes have")
    for download in downloads[:_MAX_ROWS]:
        typer.echo(f"  {foreign(download.model)} ({download.state})")
        typer.echo(f"      {download.node}")
    _show_more(len(downloads))


def _show_offer(offer: QueueOffer) -> None:
    """Print what a node would take, and why not each other head."""
    typer.echo("")
    if offer.why_not is not None:
        typer.echo(f"node {offer.node} takes nothing: it is {_words(offer.why_not)}")
        return
    typer.echo(f"node {offer.node}, if it were freed now, takes")
    if offer.takes is None:
        typer.echo("  nothing that waits")
    for head in offer.heads:
        if head.why_not is None:
            _show_taken(head)
    for head in offer.heads:
        if head.why_not is not None:
            typer.echo(f"  not {head.task}")
            typer.echo(f"      {_group_text(head.queue_group)}: {_words(head.why_not)}")


def _show_taken(head: QueueHead) -> None:
    typer.echo(f"  {head.task}")
    if head.partners is None:
        return
    card = "any card" if head.gpu is None else foreign(head.gpu)
    group = _group_text(head.queue_group)
    typer.echo(f"      {group}: with 2 of {len(head.partners)}, {card}")
    for address in head.partners[:_MAX_ROWS]:
        typer.echo(f"        {address}")


def _show_more(rows: int) -> None:
    if rows > _MAX_ROWS:
        typer.echo(f"… and {rows - _MAX_ROWS} more; --json has them all")


def _group_text(group: QueueGroupName) -> str:
    """Return what the tasks of a group ask for."""
    if group.kind is not None:
        return TaskGroup(group.kind == "gpt", group.vram).text
    card = "any GPU" if group.gpu is None else foreign(group.gpu)
    return f"{group.vram} GB, {card}"


def _value_text(value: int) -> str:
    """Return whole wei a second; less than one as a fraction."""
    return str(value // UNIT) if value >= UNIT or not value else f"{value / UNIT:.6f}"


def _words(reason: str) -> str:
    return reason.replace("_", " ")
