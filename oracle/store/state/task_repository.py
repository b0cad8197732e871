"""Rows of the tasks: kept forever, because scores refer to them."""

from collections.abc import Iterable
from typing import Any

from msgspec import json
from sqlalchemy import ColumnElement, Connection, func, select

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.events.network_events import AbortReason, TaskKind
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.task import Ending, Run, Task
from oracle.store.bulk import KEYS, Row, fetch, upsert
from oracle.store.encoding import (
    amount_or_none,
    as_said,
    bounded,
    hexed,
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

# Must match the index `waiting_task`, so that the index is used.
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
        """Return the stored tasks among these keys."""
        rows = fetch(self._connection, task, map(raw, keys))
        return {found.key: found for found in map(task_of, rows)}

    def beginning(self, digits: str, limit: int) -> list[TaskKey]:
        """Return up to `limit` keys whose hex begins with `digits`, by key."""
        low, high = range_of_prefix(digits, 32)
        chosen = select(task.c.key).where(task.c.key.between(low, high))
        found = self._connection.execute(chosen.order_by(task.c.key).limit(limit))
        return [TaskKey(hexed(key)) for (key,) in found]

    def waiting(self) -> list[Task]:
        """Return the tasks that were created and neither started nor ended, by creation."""
        # Positions are stored as text, which sorts differently.
        return sorted(self._where(IS_WAITING), key=_creation_of)

    def count_waiting(self) -> int:
        """Count the tasks that were created and neither started nor ended."""
        counted = select(func.count()).select_from(task).where(IS_WAITING)
        return int(self._connection.execute(counted).scalar_one())

    def of_groups(self, groups: Iterable[GroupKey]) -> list[Task]:
        """Return the unscored tasks of these groups, by creation.

        A group is scored when all its tasks have ended, so a group with a waiting task is returned
        completely. Tasks whose creation was never seen have no known group.
        """
        wanted = sorted(map(raw, groups))
        found: list[Task] = []
        for at in range(0, len(wanted), KEYS):
            named = task.c.task_group.in_(wanted[at : at + KEYS])
            found += self._where(named & task.c.scored_in.is_(None))
        return sorted(found, key=_creation_of)

    def save(self, tasks: Iterable[Task]) -> None:
        """Insert or replace the row of each task."""
        upsert(self._connection, task, [task_row(each) for each in tasks])

    def _where(self, chosen: ColumnElement[bool]) -> list[Task]:
        return [task_of(row) for row in self._connection.execute(select(task).where(chosen))]


def _creation_of(each: Task) -> Position:
    return each.created_at or BEFORE_EVERYTHING


def task_row(each: Task) -> Row:
    """Encode the task as a row of its table."""
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
        position_text(each.revealed_at),
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
        each.seen_at,
        each.changed_at,
    )


def task_of(row: Any) -> Task:  # noqa: ANN401  a row of any driver
    """Decode a task from a row's values in the table's column order."""
    # Columns are unpacked by position: access by name takes longer than everything else.
    (key, created_at, creator, fee, min_vram, gpu, gpu_vram, models, version, size, kind, *ran) = (
        row
    )
    (timeout, group, queued, node, started_at, started_time, stopped_at, stopped_time, *end) = ran
    (reported, revealed_at, freed, group_size, validated, *over) = end
    (ending, ended_at, ended_time, reason, scored_in, runs, paid, seen_at, changed_at) = over
    return Task(
        key=TaskKey(hexed(key)),
        created_at=position_or_none(created_at),
        creator=None if creator is None else Address(hexed(creator)),
        fee=amount_or_none(fee),
        min_vram=min_vram,
        required_gpu=as_said(gpu),
        required_gpu_vram=gpu_vram,
        models=list_of(models),
        version=version_of(version),
        size=size,
        kind=None if kind is None else TaskKind(kind),
        timeout=timeout,
        group=None if group is None else GroupKey(hexed(group)),
        queued=bool(queued),
        node=None if node is None else Address(hexed(node)),
        started_at=position_or_none(started_at),
        started_time=started_time,
        stopped_at=position_or_none(stopped_at),
        stopped_time=stopped_time,
        error_reported=bool(reported),
        revealed_at=position_or_none(revealed_at),
        freed=bool(freed),
        group_size=group_size,
        validated=bool(validated),
        ending=None if ending is None else Ending(ending),
        ended_at=position_or_none(ended_at),
        ended_time=ended_time,
        abort_reason=None if reason is None else AbortReason(reason),
        scored_in=None if scored_in is None else GroupKey(hexed(scored_in)),
        runs=() if runs is None else json.decode(runs, type=tuple[Run, ...]),
        paid=amount_or_none(paid),
        seen_at=seen_at,
        changed_at=changed_at,
    )
