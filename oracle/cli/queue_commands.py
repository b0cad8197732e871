"""Implements `queue`, which lists waiting tasks in order, and a node's next task."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, print_model
from oracle.cli.system_options import (
    AtTimeOption,
    EventsOption,
    PolicyOption,
    open_source,
    parse_key_values,
    resolve_queue_system,
)
from oracle.daemon.config.dispatch_section import Kind
from oracle.domain.events.network_events import TaskKind
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import SnapshotQuery
from oracle.queries.selection.queue_view import (
    QueueAnswer,
    QueueCapacity,
    QueueDownload,
    QueueEntry,
    QueueGroupName,
    QueueHead,
    QueueOffer,
    build_queue_answer,
)
from oracle.queries.text.prefixes import find_address
from oracle.queries.text.text_tables import print_omitted_count, print_table, sanitize_text
from oracle.systems.crynux.pricing import Pricing

# The terminal shows at most this many rows per group; --json shows all tasks.
_MAX_ROWS = 20


def show_queue(queue: QueueAnswer) -> None:
    """Print the queue groups, largest VRAM first, then draws, downloads, capacity and offer."""
    waiting_tasks_text = "1 task waits" if queue.waiting == 1 else f"{queue.waiting} tasks wait"
    typer.echo(f"{waiting_tasks_text}, {queue.as_of.to_text()}")
    for group in sorted(
        {entry.queue_group for entry in queue.entries}, key=_get_queue_group_sort_key
    ):
        _show_queue_group(group, [entry for entry in queue.entries if entry.queue_group == group])
    _show_unqueued_tasks(queue.left_out)
    _show_drawn_tasks(queue.entries)
    _show_downloads(queue.downloads)
    if queue.capacity is not None:
        _show_capacity(queue.capacity)
    if queue.offer is not None:
        _show_offer(queue.offer)


def _get_queue_group_sort_key(group: QueueGroupName) -> tuple[bool, int, bool, str]:
    if group.kind is not None:
        return group.kind == "gpt", group.vram, False, ""
    return False, -group.vram, group.gpu is None, group.gpu or ""


def _show_queue_group(group: QueueGroupName, entries: Sequence[QueueEntry]) -> None:
    typer.echo("")
    typer.echo(f"{_format_group(group)}: {len(entries)}")
    rows = [
        (entry.task, _format_value(entry.value), str(entry.created.block))
        for entry in entries[:_MAX_ROWS]
    ]
    print_table(("task", "wei/s", "block"), rows)
    print_omitted_count(len(entries), _MAX_ROWS)


def _show_capacity(capacity: QueueCapacity) -> None:
    typer.echo("")
    typer.echo(
        f"capacity {capacity.max_tasks} tasks, with {capacity.members} members; one more would "
        "drop"
    )
    for key in capacity.dropped_next[:_MAX_ROWS]:
        typer.echo(f"  {key}")
    if not capacity.dropped_next:
        typer.echo("  nothing")


def _show_unqueued_tasks(task_keys: Sequence[str]) -> None:
    if not task_keys:
        return
    typer.echo("")
    typer.echo("not queued: the group is incomplete or can no longer start")
    for key in task_keys[:_MAX_ROWS]:
        typer.echo(f"  {key}")
    print_omitted_count(len(task_keys), _MAX_ROWS)


def _show_drawn_tasks(entries: Sequence[QueueEntry]) -> None:
    drawn_entries = [entry for entry in entries if entry.drawn]
    if not drawn_entries:
        return
    typer.echo("")
    typer.echo("drawn, start pending")
    for entry in drawn_entries:
        for key, address in zip(entry.tasks, entry.drawn, strict=False):
            typer.echo(f"  {key}")
            typer.echo(f"      on {address}")


def _show_downloads(downloads: Sequence[QueueDownload]) -> None:
    if not downloads:
        return
    typer.echo("")
    typer.echo("download requests for models that few available nodes have")
    for download in downloads[:_MAX_ROWS]:
        typer.echo(f"  {sanitize_text(download.model)} ({download.state})")
        typer.echo(f"      {download.node}")
    print_omitted_count(len(downloads), _MAX_ROWS)


def _show_offer(offer: QueueOffer) -> None:
    """Print the task that a node would take, and why it skips the first tasks of other groups."""
    typer.echo("")
    if offer.why_not is not None:
        typer.echo(f"node {offer.node} takes nothing: it is {_humanize_reason(offer.why_not)}")
        return
    typer.echo(f"node {offer.node}, if it were freed now, takes")
    if offer.takes is None:
        typer.echo("  no waiting task")
    for head in offer.heads:
        if head.why_not is None:
            _show_taken_queue_head(head)
    for head in offer.heads:
        if head.why_not is not None:
            typer.echo(f"  not {head.task}")
            typer.echo(
                f"      {_format_group(head.queue_group)}: {_humanize_reason(head.why_not)}"
            )


def _show_taken_queue_head(head: QueueHead) -> None:
    typer.echo(f"  {head.task}")
    if head.partners is None:
        return
    gpu_text = "any GPU" if head.gpu is None else sanitize_text(head.gpu)
    group = _format_group(head.queue_group)
    typer.echo(f"      {group}: with 2 of {len(head.partners)}, {gpu_text}")
    for address in head.partners[:_MAX_ROWS]:
        typer.echo(f"        {address}")


def _format_group(group: QueueGroupName) -> str:
    if group.kind is not None:
        return f"{group.kind.upper()}/{group.vram}GB"
    gpu_text = "any GPU" if group.gpu is None else sanitize_text(group.gpu)
    return f"{group.vram} GB, {gpu_text}"


def _format_value(value: int) -> str:
    """Format a value in whole wei per second, or as a fraction if below one wei."""
    return str(value // UNIT) if value >= UNIT or not value else format_decimal(value, 6)


def _humanize_reason(reason: str) -> str:
    return reason.replace("_", " ")


_EXAMPLE = "Example: qos-oracle queue --node 0x… --alpha 2 --json"
_DECIMAL = re.compile(r"\d{1,18}(\.\d{1,18})?", re.ASCII)

_NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="ADDRESS", help="Node whose next task is shown.")
]
_FixedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fixed",
        metavar="KIND=SECONDS",
        help=f"Fixed part of a task's duration, by kind ({', '.join(TaskKind)}); repeatable. "
        "Default: dispatch.fixed_seconds.",
    ),
]
_UnitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--unit",
        metavar="KIND=SECONDS",
        help=(
            "Added duration per unit of task size, by kind; repeatable. Default: "
            "dispatch.unit_seconds."
        ),
    ),
]
_AlphaOption = Annotated[
    str | None,
    typer.Option(
        "--alpha",
        metavar="A",
        help=(
            "Maximum number of waiting tasks per member; shows which tasks would be dropped. "
            "Default: dispatch.queue_alpha."
        ),
    ),
]


def register(app: typer.Typer) -> None:
    app.command("queue", epilog=_EXAMPLE)(list_queue)


def list_queue(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    node: _NodeOption = None,
    policy: PolicyOption = None,
    fixed: _FixedOption = None,
    unit: _UnitOption = None,
    alpha: _AlphaOption = None,
    at_time: AtTimeOption = None,
    events: EventsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List waiting tasks by value, and a node's next task.

    A task waits from its creation until it starts or ends. The value of a task is its fee divided
    by its estimated duration in seconds; durations are not published, so they come from
    [dispatch], or from --fixed and --unit. `draws` lists the drawn nodes.
    """
    fixed_seconds = _parse_seconds_by_kind("--fixed", fixed)
    unit_seconds = _parse_seconds_by_kind("--unit", unit)
    tasks_per_member = _parse_alpha(alpha)
    with open_source(events, config) as source:
        choice = resolve_queue_system(policy, source)
        if source.config is not None:
            dispatch_section = source.config.dispatch
            fixed_seconds = _add_configured_durations(
                fixed_seconds, dispatch_section.fixed_seconds
            )
            unit_seconds = _add_configured_durations(unit_seconds, dispatch_section.unit_seconds)
            if tasks_per_member is None and dispatch_section.queue_alpha is not None:
                tasks_per_member = Fraction(dispatch_section.queue_alpha)
        pricing = _build_pricing(fixed_seconds, unit_seconds)
        snapshot = source.take_snapshot(SnapshotQuery(choice.rules, at_time))
    node_address = None if node is None else find_address([*snapshot.nodes], "node", node)
    answer = build_queue_answer(snapshot, choice.policy, pricing, tasks_per_member, node_address)
    if as_json:
        print_model(answer)
    else:
        show_queue(answer)


