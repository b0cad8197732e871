"""Stores the block cursor, which is moved by compare-and-swap.

See docs/explanation/storage.md#cursor.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.ids import Hash
from oracle.domain.state import LastEvent
from oracle.errors import FatalError
from oracle.store.bulk import Row, insert_missing_rows, upsert_rows
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.tables.chain_tables import cursor
from oracle.store.tables.state_tables import last_event


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last folded block and the newest final block; `time` is in unix seconds.

    `epoch` is the number of moves; a writer that moves the cursor must pass the epoch that it has
    read. `final_number` is None until a final block is known.
    """

    number: int
    hash: Hash
    time: int
    final_number: int | None
    final_hash: Hash | None
    epoch: int


class CursorRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> Cursor | None:
        """Return the cursor, or None if no window was indexed yet."""
        row = self._connection.execute(select(cursor)).one_or_none()
        if row is None:
            return None
        final_hash = None if row.final_hash is None else Hash(encode_hex(row.final_hash))
        return Cursor(
            number=row.number,
            hash=Hash(encode_hex(row.hash)),
            time=row.time,
            final_number=row.final_number,
            final_hash=final_hash,
            epoch=row.epoch,
        )

    def move_to(self, block: BlockRef, final_block: BlockRef | None, epoch: int) -> int:
        """Move the cursor forwards or back to `block`, and return the new epoch.

        `epoch` is the epoch that was read, or 0 if there was no cursor. If `final_block` is None,
        the stored final block is kept.

        Raises:
            FatalError: another writer has moved the cursor since it was read.
        """
        values = {"number": block.number, "hash": decode_hex(block.hash), "time": block.time}
        if final_block is not None:
            values |= {
                "final_number": final_block.number,
                "final_hash": decode_hex(final_block.hash),
            }
        if epoch == 0:
            row = {"id": 1, "epoch": 1, "final_number": None, "final_hash": None} | values
            columns = [column.name for column in cursor.columns]
            moved_count = insert_missing_rows(
                self._connection, cursor, [tuple(row[name] for name in columns)]
            )
        else:
            update_statement = update(cursor).where(cursor.c.epoch == epoch)
            moved_count = self._connection.execute(
                update_statement.values(epoch=epoch + 1, **values)
            ).rowcount
        if moved_count != 1:
            raise FatalError("another process moved the cursor; only one writer is allowed")
        return epoch + 1

    def clear(self) -> None:
        """Delete the cursor, so that the next window begins at the start block."""
        self._connection.execute(delete(cursor))


class LastEventRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> LastEvent | None:
        """Return the event that was folded last, or None if none was folded."""
        row = self._connection.execute(select(last_event)).one_or_none()
        return None if row is None else LastEvent(Position(*row[1:5]), row.time, row.node_count)

    def set(self, event: LastEvent) -> None:
        """Store the event that was folded last."""
        upsert_rows(self._connection, last_event, [encode_last_event_row(event)])


def encode_last_event_row(event: LastEvent) -> Row:
    """Encode the event as the single row of `last_event`."""
    return (1, *event.at, event.time, event.node_count)
