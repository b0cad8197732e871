"""Stores halts, which stop all outbound work until an operator clears them.

See docs/explanation/reorgs.md#below-the-final-block.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from oracle.domain.ids import Hash
from oracle.store.encoding import (
    decode_optional_hex,
    encode_optional_hex,
    escape_nul,
    unescape_nul,
)
from oracle.store.tables.integrity_tables import halt


@dataclass(frozen=True, slots=True)
class HaltEvidence:
    """The block about which two sources disagree.

    A hash is None if its source lacks the block.
    """

    block: int
    our_hash: Hash | None
    their_hash: Hash | None


@dataclass(frozen=True, slots=True)
class HaltClearRecord:
    """The clearing of a halt, with its operator, reason and time (unix seconds)."""

    time: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """A halt of all outbound work.

    `since_block` is the newest indexed block when the halt was opened, and `since_time` the time
    of that block. Outbound work is stopped while `cleared` is None.
    """

    id: int
    name: str
    since_block: int
    since_time: int
    reason: str
    evidence: HaltEvidence | None
    cleared: HaltClearRecord | None


class HaltRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open_halt(
        self,
        name: str,
        reason: str,
        evidence: HaltEvidence | None = None,
        *,
        since_block: int,
        since_time: int,
    ) -> bool:
        """Open a halt, or return False if a halt of this name is already open.

        `since_block` is the newest indexed block, and `since_time` its time.
        """
        if self.find_open_halt(name) is not None:
            return False
        self._connection.execute(
            insert(halt).values(
                name=name,
                since_block=since_block,
                since_time=since_time,
                reason=escape_nul(reason),
                block=None if evidence is None else evidence.block,
                our_hash=None if evidence is None else decode_optional_hex(evidence.our_hash),
                their_hash=None if evidence is None else decode_optional_hex(evidence.their_hash),
            )
        )
        return True

    def clear(self, name: str, clear_record: HaltClearRecord) -> bool:
        """Clear a halt, or return False if it is not open.

        A cleared halt is kept as history.
        """
        is_open = (halt.c.name == name) & halt.c.cleared_time.is_(None)
        clear_statement = (
            update(halt)
            .where(is_open)
            .values(
                cleared_time=clear_record.time,
                cleared_by=escape_nul(clear_record.by),
                cleared_reason=escape_nul(clear_record.reason),
            )
        )
        return self._connection.execute(clear_statement).rowcount == 1

    def find_open_halt(self, name: str) -> Halt | None:
        return next(
            (open_halt for open_halt in self.list_open_halts() if open_halt.name == name), None
        )

    def list_open_halts(self) -> list[Halt]:
        """Return the open halts, oldest first."""
        return [_decode_halt_row(row) for row in self._connection.execute(_OPEN_HALTS)]

    def find_halt_reason(self) -> str | None:
        """Return the name and reason of the oldest open halt, or None if no halt is open."""
        open_halts = self.list_open_halts()
        return f"halt {open_halts[0].name}: {open_halts[0].reason}" if open_halts else None

    def count_halt_changes(self) -> int:
        """Return how often halts were opened or cleared.

        Readers use this number to detect changes, because the cursor does not move while a halt is
        open.
        """
        count_query = select(func.count(halt.c.id) + func.count(halt.c.cleared_time))
        return int(self._connection.execute(count_query).scalar_one())

    def list_halts(self, offset: int, limit: int) -> list[Halt]:
        """Return up to `limit` halts after the first `offset`, oldest first."""
        query = select(halt).order_by(halt.c.id).offset(offset).limit(limit)
        return [_decode_halt_row(row) for row in self._connection.execute(query)]

    def list_newest_halts(self, limit: int) -> list[Halt]:
        """Return up to `limit` halts, open and cleared, newest first."""
        query = select(halt).order_by(halt.c.id.desc()).limit(limit)
        return [_decode_halt_row(row) for row in self._connection.execute(query)]


# Built once, because every step runs it.
_OPEN_HALTS = select(halt).where(halt.c.cleared_time.is_(None)).order_by(halt.c.id)


def _decode_halt_row(row: Any) -> Halt:  # noqa: ANN401  a row of any driver
    our_hash = encode_optional_hex(row.our_hash)
    their_hash = encode_optional_hex(row.their_hash)
    evidence = HaltEvidence(
        row.block,
        None if our_hash is None else Hash(our_hash),
        None if their_hash is None else Hash(their_hash),
    )
    clear_record = None
    if row.cleared_time is not None:
        cleared_by = unescape_nul(row.cleared_by) or ""
        reason = unescape_nul(row.cleared_reason) or ""
        clear_record = HaltClearRecord(row.cleared_time, cleared_by, reason)
    return Halt(
        id=row.id,
        name=row.name,
        since_block=row.since_block,
        since_time=row.since_time,
        reason=unescape_nul(row.reason) or "",
        evidence=None if row.block is None else evidence,
        cleared=clear_record,
    )
