"""Stores tasks for ever, because scores refer to them."""

from collections.abc import Iterable
from typing import Any

from msgspec import json
from sqlalchemy import ColumnElement, Connection, func, select

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.events.network_events import AbortReason, TaskKind
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state import Ending, Run, Task, create_task
from oracle.store.bulk import KEYS_PER_QUERY, Row, fetch_rows, upsert_rows
from oracle.store.encoding import (
    clamp_to_bigint,
    compute_prefix_range,
    decode_hex,
    decode_name_list,
    decode_optional_hex,
    decode_optional_wei,
    encode_hex,
    encode_name_list,
    encode_optional_wei,
    escape_nul,
    format_position,
    format_version,
    parse_optional_position,
    parse_position,
    parse_version,
    unescape_nul,
)
from oracle.store.tables.state_tables import task

# The condition must equal that of the index `waiting_task`. Otherwise, the index is not used.
IS_WAITING = (
    task.c.created_at.is_not(None)
    & task.c.node.is_(None)
    & task.c.runs.is_(None)
    & task.c.ending.is_(None)
)
# These fields determine the rank and the payment of an answer. Only they are read, because reading
# the other fields of a task takes most of the time.
ANSWER_COLUMNS = (
    task.c.key,
    task.c.fee,
    task.c.created_at,
    task.c.started_at,
    task.c.started_time,
    task.c.stopped_time,
    task.c.error_reported,
)


class TaskRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_many(self, keys: Iterable[TaskKey]) -> dict[TaskKey, Task]:
        """Return the stored tasks among these keys."""
        rows = fetch_rows(self._connection, task, map(decode_hex, keys))
        return {stored_task.key: stored_task for stored_task in map(decode_task_row, rows)}

    def list_keys_by_prefix(self, digits: str, limit: int) -> list[TaskKey]:
        """Return up to `limit` task keys whose hex begins with `digits`, in order."""
        lowest_key, highest_key = compute_prefix_range(digits, 32)
        query = select(task.c.key).where(task.c.key.between(lowest_key, highest_key))
        rows = self._connection.execute(query.order_by(task.c.key).limit(limit))
        return [TaskKey(encode_hex(key)) for (key,) in rows]

    def list_waiting(self) -> list[Task]:
        """Return the tasks that have neither started nor ended, oldest first.

        Only tasks whose creation event was read are included.
        """
        # Positions are stored as text, so the tasks have to be sorted in Python.
        return sorted(self._select_tasks(IS_WAITING), key=_get_creation_position)

    def count_waiting(self) -> int:
        """Count the tasks that have neither started nor ended.

        Only tasks whose creation event was read are counted.
        """
        count_query = select(func.count()).select_from(task).where(IS_WAITING)
        return int(self._connection.execute(count_query).scalar_one())

    def list_unscored_in_groups(self, groups: Iterable[GroupKey]) -> list[Task]:
        """Return the tasks of these groups that have no score yet, oldest first.

        A group is scored when all its tasks have ended. Therefore all tasks of a group with a
        waiting task are returned. Tasks whose creation event was not read have no known group.
        """
        keys = sorted(map(decode_hex, groups))
        tasks: list[Task] = []
        for offset in range(0, len(keys), KEYS_PER_QUERY):
            is_in_groups = task.c.task_group.in_(keys[offset : offset + KEYS_PER_QUERY])
            tasks += self._select_tasks(is_in_groups & task.c.scored_in.is_(None))
        return sorted(tasks, key=_get_creation_position)

    def save(self, tasks: Iterable[Task]) -> None:
        """Insert or replace the rows of these tasks."""
        upsert_rows(self._connection, task, [encode_task_row(entry) for entry in tasks])

    def _select_tasks(self, condition: ColumnElement[bool]) -> list[Task]:
        return [
            decode_task_row(row) for row in self._connection.execute(select(task).where(condition))
        ]


def _get_creation_position(entry: Task) -> Position:
    return entry.created_at or BEFORE_EVERYTHING


