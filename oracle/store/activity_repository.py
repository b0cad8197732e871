"""Reads the recent activity of all nodes, as counts over time and as single changes.

The tables are indexed by block instead of by time. The first block at or after a time is found by
bisection, because block times do not decrease.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Table,
    and_,
    case,
    func,
    literal,
    null,
    select,
    union,
)

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import KickoutDue, MembershipChange, ReliabilityChange
from oracle.domain.ids import Address
from oracle.domain.scoring.reliability import DECREASE_CAUSES, ReliabilityCause
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.history_repository import (
    decode_kickout_row,
    decode_membership_row,
    decode_reliability_row,
)
from oracle.store.tables.state_tables import (
    kickout,
    membership_change,
    node,
    reliability_change,
    score,
)


class NodeTrendPoint(NamedTuple):
    """A score of a node or, if `score` is None, a change of its reliability."""

    block: int
    time: int
    score: int | None
    reliability: int


class ActivityRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count_scores_by_time(
        self, start: int, width_seconds: int, last_block: int
    ) -> dict[int, int]:
        """Count the scores since `start` in each time bucket of `width_seconds`.

        Buckets are numbered from 0. `last_block` is the newest block.
        """
        return self._count_by_time(score, start, width_seconds, last_block)

    def count_timeouts_by_time(
        self, start: int, width_seconds: int, last_block: int
    ) -> dict[int, int]:
        """Count the timeouts since `start` in each time bucket of `width_seconds`.

        Buckets are numbered from 0.
        """
        is_timeout = reliability_change.c.cause == ReliabilityCause.TIMED_OUT.value
        return self._count_by_time(
            reliability_change, start, width_seconds, last_block, is_timeout
        )

    def count_ended_tasks_and_nodes(self, first_block: int, last_block: int) -> tuple[int, int]:
        """Count the tasks that ended in a range of blocks, and their nodes.

        The range includes both ends. A task counts if it has a score, or if its end changed the
        node's reliability. A successful task without a score leaves no row if the reliability is
        1, and does not count.
        """
        selects = [
            select(table.c.node, table.c.task).where(
                table.c.block.between(first_block, last_block), table.c.task.is_not(None)
            )
            for table in (score, reliability_change)
        ]
        ended_rows = union(*selects).subquery()
        count_query = select(func.count(), func.count(ended_rows.c.node.distinct())).select_from(
            ended_rows
        )
        task_count, node_count = self._connection.execute(count_query).one()
        return int(task_count), int(node_count)

    def list_reliability_changes(
        self, time: int, first_block: int, limit: int
    ) -> list[ReliabilityChange]:
        """Return up to `limit` reliability changes of all nodes since `time`, oldest first.

        `first_block` limits the search; all rows below this block must be older than `time`.
        """
        return [
            decode_reliability_row(row)
            for row in self._select_since(reliability_change, time, first_block, limit)
        ]

    def list_last_reliability_changes(
        self, time: int, since: int, first_block: int
    ) -> list[ReliabilityChange]:
        """Return the last reliability change of each node within a time span.

        Changes at `since` are included, and changes at `time` are not; both are in unix seconds.
        `first_block` limits the search; all rows below this block must be older than `since`.
        """
        table = reliability_change
        newest_first_columns = [table.c[name].desc() for name in (*Position._fields, "seq")]
        row_age = func.row_number().over(partition_by=table.c.node, order_by=newest_first_columns)
        is_in_span = and_(table.c.block >= first_block, table.c.time >= since, table.c.time < time)
        ranked_rows = select(table, row_age.label("age")).where(is_in_span).subquery()
        order_columns = [ranked_rows.c[name] for name in (*Position._fields, "node")]
        columns = [ranked_rows.c[column.name] for column in table.columns]
        query = select(*columns).where(ranked_rows.c.age == 1).order_by(*order_columns)
        return [decode_reliability_row(row) for row in self._connection.execute(query)]

    def list_membership_changes(
        self, time: int, first_block: int, limit: int
    ) -> list[MembershipChange]:
        """Return up to `limit` membership changes of all nodes since `time`, oldest first.

        `first_block` limits the search; all rows below this block must be older than `time`.
        """
        return [
            decode_membership_row(row)
            for row in self._select_since(membership_change, time, first_block, limit)
        ]

    def list_kickouts_since_block(self, block: int) -> list[KickoutDue]:
        """Return the kickout intervals that opened at or after this block, oldest first."""
        order_columns = [kickout.c[name] for name in Position._fields]
        query = select(kickout).where(kickout.c.block >= block).order_by(*order_columns)
        return [decode_kickout_row(row) for row in self._connection.execute(query)]

    def get_trend_points_by_node(
        self, nodes: Iterable[Address], depth: int
    ) -> dict[Address, list[NodeTrendPoint]]:
        """Return each node's last `depth` scores, and its reliability changes in that time.

        Points are in chronological order. The last reliability change before the first returned
        score is included. One query reads the points of all nodes.
        """
        addresses = [decode_hex(address) for address in nodes]
        scores = _select_last_scores(addresses, depth)
        points = (
            _select_score_points(scores)
            .union_all(_select_reliability_changes(addresses, scores))
            .subquery()
        )
        # The order includes the position, because a block may contain several events.
        order_names = ("node", "block", "tx", "log", "sub", "kind", "seq")
        columns = [points.c[name] for name in ("node", "block", "time", "score", "h_after")]
        rows = self._connection.execute(
            select(*columns).order_by(*(points.c[name] for name in order_names))
        )
        return {
            Address(encode_hex(address)): [NodeTrendPoint(*row[1:]) for row in node_rows]
            for address, node_rows in groupby(rows, key=itemgetter(0))
        }

    def find_time_of_recent_changes(self, count: int, since: int, last_block: int) -> int:
        """Return the time of the n-th newest change, but no earlier than `since`.

        Here, n is `count`. A change is a fall of reliability or a change of membership. Both kinds
        are counted separately, and the later time is returned. The result is `since` if there are
        fewer than `count` changes of each kind. `last_block` is the newest block.
        """
        first_block = self.find_first_block_since(since, last_block)
        is_decrease = reliability_change.c.cause.in_([cause.value for cause in DECREASE_CAUSES])
        newest_times = [since]
        for table, conditions in ((reliability_change, [is_decrease]), (membership_change, [])):
            query = select(table.c.time).where(table.c.block >= first_block, *conditions)
            newest_first_query = query.order_by(table.c.block.desc()).offset(count - 1).limit(1)
            newest_times += self._connection.execute(newest_first_query).scalars()
        return max(newest_times)

    def find_first_block_since(self, time: int, last_block: int) -> int:
        """Find the first block whose rows may be at or after `time`.

        All rows below this block are older than `time`. The result is at most `last_block` + 1.
        """
        return self._find_first_block_since(reliability_change, time, last_block)

    def _find_first_block_since(self, table: Table, time: int, last_block: int) -> int:
        """Find the first block by bisection in a single query.

        A separate query for each step would be slower.
        """
        # In each row of `search`, all blocks below `block` are older than `time`. The value `step`
        # is the next step.
        search = select(
            literal(0, BigInteger).label("block"),
            literal(1 << last_block.bit_length(), BigInteger).label("step"),
        ).cte("search", recursive=True)
        last_passed = search.c.block + search.c.step - 1
        first_row = select(table.c.time).where(table.c.block >= last_passed)
        row_time = first_row.order_by(table.c.block).limit(1).scalar_subquery()
        passed_blocks = case((row_time < time, search.c.step), else_=0)
        steps = search.union_all(
            select(search.c.block + passed_blocks, search.c.step // 2).where(search.c.step > 0)
        )
        return int(
            self._connection.execute(select(steps.c.block).where(steps.c.step == 0)).scalar_one()
        )

    def _select_since(
        self, table: Table, time: int, first_block: int, limit: int
    ) -> Iterable[Any]:
        order_columns = [table.c[name] for name in (*Position._fields, "node", "seq")]
        query = select(table).where(table.c.block >= first_block, table.c.time >= time)
        return self._connection.execute(query.order_by(*order_columns).limit(limit))

    def _count_by_time(
        self,
        table: Table,
        start: int,
        width_seconds: int,
        last_block: int,
        *conditions: ColumnElement[bool],
    ) -> dict[int, int]:
        bucket = (table.c.time - start) // width_seconds
        first_block = self._find_first_block_since(table, start, last_block)
        query = select(bucket, func.count()).where(table.c.block >= first_block, *conditions)
        rows = self._connection.execute(query.where(table.c.time >= start).group_by(bucket))
        return {int(bucket_number): int(count) for bucket_number, count in rows}


_ORDER_COLUMNS = ("node", *Position._fields, "seq", "time")


def _select_last_scores(addresses: list[bytes], depth: int) -> Subquery:
    is_among_newest = and_(score.c.node == node.c.address, score.c.seq > node.c.scored - depth)
    columns = [score.c[name] for name in (*_ORDER_COLUMNS, "score")]
    query = select(*columns).join_from(node, score, is_among_newest)
    return query.where(node.c.address.in_(addresses)).subquery()


def _select_score_points(scores: Subquery) -> Select[*tuple[Any, ...]]:
    columns = [scores.c[name] for name in (*_ORDER_COLUMNS, "score")]
    return select(*columns, literal(0).label("h_after"), literal(0).label("kind"))


def _select_reliability_changes(
    addresses: list[bytes], scores: Subquery
) -> Select[*tuple[Any, ...]]:
    """Select the reliability changes that belong to the selected scores of each node.

    The first one is the last change before the node's first selected score.
    """
    change = reliability_change
    first_score = (
        select(scores.c.node, func.min(scores.c.block).label("block"))
        .group_by(scores.c.node)
        .subquery()
    )
    earlier_change = change.alias()
    previous_block = (
        select(func.max(earlier_change.c.block))
        .where(
            earlier_change.c.node == node.c.address, earlier_change.c.block < first_score.c.block
        )
        .scalar_subquery()
    )
    first_block = func.coalesce(previous_block, first_score.c.block, 0)
    columns = [change.c[name] for name in _ORDER_COLUMNS]
    return (
        select(*columns, null().label("score"), change.c.h_after, literal(1).label("kind"))
        .select_from(
            node.outerjoin(first_score, first_score.c.node == node.c.address).join(
                change, and_(change.c.node == node.c.address, change.c.block >= first_block)
            )
        )
        .where(node.c.address.in_(addresses))
    )
