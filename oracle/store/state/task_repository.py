"""The tasks' rows: kept for ever, because scores point at them."""

from collections.abc import Iterable
from typing import Any

from msgspec import json
from sqlalchemy import ColumnElement, Connection, func, select

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason, TaskKind
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.task import Ending, Run, Task
from oracle.store.bulk import KEYS, Row, fetch, upsert
from oracle.store.encoding import (
    amount_or_none,
    as_said,
    bounded,
    hexed,
    hexed_or_none,
    list_of,
    list_text,
    plain,
    position_or_none,
    position_text,
    range_of_prefix,
    raw,
    raw_or_none,
    version_of,
    version_text,
    wei_or_none,
)
from oracle.store.tables.state_tables import task

_BEFORE_ALL = Position(-1, -1, -1, -1)
# As the index `waiting_task` has it, so that it is used.
IS_WAITING = (
    task.c.created_at.is_not(None)
    & task.c.node.is_(None)
    & task.c.runs.is_(None)
    & task.c.ending.is_(None)
)


class TaskRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, keys: Iterable[TaskKey]) -> dict[TaskKey, Task]:
        """Return the tasks of these keys that are there."""
        rows = fetch(self._connection, task, map(raw, keys))
        return {found.key: found for found in map(_task_of, rows)}

    def beginning(self, digits: str, limit: int) -> list[TaskKey]:
        """Return up to `limit` keys whose hex begins with `digits`, by key."""
        low, high = range_of_prefix(digits, 32)
        chosen = select(task.c.key).where(task.c.key.between(low, high))
        found = self._connection.execute(chosen.order_by(task.c.key).limit(limit))
        return [TaskKey(hexed(key)) for (key,) in found]

    def waiting(self) -> list[Task]:
        """Return the tasks that were created and neither started nor ended, by creation."""
        # Positions are text in the table, which sorts otherwise than they do.
        return sorted(self._where(IS_WAITING), key=_creation_of)

    def count_waiting(self) -> int:
        """Count the same."""
        counted = select(func.count()).select_from(task).where(IS_WAITING)
        return int(self._connection.execute(counted).scalar_one())

    def of_groups(self, groups: Iterable[GroupKey]) -> list[Task]:
        """Return the tasks of these groups that no group has scored yet, by creation.

        A group is scored when all its tasks have ended: of one with a waiting task none is left
        out. Tasks that were never seen being created have no known group.
        """
        wanted = sorted(map(raw, groups))
        found: list[Task] = []
        for at in range(0, len(wanted), KEYS):
            named = task.c.task_group.in_(wanted[at : at + KEYS])
            found += self._where(named & task.c.scored_in.is_(None))
        return sorted(found, key=_creation_of)

    def save(self, tasks: Iterable[Task]) -> None:
        """Write each task's row, new or not."""
        upsert(self._connection, task, [task_row(each) for each in tasks])

    def _where(self, chosen: ColumnElement[bool]) -> list[Task]:
        return [_task_of(row) for row in self._connection.execute(select(task).where(chosen))]


def _creation_of(each: Task) -> Position:
    return each.created_at or _BEFORE_ALL


def task_row(each: Task) -> Row:
    """The task as a row of its table."""
    return (
        raw(each.key),
        position_text(each.created_at),
        raw_or_none(each.creator),
        wei_or_none(each.fee),
        bounded(each.min_vram),
        plain(each.required_gpu),
        bounded(each.required_gpu_vram),
        list_text(each.models),
        version_text(each.version),
        bounded(each.size),
        None if each.kind is None else each.kind.value,
        bounded(each.timeout),
        raw_or_none(each.group),
        each.queued,
        raw_or_none(each.node),
        position_text(each.started_at),
        each.started_time,
        position_text(each.stopped_at),
        each.stopped_time,
        each.error_reported,
        each.disclosed,
        each.freed,
        bounded(each.group_size),
        each.validated,
        None if each.ending is None else each.ending.value,
        position_text(each.ended_at),
        each.ended_time,
        None if each.abort_reason is None else each.abort_reason.value,
        raw_or_none(each.scored_in),
        json.encode(each.runs).decode() if each.runs else None,
        wei_or_none(each.paid),
    )


def _task_of(row: Any) -> Task:  # noqa: ANN401  a row of any driver
    creator, group = hexed_or_none(row.creator), hexed_or_none(row.task_group)
    runner, scored_in = hexed_or_none(row.node), hexed_or_none(row.scored_in)
    return Task(
        key=TaskKey(hexed(row.key)),
        created_at=position_or_none(row.created_at),
        creator=None if creator is None else Address(creator),
        fee=amount_or_none(row.fee),
        min_vram=row.min_vram,
        required_gpu=as_said(row.required_gpu),
        required_gpu_vram=row.required_gpu_vram,
        models=list_of(row.models),
        version=version_of(row.version),
        size=row.size,
        kind=None if row.kind is None else TaskKind(row.kind),
        timeout=row.timeout,
        group=None if group is None else GroupKey(group),
        queued=bool(row.queued),
        node=None if runner is None else Address(runner),
        started_at=position_or_none(row.started_at),
        started_time=row.started_time,
        stopped_at=position_or_none(row.stopped_at),
        stopped_time=row.stopped_time,
        error_reported=bool(row.error_reported),
        disclosed=bool(row.disclosed),
        freed=bool(row.freed),
        group_size=row.group_size,
        validated=bool(row.validated),
        ending=None if row.ending is None else Ending(row.ending),
        ended_at=position_or_none(row.ended_at),
        ended_time=row.ended_time,
        abort_reason=None if row.abort_reason is None else AbortReason(row.abort_reason),
        scored_in=None if scored_in is None else GroupKey(scored_in),
        runs=() if row.runs is None else json.decode(row.runs, type=tuple[Run, ...]),
        paid=amount_or_none(row.paid),
    )
