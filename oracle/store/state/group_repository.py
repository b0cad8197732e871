"""Open and closed validation groups; used by rules with `close = terminal`."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, tuple_

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state.group import GroupMember, GroupResult, OpenGroup
from oracle.domain.state.task import Ending
from oracle.store.bulk import Row, append, fetch, upsert
from oracle.store.encoding import hexed, hexed_or_none, joined, raw, raw_or_none, split
from oracle.store.tables.state_tables import group_member, group_result, open_group, score, task


class GroupRepository:
    """Open groups with the tasks created so far."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def named(self, groups: Iterable[GroupKey]) -> dict[GroupKey, OpenGroup]:
        """Return the stored groups among these keys."""
        rows = fetch(self._connection, open_group, map(raw, groups))
        return {found.group: found for found in map(_group_of, rows)}

    def save(self, groups: Iterable[OpenGroup]) -> None:
        """Insert or replace the row of each group."""
        upsert(self._connection, open_group, [group_row(each) for each in groups])


def group_row(each: OpenGroup) -> Row:
    """Encode the group as a row of its table."""
    return (raw(each.group), joined(each.tasks), each.closed)


def group_in(row: Row) -> OpenGroup:
    """Decode a group from a row's values in the table's column order."""
    key, tasks, closed = row
    return OpenGroup(GroupKey(hexed(key)), tuple(map(TaskKey, split(tasks))), closed=bool(closed))


def _group_of(row: Any) -> OpenGroup:  # noqa: ANN401  a row of any driver
    return OpenGroup(
        group=GroupKey(hexed(row.task_group)),
        tasks=tuple(TaskKey(key) for key in split(row.tasks)),
        closed=bool(row.closed),
    )


_NOT_ACCEPTED = [ending.value for ending in (Ending.INVALIDATED, Ending.ABORTED, Ending.TIMED_OUT)]
_RESULT_AT = [group_result.c[name] for name in Position._fields]
_SCORED_AT = [score.c[name] for name in Position._fields]
_MEMBER_AT = [group_member.c[name] for name in Position._fields]
_MEMBER = [group_member.c[name] for name in ("task", "node", "rank", "elapsed", "score")]


class GroupResultRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, results: Sequence[GroupResult]) -> None:
        """Append results, each at the position where its group closed."""
        append(
            self._connection,
            group_result,
            [(*each.closed_at, raw(each.group), each.time, each.scored) for each in results],
        )
        append(
            self._connection,
            group_member,
            [
                (
                    *each.closed_at,
                    place,
                    raw(member.task),
                    raw_or_none(member.node),
                    member.rank,
                    member.elapsed,
                    member.score,
                )
                for each in results
                for place, member in enumerate(each.members)
            ],
        )

    def of_group(self, group: GroupKey) -> list[GroupResult]:
        """Return the results of this group: usually at most one, more if group keys repeat."""
        return self._where(group_result.c.task_group == raw(group))

    def of_node(self, node: Address, last: int = 50) -> list[GroupResult]:
        """Return the newest results that gave this node a score, oldest first."""
        # The node's scores hold the closing positions, so members need no index of their own.
        newest = (
            select(*_SCORED_AT)
            .where(score.c.node == raw(node))
            .order_by(score.c.seq.desc())
            .limit(last)
        )
        return self.closed_at([Position(*row) for row in self._connection.execute(newest)])

    def possible_zeros(self, node: Address, first_block: int, last_block: int) -> list[Position]:
        """Return where groups closed that may have scored this node 0, oldest first."""
        at = [mine == theirs for mine, theirs in zip(_RESULT_AT, _MEMBER_AT, strict=True)]
        chosen = (
            select(*_MEMBER_AT)
            .join_from(group_result, group_member, and_(*at))
            .where(
                group_result.c.block.between(first_block, last_block),
                group_result.c.scored,
                group_member.c.node == raw(node),
                group_member.c.score.is_(None),
            )
            .order_by(*_MEMBER_AT)
        )
        return [Position(*row) for row in self._connection.execute(chosen)]

    def closed_at(self, places: Sequence[Position]) -> list[GroupResult]:
        """Return the results of the groups that closed at these positions, oldest first."""
        wanted = [tuple(place) for place in places]
        return self._where(tuple_(*_RESULT_AT).in_(wanted)) if wanted else []

    def outvoted_between(
        self, first: int, last: int, limit: int | None = None
    ) -> list[GroupResult]:
        """Return up to `limit` groups of these blocks with an unaccepted answer.

        Oldest groups come first. Groups in which a node only timed out are included.
        """
        at = [mine == theirs for mine, theirs in zip(_RESULT_AT, _MEMBER_AT, strict=True)]
        ended = task.c.ending.in_(_NOT_ACCEPTED)
        places = (
            select(*_RESULT_AT)
            .distinct()
            .join_from(group_result, group_member, and_(*at))
            .join(task, task.c.key == group_member.c.task)
            .where(group_result.c.block.between(first, last), ended)
            .order_by(*_RESULT_AT)
            .limit(limit)
        )
        return self.closed_at([Position(*row) for row in self._connection.execute(places)])

    def count(self) -> int:
        """Count the closed groups."""
        counted = select(func.count()).select_from(group_result)
        return int(self._connection.execute(counted).scalar_one())

    def _where(self, chosen: ColumnElement[bool]) -> list[GroupResult]:
        at = [mine == theirs for mine, theirs in zip(_RESULT_AT, _MEMBER_AT, strict=True)]
        rows = self._connection.execute(
            select(group_result, *_MEMBER)
            .join_from(group_result, group_member, and_(*at))
            .where(chosen)
            .order_by(*_RESULT_AT, group_member.c.place)
        )
        return [_result_of(list(members)) for _, members in groupby(rows, key=_place_of)]


def _place_of(row: Any) -> Position:  # noqa: ANN401  a row of any driver
    return Position(row.block, row.tx, row.log, row.sub)


def _result_of(rows: list[Any]) -> GroupResult:
    first = rows[0]
    return GroupResult(
        group=GroupKey(hexed(first.task_group)),
        closed_at=_place_of(first),
        time=first.time,
        members=tuple(_member_of(row) for row in rows),
        scored=bool(first.scored),
    )


def _member_of(row: Any) -> GroupMember:  # noqa: ANN401  a row of any driver
    node = hexed_or_none(row.node)
    return GroupMember(
        task=TaskKey(hexed(row.task)),
        node=None if node is None else Address(node),
        rank=row.rank,
        elapsed=row.elapsed,
        score=row.score,
    )
