"""Halts: stop outbound work until an operator clears them with a reason.

See docs/explanation/reorgs.md#below-the-final-block.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from oracle.domain.ids import Hash
from oracle.store.encoding import as_said, hexed_or_none, plain, raw_or_none
from oracle.store.tables.integrity_tables import halt


@dataclass(frozen=True, slots=True)
class HaltEvidence:
    """The block on which two sources disagree; a hash is None if that side has no such block."""

    block: int
    ours: Hash | None
    theirs: Hash | None


@dataclass(frozen=True, slots=True)
class Cleared:
    """By whom and why a halt was cleared; `time` in unix seconds."""

    time: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Halt:
    """One halt, opened at indexed block `since_block` with time `since_time`.

    Outbound work is stopped while `cleared` is None.
    """

    id: int
    name: str
    since_block: int
    since_time: int
    reason: str
    evidence: HaltEvidence | None
    cleared: Cleared | None


class HaltRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def close(
        self, name: str, at: tuple[int, int], reason: str, evidence: HaltEvidence | None = None
    ) -> bool:
        """Open a halt at `since` (newest indexed block, its time); return False if open already."""
        if self.closed(name) is not None:
            return False
        self._connection.execute(
            insert(halt).values(
                name=name,
                since_block=at[0],
                since_time=at[1],
                reason=plain(reason),
                block=None if evidence is None else evidence.block,
                our_hash=None if evidence is None else raw_or_none(evidence.ours),
                their_hash=None if evidence is None else raw_or_none(evidence.theirs),
            )
        )
        return True

    def clear(self, name: str, cleared: Cleared) -> bool:
        """Clear a halt and keep it as history. Return False if it is not open."""
        closed = (halt.c.name == name) & halt.c.cleared_time.is_(None)
        opened = (
            update(halt)
            .where(closed)
            .values(
                cleared_time=cleared.time,
                cleared_by=plain(cleared.by),
                cleared_reason=plain(cleared.reason),
            )
        )
        return self._connection.execute(opened).rowcount == 1

    def closed(self, name: str) -> Halt | None:
        """Return the open halt of this name, or None."""
        return next((each for each in self.all_closed() if each.name == name), None)

    def all_closed(self) -> list[Halt]:
        """Return the open halts, oldest first."""
        return [_halt_of(row) for row in self._connection.execute(_CLOSED)]

    def reason(self) -> str | None:
        """Return why nothing may be planned, signed or sent now, or None if it may."""
        closed = self.all_closed()
        return f"halt {closed[0].name}: {closed[0].reason}" if closed else None

    def changes(self) -> int:
        """Count how often halts were opened or cleared; while one is open no cursor moves."""
        counted = select(func.count(halt.c.id) + func.count(halt.c.cleared_time))
        return int(self._connection.execute(counted).scalar_one())

    def history(self, limit: int) -> list[Halt]:
        """Return up to `limit` halts, open and cleared, newest first."""
        chosen = select(halt).order_by(halt.c.id.desc()).limit(limit)
        return [_halt_of(row) for row in self._connection.execute(chosen)]


# Built once, because every step runs it.
_CLOSED = select(halt).where(halt.c.cleared_time.is_(None)).order_by(halt.c.id)


def _halt_of(row: Any) -> Halt:  # noqa: ANN401  a row of any driver
    ours, theirs = hexed_or_none(row.our_hash), hexed_or_none(row.their_hash)
    evidence = HaltEvidence(
        row.block, None if ours is None else Hash(ours), None if theirs is None else Hash(theirs)
    )
    cleared = None
    if row.cleared_time is not None:
        by, why = as_said(row.cleared_by) or "", as_said(row.cleared_reason) or ""
        cleared = Cleared(row.cleared_time, by, why)
    return Halt(
        id=row.id,
        name=row.name,
        since_block=row.since_block,
        since_time=row.since_time,
        reason=as_said(row.reason) or "",
        evidence=None if row.block is None else evidence,
        cleared=cleared,
    )