def _parse_seconds_by_kind(option: str, pairs: list[str] | None) -> dict[str, Fraction]:
    text_by_kind = parse_key_values(option, pairs)
    for kind in text_by_kind:
        if kind not in set(TaskKind):
            kind_names = ", ".join(TaskKind)
            raise InputError(
                f"{option} {sanitize_text(kind)}: unknown kind; expected one of: {kind_names}"
            )
    return {kind: _parse_decimal(f"{option} {kind}", text) for kind, text in text_by_kind.items()}


def _parse_alpha(alpha_text: str | None) -> Fraction | None:
    if alpha_text is None:
        return None
    alpha = _parse_decimal("--alpha", alpha_text)
    if not alpha:
        raise InputError("--alpha 0: must be above 0")
    return alpha


def _parse_decimal(label: str, text: str) -> Fraction:
    if _DECIMAL.fullmatch(text) is None:
        raise InputError(f"{label} {sanitize_text(text)}: must be a decimal, such as 2.5")
    return Fraction(text)


def _add_configured_durations(
    seconds_by_kind: Mapping[str, Fraction], configured_durations: Mapping[Kind, Decimal] | None
) -> dict[str, Fraction]:
    """Add configured durations to those from the command line, which take precedence."""
    configured_seconds: dict[str, Fraction] = {
        kind: Fraction(seconds) for kind, seconds in (configured_durations or {}).items()
    }
    return configured_seconds | dict(seconds_by_kind)


def _build_pricing(
    fixed_seconds: Mapping[str, Fraction], unit_seconds: Mapping[str, Fraction]
) -> Pricing:
    missing_options = [
        f"{option} {kind}=SECONDS"
        for option, seconds_by_kind in (("--fixed", fixed_seconds), ("--unit", unit_seconds))
        for kind in TaskKind
        if kind not in seconds_by_kind
    ]
    if missing_options:
        raise InputError(
            "the value of a task depends on its duration, which is not configured; set "
            "dispatch.fixed_seconds and dispatch.unit_seconds, or use "
            f"{', '.join(missing_options)}"
        )
    return Pricing(
        {kind: fixed_seconds[kind] for kind in TaskKind},
        {kind: unit_seconds[kind] for kind in TaskKind},
    )
