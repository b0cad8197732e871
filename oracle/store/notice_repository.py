"""Notices, and the delivery progress of each target (docs/how-to/be-told.md)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    ReliabilityCause,
    ReliabilityChange,
)
from oracle.domain.ids import Address
from oracle.store.bulk import append, upsert
from oracle.store.encoding import hexed, raw_or_none
from oracle.store.history_repository import change_of, interval_of, turn_of
from oracle.store.tables.integrity_tables import reorg_log
from oracle.store.tables.notice_tables import notice, notify_place
from oracle.store.tables.round_tables import accepted_round
from oracle.store.tables.state_tables import kickout, membership_change, reliability_change


class Fork(NamedTuple):
    """An abandoned fork, by its number in the reorg log; `time` is that of the old tip."""

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
        """Return the changes of H in these blocks, in order, without those at a join."""
        table = reliability_change
        chosen = select(table).where(
            table.c.block.between(blocks.first, blocks.last),
            table.c.cause != ReliabilityCause.JOINED.value,
        )
        in_order = [table.c[name] for name in (*Position._fields, "seq", "node")]
        return [change_of(row) for row in self._connection.execute(chosen.order_by(*in_order))]

    def turns(self, blocks: BlockRange) -> list[MembershipChange]:
        """Return the membership changes in these blocks, in order."""
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
        """Return the kickout intervals that began or ended in these blocks."""
        in_blocks: list[ColumnElement[bool]] = [
            column.between(blocks.first, blocks.last)
            for column in (kickout.c.block, kickout.c.closed_block)
        ]
        chosen = select(kickout).where(in_blocks[0] | in_blocks[1])
        in_order = [kickout.c[name] for name in (*Position._fields, "node")]
        return [interval_of(row) for row in self._connection.execute(chosen.order_by(*in_order))]

    def forks_after(self, number: int) -> list[Fork]:
        """Return the forks abandoned after fork `fork_id`, in order."""
        table = reorg_log
        chosen = select(table.c.id, table.c.ancestor, table.c.old_tip, table.c.time)
        found = chosen.where(table.c.id > number).order_by(table.c.id)
        return [Fork(*row) for row in self._connection.execute(found)]

    def newest_fork(self) -> int:
        """Return the number of the last abandoned fork, or 0 if there was none."""
        return int(self._connection.execute(select(func.max(reorg_log.c.id))).scalar() or 0)


def _at(row: Any) -> Position:  # noqa: ANN401  a row of any driver
    return Position(row.block, row.tx, row.log, row.sub)


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A notice to be stored; no fork retracts it if `block` is None. `time` in chain seconds."""

    kind: str
    block: int | None
    time: int
    body: Mapping[str, object]
    node: Address | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A stored notice; `seq` counts from 1."""

    seq: int
    kind: str
    block: int | None
    time: int
    body: Mapping[str, object]
    node: Address | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """Delivery progress of a target: delivered up to `seq`; the next failed `tries` times.

    The next try is due at `next_at`, in unix seconds.
    """

    target: str
    seq: int
    tries: int = 0
    next_at: int = 0
    last_error: str | None = None


class NoticeRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Facts in other tables from which notices are made.
        self.sources = NoticeSources(connection)

    def append(self, found: Sequence[NewNotice]) -> int:
        """Append notices and return the number of the last one."""
        newest = self.newest()
        rows = [
            (
                seq,
                one.block,
                one.time,
                one.kind,
                raw_or_none(one.node),
                one.subject,
                msgspec.json.encode(dict(one.body)).decode(),
                None,
            )
            for seq, one in enumerate(found, newest + 1)
        ]
        append(self._connection, notice, rows)
        return newest + len(rows)

    def newest(self) -> int:
        """Return the number of the newest notice, or 0 if there is none."""
        return int(self._connection.execute(select(func.max(notice.c.seq))).scalar() or 0)

    def oldest(self) -> int | None:
        """Return the number of the oldest stored notice."""
        return self._connection.execute(select(func.min(notice.c.seq))).scalar()

    def after(self, seq: int, limit: int) -> list[Notice]:
        """Return the next notices that are not retracted, in order."""
        return self._found(notice.c.seq > seq, notice.c.undone_by.is_(None), limit=limit)

    def undo_above(self, block: int, by: int) -> int:
        """Mark notices of higher blocks as retracted by `retracting_seq`; return how many."""
        above = (notice.c.block > block) & notice.c.undone_by.is_(None) & (notice.c.seq < by)
        return self._connection.execute(update(notice).where(above).values(undone_by=by)).rowcount

    def undone_by(self, seq: int, limit: int) -> list[Notice]:
        """Return the notices that this notice retracted, in order."""
        return self._found(notice.c.undone_by == seq, limit=limit)

    def excluded(self) -> set[Address]:
        """Return the nodes whose newest exclusion notice is "excluded", not "recovered"."""
        kinds = notice.c.kind.in_(["excluded", "recovered"])
        of_node = select(notice.c.node, func.max(notice.c.seq).label("seq"))
        last = (
            of_node.where(kinds, notice.c.undone_by.is_(None)).group_by(notice.c.node).subquery()
        )
        chosen = select(notice.c.node).join(last, notice.c.seq == last.c.seq)
        rows = self._connection.execute(chosen.where(notice.c.kind == "excluded")).scalars()
        return {Address(hexed(node)) for node in rows}

    def known(self, kind: str, subjects: Collection[str]) -> set[str]:
        """Return the subjects that have a notice of this kind."""
        chosen = select(notice.c.subject).where(
            notice.c.subject.in_(list(subjects)), notice.c.kind == kind
        )
        return set(self._connection.execute(chosen).scalars())

    def prune(self, before: int) -> None:
        """Delete notices older than `max_time`, in chain seconds; the newest notice is kept."""
        newest = self.newest()
        # New numbers continue from the newest notice, so it is kept.
        old = (notice.c.time < before) & (notice.c.seq < newest)
        upto = self._connection.execute(select(func.max(notice.c.seq)).where(old)).scalar()
        if upto is not None:
            self._connection.execute(delete(notice).where(notice.c.seq <= upto))

    def place(self, target: str) -> TargetPlace | None:
        """Return the progress of a target, or None if it is new."""
        return next((one for one in self.places() if one.target == target), None)

    def places(self) -> list[TargetPlace]:
        """Return the progress of each target, including targets no longer configured."""
        rows = self._connection.execute(select(notify_place).order_by(notify_place.c.target))
        return [TargetPlace(*row) for row in rows]

    def set_place(self, place: TargetPlace) -> None:
        """Save the progress of a target."""
        row = (place.target, place.seq, place.tries, place.next_at, place.last_error)
        upsert(self._connection, notify_place, [row])

    def _found(self, *where: ColumnElement[bool], limit: int) -> list[Notice]:
        chosen = select(notice).where(*where).order_by(notice.c.seq).limit(limit)
        return [_notice_of(row) for row in self._connection.execute(chosen)]


def _notice_of(row: Any) -> Notice:  # noqa: ANN401  a row of any driver
    return Notice(
        seq=row.seq,
        kind=row.kind,
        block=row.block,
        time=row.time,
        body=msgspec.json.decode(row.body, type=dict[str, Any]),
        node=None if row.node is None else Address(hexed(row.node)),
        subject=row.subject,
    )
