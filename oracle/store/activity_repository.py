"""Recent activity of all nodes: counts over time, and single changes.

No index leads by time. Blocks have one, and block times only grow, so the first block at or after
a time is found by bisection.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Table,
    and_,
    func,
    literal,
    null,
    select,
    union,
)

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    ReliabilityCause,
    ReliabilityChange,
)
from oracle.domain.ids import Address
from oracle.store.encoding import hexed, raw
from oracle.store.history_repository import change_of, interval_of, turn_of
from oracle.store.tables.state_tables import (
    kickout,
    membership_change,
    node,
    reliability_change,
    score,
)


class NodeStep(NamedTuple):
    """A score of a node, or a change of its reliability (then `score` is None)."""

    block: int
    time: int
    score: int | None
    reliability: int


class ActivityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def scores_by_time(self, start: int, width: int, last: int) -> dict[int, int]:
        """Count scores since `start` in buckets of `width_seconds`, numbered from 0.

        `last_block` is the newest block.
        """
        return self._counts(score, (start, width, last))

    def timeouts_by_time(self, start: int, width: int, last: int) -> dict[int, int]:
        """Count timeouts since `start` in buckets of `width_seconds`, numbered from 0."""
        timed_out = reliability_change.c.cause == ReliabilityCause.TIMED_OUT.value
        return self._counts(reliability_change, (start, width, last), timed_out)

    def count_ended(self, first: int, last: int) -> tuple[int, int]:
        """Count the tasks that ended in the blocks `first_block` to `last_block`, and their nodes.

        A task counts if it has a score, or if its end changed the node's reliability. A successful
        task without a score leaves no row if the reliability is 1, and does not count.
        """
        parts = [
            select(table.c.node, table.c.task).where(
                table.c.block.between(first, last), table.c.task.is_not(None)
            )
            for table in (score, reliability_change)
        ]
        ended = union(*parts).subquery()
        counted = select(func.count(), func.count(ended.c.node.distinct())).select_from(ended)
        tasks, nodes = self._connection.execute(counted).one()
        return int(tasks), int(nodes)

    def changes_since(self, time: int, first: int, limit: int) -> list[ReliabilityChange]:
        """Return the first reliability changes at `time` or later, of all nodes, in order.

        `first_block` is a block below which no row has this time or a later one.
        """
        return [change_of(row) for row in self._since(reliability_change, time, first, limit)]

    def turns_since(self, time: int, first: int, limit: int) -> list[MembershipChange]:
        """Return the first membership changes at `time` or later, of all nodes, in order."""
        return [turn_of(row) for row in self._since(membership_change, time, first, limit)]

    def kickouts_since(self, block: int) -> list[KickoutDue]:
        """Return the intervals that opened in this block or later, oldest first."""
        order = [kickout.c[name] for name in Position._fields]
        chosen = select(kickout).where(kickout.c.block >= block).order_by(*order)
        return [interval_of(row) for row in self._connection.execute(chosen)]

    def last_steps(self, nodes: Iterable[Address], depth: int) -> dict[Address, list[NodeStep]]:
        """Return the last `depth` scores of each node and the changes of H since, in order.

        The last change of H before the first of these scores is included. One query.
        """
        wanted = [raw(address) for address in nodes]
        scores = _last_scores(wanted, depth)
        both = _as_steps(scores).union_all(_changes_beside(wanted, scores)).subquery()
        # A score and a change of the same block stay in the order of their events.
        order = ("node", "block", "tx", "log", "sub", "kind", "seq")
        told = [both.c[name] for name in ("node", "block", "time", "score", "h_after")]
        rows = self._connection.execute(select(*told).order_by(*(both.c[name] for name in order)))
        return {
            Address(hexed(address)): [NodeStep(*row[1:]) for row in mine]
            for address, mine in groupby(rows, key=itemgetter(0))
        }

    def first_block_at(self, time: int, last: int) -> int:
        """Return a block below which no row has this time or a later one; max `last_block` + 1."""
        return self._first_block_at(reliability_change, time, last)

    def _first_block_at(self, table: Table, time: int, last: int) -> int:
        first_above = select(table.c.time).order_by(table.c.block).limit(1)

        def is_late(block: int) -> bool:
            found = self._connection.execute(first_above.where(table.c.block >= block))
            seen = found.scalar_one_or_none()
            return seen is None or seen >= time

        return bisect_left(range(last + 1), x=True, key=is_late)

    def _since(self, table: Table, time: int, first: int, limit: int) -> Iterable[Any]:
        order = [table.c[name] for name in (*Position._fields, "node", "seq")]
        chosen = select(table).where(table.c.block >= first, table.c.time >= time)
        return self._connection.execute(chosen.order_by(*order).limit(limit))

    def _counts(
        self, table: Table, span: tuple[int, int, int], *only: ColumnElement[bool]
    ) -> dict[int, int]:
        start, width, last = span
        part = (table.c.time - start) // width
        first = self._first_block_at(table, start, last)
        chosen = select(part, func.count()).where(table.c.block >= first, *only)
        rows = self._connection.execute(chosen.where(table.c.time >= start).group_by(part))
        return {int(number): int(count) for number, count in rows}


_PLACE = ("node", *Position._fields, "seq", "time")


def _last_scores(wanted: list[bytes], depth: int) -> Subquery:
    newest = and_(score.c.node == node.c.address, score.c.seq > node.c.scored - depth)
    columns = [score.c[name] for name in (*_PLACE, "score")]
    chosen = select(*columns).join_from(node, score, newest)
    return chosen.where(node.c.address.in_(wanted)).subquery()


def _as_steps(scores: Subquery) -> Select[*tuple[Any, ...]]:
    columns = [scores.c[name] for name in (*_PLACE, "score")]
    return select(*columns, literal(0).label("h_after"), literal(0).label("kind"))


def _changes_beside(wanted: list[bytes], scores: Subquery) -> Select[*tuple[Any, ...]]:
    """Select the changes from the block before a node's first selected score on."""
    change = reliability_change
    begins = (
        select(scores.c.node, func.min(scores.c.block).label("block"))
        .group_by(scores.c.node)
        .subquery()
    )
    earlier = change.alias()
    before = (
        select(func.max(earlier.c.block))
        .where(earlier.c.node == node.c.address, earlier.c.block < begins.c.block)
        .scalar_subquery()
    )
    since = func.coalesce(before, begins.c.block, 0)
    columns = [change.c[name] for name in _PLACE]
    return (
        select(*columns, null().label("score"), change.c.h_after, literal(1).label("kind"))
        .select_from(
            node.outerjoin(begins, begins.c.node == node.c.address).join(
                change, and_(change.c.node == node.c.address, change.c.block >= since)
            )
        )
        .where(node.c.address.in_(wanted))
    )
