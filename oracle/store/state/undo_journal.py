"""Stores the undo journal, which contains the rows that recent blocks replaced.

Recent blocks are above the final block. See docs/explanation/reorgs.md#undo-journal and
docs/explanation/reorgs.md#one-transaction.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.msgpack import decode, encode
from sqlalchemy import Connection, Table, bindparam, delete, select, update

from oracle.domain.fold.working_set import PreImages
from oracle.domain.reports.contract_state import ContractPreImages
from oracle.errors import FatalError
from oracle.store.bookmarks import UNDO_FLOOR, Bookmarks
from oracle.store.bulk import Row, insert_missing_rows, upsert_rows
from oracle.store.encoding import decode_hex
from oracle.store.state.cursor_repository import encode_last_event_row
from oracle.store.state.group_repository import encode_group_row
from oracle.store.state.incident_repository import encode_incident_row, encode_minute_row
from oracle.store.state.node_repository import encode_node_row
from oracle.store.state.round_rows import encode_kick_row
from oracle.store.state.task_repository import encode_task_row
from oracle.store.tables.chain_tables import cursor, undo
from oracle.store.tables.objection_tables import objection
from oracle.store.tables.round_tables import accepted_round, contract_setting, kick, strike
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

Key = bytes | int
Name = TypeVar("Name")
Value = TypeVar("Value")

# Rows of these tables are overwritten. The journal therefore keeps the old rows.
_JOURNALED = {
    "node": node,
    "task": task,
    "group": open_group,
    "last": last_event,
    "kick": kick,
    "end_minute": end_minute,
    "incident": incident,
}
# Rows of these tables are only appended. A rollback deletes them by position.
_APPENDED = (
    score,
    reliability_change,
    membership_change,
    anomaly,
    group_result,
    group_member,
    kickout,
    accepted_round,
    strike,
    contract_setting,
    objection,
)
_CLOSED_COLUMNS = ("closed_block", "closed_tx", "closed_log", "closed_sub")


class UndoJournal:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bookmarks = Bookmarks(connection)

    def write(self, pre_images: Sequence[PreImages | ContractPreImages]) -> None:
        """Append the rows that a block replaced.

        If a block replaces a row several times, only its first version (pre-image) is kept.
        """
        rows = [
            (images.block, kind, encode(key), None if old_row is None else encode(old_row))
            for images in pre_images
            for kind, key, old_row in _iterate_pre_images(images)
        ]
        insert_missing_rows(self._connection, undo, rows)

    def rollback_to(self, number: int) -> None:
        """Restore every projection to its state after block `number`.

        Rows that were replaced above this block get their oldest pre-image above it. Rows that
        were appended above it are deleted, and kickout intervals that closed above it are
        reopened. The journal above it is deleted. The caller restores raw rows, blocks, cursor and
        reports.

        Raises:
            FatalError: the journal does not reach back that far; a rebuild is needed instead.
        """
        self._check_is_reachable(number, f"run `qos-oracle resync rewind --to-block {number}`")
        for kind, rows in self._load_oldest_pre_images(number).items():
            self._restore_rows(_JOURNALED[kind], rows)
        self.delete_rows_appended_above(number)
        self._connection.execute(delete(undo).where(undo.c.block > number))
        self._bookmarks.increment_rewrite_count()

    def delete_rows_appended_above(self, number: int) -> None:
        """Delete the rows that were appended above block `number`.

        Kickout intervals that were closed above this block are reopened. Appended rows need no
        pre-image, so this works at any depth.
        """
        for table in _APPENDED:
            self._connection.execute(delete(table).where(table.c.block > number))
        reopen_statement = update(kickout).where(kickout.c.closed_block > number)
        self._connection.execute(reopen_statement.values(dict.fromkeys(_CLOSED_COLUMNS)))

    def load_node_rows_as_of(self, number: int) -> dict[bytes, Row | None]:
        """Return the rows as of block `number` of all nodes that have changed since.

        The result is by key. The row is None for a node that did not exist.

        Raises:
            FatalError: the journal does not reach back that far.
        """
        self._check_is_reachable(number, "run the command again")
        pre_image_by_key = self._load_oldest_pre_images(number, ("node",)).get("node", {})
        return {bytes(key): row for key, row in pre_image_by_key.items() if isinstance(key, bytes)}

    def _check_is_reachable(self, number: int, advice: str) -> None:
        lowest_block = self.find_lowest_reachable_block()
        if lowest_block is None or lowest_block > number:
            raise FatalError(
                f"the undo journal reaches back to block {lowest_block}, not to block {number}; "
                f"{advice}"
            )

    def prune_journal_to(self, final_block: int) -> None:
        """Delete the journal's entries up to block `final_block`.

        The journal must be complete above this block.
        """
        lowest_block = self._bookmarks.get_number(UNDO_FLOOR)
        if lowest_block is not None and lowest_block >= final_block:
            return
        self._bookmarks.set(UNDO_FLOOR, final_block)
        self._connection.execute(delete(undo).where(undo.c.block <= final_block))

    def find_lowest_reachable_block(self) -> int | None:
        """Return the lowest block to which `rollback_to` can go, or None without a cursor."""
        cursor_numbers = self._connection.execute(select(cursor.c.number)).scalars().all()
        return (
            min([*cursor_numbers, self._bookmarks.get_number(UNDO_FLOOR) or 0])
            if cursor_numbers
            else None
        )

    def clear(self) -> None:
        """Delete the whole journal after the rows that it refers to were deleted."""
        self._connection.execute(delete(undo))
        self._bookmarks.delete(UNDO_FLOOR)

    def _load_oldest_pre_images(
        self, number: int, kinds: Collection[str] = _JOURNALED.keys()
    ) -> dict[str, dict[Key, Row | None]]:
        """Return the oldest former version of each row changed above block `number`.

        The result is by kind and key.
        """
        journal = select(undo.c.kind, undo.c.key, undo.c.pre_image).where(
            undo.c.block > number, undo.c.kind.in_(kinds)
        )
        oldest_pre_images_by_kind: dict[str, dict[Key, Row | None]] = {}
        for kind, key, pre_image in self._connection.execute(journal.order_by(undo.c.block)):
            rows = oldest_pre_images_by_kind.setdefault(kind, {})
            rows.setdefault(decode(key), None if pre_image is None else tuple(decode(pre_image)))
        return oldest_pre_images_by_kind

    def _restore_rows(self, table: Table, rows: dict[Key, Row | None]) -> None:
        (key,) = table.primary_key.columns
        missing_keys = [
            {"gone": row_key} for row_key, row_before in rows.items() if row_before is None
        ]
        if missing_keys:
            self._connection.execute(delete(table).where(key == bindparam("gone")), missing_keys)
        upsert_rows(self._connection, table, [row for row in rows.values() if row is not None])


def _iterate_pre_images(
    images: PreImages | ContractPreImages,
) -> Iterator[tuple[str, Key, Row | None]]:
    """Yield the kind, key and former values of each row that a block changed."""
    if isinstance(images, PreImages):
        yield from _encode_pre_images("node", images.nodes, decode_hex, encode_node_row)
        yield from _encode_pre_images("task", images.tasks, decode_hex, encode_task_row)
        yield from _encode_pre_images("group", images.groups, decode_hex, encode_group_row)
        for old_event in images.last:
            yield "last", 1, None if old_event is None else encode_last_event_row(old_event)
        incident_rows = images.incidents
        yield from _encode_pre_images("end_minute", incident_rows.minutes, int, encode_minute_row)
        yield from _encode_pre_images(
            "incident", incident_rows.incidents, int, encode_incident_row
        )
    else:
        yield from _encode_pre_images("kick", images.kicks, decode_hex, encode_kick_row)


def _encode_pre_images(
    kind: str,
    value_by_name: Mapping[Name, Value | None],
    encode_key: Callable[[Name], Key],
    encode_row: Callable[[Value], Row],
) -> Iterator[tuple[str, Key, Row | None]]:
    for name, value in value_by_name.items():
        yield kind, encode_key(name), None if value is None else encode_row(value)