def encode_task_row(entry: Task) -> Row:
    return (
        decode_hex(entry.key),
        format_position(entry.created_at),
        decode_optional_hex(entry.creator),
        encode_optional_wei(entry.fee),
        clamp_to_bigint(entry.min_vram),
        escape_nul(entry.required_gpu),
        clamp_to_bigint(entry.required_gpu_vram),
        encode_name_list(entry.models),
        format_version(entry.version),
        clamp_to_bigint(entry.size),
        None if entry.kind is None else entry.kind.value,
        clamp_to_bigint(entry.timeout),
        decode_optional_hex(entry.group),
        entry.queued,
        decode_optional_hex(entry.node),
        format_position(entry.started_at),
        entry.started_time,
        format_position(entry.stopped_at),
        entry.stopped_time,
        entry.error_reported,
        format_position(entry.revealed_at),
        entry.freed,
        clamp_to_bigint(entry.group_size),
        entry.validated,
        None if entry.ending is None else entry.ending.value,
        format_position(entry.ended_at),
        entry.ended_time,
        None if entry.abort_reason is None else entry.abort_reason.value,
        decode_optional_hex(entry.scored_in),
        json.encode(entry.runs).decode() if entry.runs else None,
        encode_optional_wei(entry.paid),
        entry.seen_at,
        entry.changed_at,
    )


def decode_answer_row(row: Any) -> Task:  # noqa: ANN401  a row of any driver
    """Build a task with only the values of `ANSWER_COLUMNS`."""
    key, fee, created_at, started_at, started_time, stopped_time, error_reported = row
    answered_task = create_task(TaskKey(encode_hex(key)))
    answered_task.fee = decode_optional_wei(fee)
    # If two tasks are equally fast, the task that was created first ranks higher. If its creation
    # is unknown, its start counts instead.
    if created_at is not None:
        answered_task.created_at = parse_position(created_at)
    else:
        answered_task.started_at = parse_optional_position(started_at)
    answered_task.started_time, answered_task.stopped_time = started_time, stopped_time
    answered_task.error_reported = bool(error_reported)
    return answered_task


def decode_task_row(row: Any) -> Task:  # noqa: ANN401  a row of any driver
    """Decode a task from a row's values in the table's column order."""
    # The values are unpacked by position, because access by name would take most of the time.
    (
        key,
        created_at,
        creator,
        fee,
        min_vram,
        required_gpu,
        required_gpu_vram,
        models,
        version,
        size,
        kind,
        *run_columns,
    ) = row
    (
        timeout,
        group,
        queued,
        node,
        started_at,
        started_time,
        stopped_at,
        stopped_time,
        *end_columns,
    ) = run_columns
    (error_reported, revealed_at, freed, group_size, validated, *last_columns) = end_columns
    (ending, ended_at, ended_time, abort_reason, scored_in, runs, paid, seen_at, changed_at) = (
        last_columns
    )
    return Task(
        key=TaskKey(encode_hex(key)),
        created_at=parse_optional_position(created_at),
        creator=None if creator is None else Address(encode_hex(creator)),
        fee=decode_optional_wei(fee),
        min_vram=min_vram,
        required_gpu=unescape_nul(required_gpu),
        required_gpu_vram=required_gpu_vram,
        models=decode_name_list(models),
        version=parse_version(version),
        size=size,
        kind=None if kind is None else TaskKind(kind),
        timeout=timeout,
        group=None if group is None else GroupKey(encode_hex(group)),
        queued=bool(queued),
        node=None if node is None else Address(encode_hex(node)),
        started_at=parse_optional_position(started_at),
        started_time=started_time,
        stopped_at=parse_optional_position(stopped_at),
        stopped_time=stopped_time,
        error_reported=bool(error_reported),
        revealed_at=parse_optional_position(revealed_at),
        freed=bool(freed),
        group_size=group_size,
        validated=bool(validated),
        ending=None if ending is None else Ending(ending),
        ended_at=parse_optional_position(ended_at),
        ended_time=ended_time,
        abort_reason=None if abort_reason is None else AbortReason(abort_reason),
        scored_in=None if scored_in is None else GroupKey(encode_hex(scored_in)),
        runs=() if runs is None else json.decode(runs, type=tuple[Run, ...]),
        paid=decode_optional_wei(paid),
        seen_at=seen_at,
        changed_at=changed_at,
    )
