"""Clears, restores and compares the projections, which are folded from raw rows."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec.json import Encoder
from sqlalchemy import Connection, Table, bindparam, delete, select

from oracle.store.bookmarks import Bookmarks
from oracle.store.bulk import Row, fetch_rows, insert_rows, upsert_rows
from oracle.store.encoding import HASH_BYTES, encode_hex, parse_position
from oracle.store.state.cursor_repository import encode_last_event_row
from oracle.store.state.group_repository import encode_group_row
from oracle.store.state.incident_repository import encode_incident_row, encode_minute_row
from oracle.store.state.node_repository import encode_node_row
from oracle.store.state.round_rows import encode_kick_row
from oracle.store.state.snapshot_repository import PackedState
from oracle.store.state.task_repository import encode_task_row
from oracle.store.state.undo_journal import UndoJournal
from oracle.store.tables.chain_tables import state_snapshot, undo
from oracle.store.tables.integrity_tables import dead_letter
from oracle.store.tables.objection_tables import objection
from oracle.store.tables.round_tables import accepted_round, contract_setting, kick, strike
from oracle.store.tables.selection_tables import rule_set
from oracle.store.tables.state_tables import (
    anomaly,
    end_minute,
    group_member,
    group_result,
    incident,
    kickout,
    last_event,
    membership_change,
    node,
    open_group,
    reliability_change,
    score,
    task,
)

# The tables are in the order of a dump. Their keys contain only numbers and bytes, which both
# databases sort alike.
PROJECTIONS = (
    last_event,
    node,
    task,
    open_group,
    group_result,
    group_member,
    score,
    reliability_change,
    membership_change,
    anomaly,
    kickout,
    end_minute,
    incident,
    accepted_round,
    strike,
    contract_setting,
    kick,
    objection,
)
# A fold also writes these tables. They are compared, but they are not projections.
_ALSO_COMPARED = (undo, dead_letter)
# Rule sets are compared by hash, because their numbers differ between databases.
_COMPARED_QUERIES = {
    score.name: select(
        *(rule_set.c.sha256 if column.name == "rule_set" else column for column in score.columns)
    ).join_from(score, rule_set, score.c.rule_set == rule_set.c.id, isouter=True)
}
_PAGE_ROWS = 2_000
# This encoder writes bytes as base64.
_JSON_ENCODER = Encoder()


class ProjectionRow(NamedTuple):
    """A row of a compared table, with its key and the values of all columns."""

    key: tuple[Any, ...]
    values: tuple[Any, ...]

    @property
    def key_text(self) -> str:
        part_texts = (
            encode_hex(part) if isinstance(part, bytes) else str(part) for part in self.key
        )
        return " ".join(part_texts)


class ProjectionRepository:
    """Access to all projections, within one transaction.

    Raw rows, blocks, identity, cursor, reports, outbox and lease are not projections.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def clear(self) -> None:
        """Delete all projections, their snapshots and the undo journal."""
        for table in PROJECTIONS:
            self._connection.execute(delete(table))
        self._connection.execute(delete(state_snapshot))
        UndoJournal(self._connection).clear()
        Bookmarks(self._connection).increment_rewrite_count()

    def restore_snapshot(self, block: int, state: PackedState) -> bool:
        """Restore every projection to its state after `block`, and clear the undo journal.

        `state` is the snapshot of this block. If a task that is not in the snapshot has changed
        since, nothing is changed and the result is False. The caller restores raw rows, dead
        letters, blocks, cursor and reports.
        """
        tasks = [encode_task_row(restored_task) for restored_task in state.tasks]
        if self._list_tasks_changed_after(block) - {row[0] for row in tasks}:
            return False
        self._delete_groups_created_after(block)
        self._connection.execute(delete(task).where(task.c.seen_at > block))
        upsert_rows(self._connection, task, tasks)
        upsert_rows(self._connection, open_group, list(map(encode_group_row, state.groups)))
        self._replace_rows(node, list(map(encode_node_row, state.nodes)))
        self._replace_rows(kick, list(map(encode_kick_row, state.kicks)))
        self._replace_rows(end_minute, list(map(encode_minute_row, state.detector.minutes)))
        is_later = incident.c.number > state.detector.incident_count
        self._connection.execute(delete(incident).where(is_later))
        open_incidents = list(map(encode_incident_row, state.detector.open_incidents))
        upsert_rows(self._connection, incident, open_incidents)
        self._replace_rows(
            last_event, [] if state.last is None else [encode_last_event_row(state.last)]
        )
        journal = UndoJournal(self._connection)
        journal.delete_rows_appended_above(block)
        journal.clear()
        Bookmarks(self._connection).increment_rewrite_count()
        return True

    def _replace_rows(self, table: Table, rows: list[Row]) -> None:
        self._connection.execute(delete(table))
        insert_rows(self._connection, table, rows)

    def _list_tasks_changed_after(self, block: int) -> set[bytes]:
        """Return the keys of tasks that existed at the end of `block` and have changed since."""
        is_changed = (task.c.seen_at <= block) & (task.c.changed_at > block)
        return set(self._connection.execute(select(task.c.key).where(is_changed)).scalars())

    def _delete_groups_created_after(self, block: int) -> None:
        """Delete the groups whose first task was created after `block`.

        Groups that were closed at `block` have not changed, because they get no new tasks.
        """
        if self._connection.execute(select(open_group.c.task_group).limit(1)).first() is None:
            return
        query = select(task.c.key, task.c.task_group, task.c.created_at).where(
            task.c.changed_at > block, task.c.task_group.is_not(None)
        )
        group_by_task = {
            key: group
            for key, group, created_at in self._connection.execute(query)
            if parse_position(created_at).block > block
        }
        groups = fetch_rows(self._connection, open_group, set(group_by_task.values()))
        parameters = [
            {"gone": key} for key, tasks, _ in groups if tasks[:HASH_BYTES] in group_by_task
        ]
        if parameters:
            delete_statement = delete(open_group).where(
                open_group.c.task_group == bindparam("gone")
            )
            self._connection.execute(delete_statement, parameters)

    def list_compared_tables(self) -> tuple[Table, ...]:
        """Return the tables whose rows are determined by the raw rows alone."""
        return (*PROJECTIONS, *_ALSO_COMPARED)

    def iterate_rows(self, table: Table) -> Iterator[ProjectionRow]:
        """Yield the rows of a compared table by key.

        Rows are the same on SQLite and PostgreSQL.
        """
        columns = table.primary_key.columns
        query = _COMPARED_QUERIES.get(table.name, select(table)).order_by(*columns)
        if table is dead_letter:
            query = query.where(dead_letter.c.canonical)
        key_indexes = [table.columns.keys().index(column.name) for column in columns]
        for row in self._connection.execute(query.execution_options(yield_per=_PAGE_ROWS)):
            values = tuple(row)
            yield ProjectionRow(tuple(values[key_index] for key_index in key_indexes), values)

    def iterate_dump_lines(self) -> Iterator[str]:
        """Yield all projection rows as lines of text.

        Lines are the same on SQLite and PostgreSQL.
        """
        for table in PROJECTIONS:
            query = _COMPARED_QUERIES.get(table.name, select(table)).order_by(
                *table.primary_key.columns
            )
            for row in self._connection.execute(query.execution_options(yield_per=_PAGE_ROWS)):
                yield f"{table.name} {_JSON_ENCODER.encode(tuple(row)).decode()}"

    def compute_digest(self) -> str:
        """Compute the sha256 of all dump lines, in hex."""
        hasher = sha256()
        for line in self.iterate_dump_lines():
            hasher.update(line.encode())
            hasher.update(b"\n")
        return hasher.hexdigest()
