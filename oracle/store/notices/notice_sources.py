"""What the other tables have to tell subscribers: of a range of blocks, or since a number."""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    ReliabilityCause,
    ReliabilityChange,
)
from oracle.store.history.history_repository import change_of, interval_of, turn_of
from oracle.store.tables.integrity_tables import reorg_log
from oracle.store.tables.round_tables import accepted_round
from oracle.store.tables.state_tables import kickout, membership_change, reliability_change


class Fork(NamedTuple):
    """A fork that was left, by its number in the log of them; `time` that of the old tip."""

    id: int
    ancestor: int
    old_tip: int
    time: int


class Accepted(NamedTuple):
    """An accepted round, without its words."""

    at: Position
    time: int
    round: int
    as_of: int


class NoticeSources:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def changes(self, blocks: BlockRange) -> list[ReliabilityChange]:
        """Return the changes of H in these blocks, in order; but those at a join."""
        table = reliability_change
        chosen = select(table).where(
            table.c.block.between(blocks.first, blocks.last),
            table.c.cause != ReliabilityCause.JOINED.value,
        )
        in_order = [table.c[name] for name in (*Position._fields, "seq", "node")]
        return [change_of(row) for row in self._connection.execute(chosen.order_by(*in_order))]

    def turns(self, blocks: BlockRange) -> list[MembershipChange]:
        """Return the turns of membership in these blocks, in order."""
        table = membership_change
        chosen = select(table).where(table.c.block.between(blocks.first, blocks.last))
        in_order = [table.c[name] for name in (*Position._fields, "seq", "node")]
        return [turn_of(row) for row in self._connection.execute(chosen.order_by(*in_order))]

    def rounds(self, blocks: BlockRange) -> list[Accepted]:
        """Return the rounds that were accepted in these blocks, in order."""
        table = accepted_round
        names = ("block", "tx", "log", "sub", "time", "round", "as_of")
        chosen = select(*(table.c[name] for name in names)).where(
            table.c.block.between(blocks.first, blocks.last)
        )
        rows = self._connection.execute(chosen.order_by(*(table.c[name] for name in names[:4])))
        return [Accepted(_at(row), row.time, row.round, row.as_of) for row in rows]

    def kickouts(self, blocks: BlockRange) -> list[KickoutDue]:
        """Return the spells of a due kickout that began or ended in these blocks."""
        in_blocks: list[ColumnElement[bool]] = [
            column.between(blocks.first, blocks.last)
            for column in (kickout.c.block, kickout.c.closed_block)
        ]
        chosen = select(kickout).where(in_blocks[0] | in_blocks[1])
        in_order = [kickout.c[name] for name in (*Position._fields, "node")]
        return [interval_of(row) for row in self._connection.execute(chosen.order_by(*in_order))]

    def forks_after(self, number: int) -> list[Fork]:
        """Return the forks that were left since that one, in order."""
        table = reorg_log
        chosen = select(table.c.id, table.c.ancestor, table.c.old_tip, table.c.time)
        found = chosen.where(table.c.id > number).order_by(table.c.id)
        return [Fork(*row) for row in self._connection.execute(found)]

    def newest_fork(self) -> int:
        """Return the number of the fork that was left last; 0: none ever was."""
        return int(self._connection.execute(select(func.max(reorg_log.c.id))).scalar() or 0)


def _at(row: Any) -> Position:  # noqa: ANN401  a row of any driver
    return Position(row.block, row.tx, row.log, row.sub)
