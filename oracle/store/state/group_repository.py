"""Stores validation groups that are open, and the results of closed groups."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    func,
    select,
    tuple_,
)

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, GroupKey, TaskKey
from oracle.domain.state import Ending, GroupMember, GroupResult, OpenGroup, Task
from oracle.store.bulk import Row, fetch_rows, insert_rows, upsert_rows
from oracle.store.encoding import (
    decode_hex,
    decode_optional_hex,
    encode_hex,
    join_hashes,
    split_hashes,
)
from oracle.store.state.task_repository import ANSWER_COLUMNS, decode_answer_row
from oracle.store.tables.state_tables import group_member, group_result, open_group, score, task


class GroupRepository:
    """Access to open groups and their tasks so far.

    Only rule sets with `close = terminal` use this table.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_many(self, groups: Iterable[GroupKey]) -> dict[GroupKey, OpenGroup]:
        """Return the stored groups among these keys."""
        rows = fetch_rows(self._connection, open_group, map(decode_hex, groups))
        return {group.group: group for group in map(_decode_group_row, rows)}

    def save(self, groups: Iterable[OpenGroup]) -> None:
        """Insert or replace the rows of these groups."""
        upsert_rows(self._connection, open_group, [encode_group_row(group) for group in groups])


def encode_group_row(group: OpenGroup) -> Row:
    return (decode_hex(group.group), join_hashes(group.tasks), group.closed)


def decode_group_values(row: Row) -> OpenGroup:
    """Decode a group from a row's values in the table's column order."""
    key, tasks, closed = row
    return OpenGroup(
        GroupKey(encode_hex(key)), tuple(map(TaskKey, split_hashes(tasks))), closed=bool(closed)
    )


def _decode_group_row(row: Any) -> OpenGroup:  # noqa: ANN401  a row of any driver
    return OpenGroup(
        group=GroupKey(encode_hex(row.task_group)),
        tasks=tuple(TaskKey(key) for key in split_hashes(row.tasks)),
        closed=bool(row.closed),
    )


_NOT_ACCEPTED = [ending.value for ending in (Ending.INVALIDATED, Ending.ABORTED, Ending.TIMED_OUT)]
_RESULT_POSITION = [group_result.c[name] for name in Position._fields]
_MEMBER_POSITION = [group_member.c[name] for name in Position._fields]
_IS_MEMBER_OF_RESULT = and_(
    *(
        result_column == member_column
        for result_column, member_column in zip(_RESULT_POSITION, _MEMBER_POSITION, strict=True)
    )
)
# A row begins with the columns of the group's result, and the first of these columns are the
# result's position.
_RESULT_WIDTH = len(group_result.columns)
_MEMBER_COLUMNS = [group_member.c[name] for name in ("task", "node", "rank", "elapsed", "score")]
_SELECT_RESULTS = (
    select(group_result, *_MEMBER_COLUMNS)
    .join_from(group_result, group_member, _IS_MEMBER_OF_RESULT)
    .order_by(*_RESULT_POSITION, group_member.c.place)
)
_MEMBER_END = _RESULT_WIDTH + len(_MEMBER_COLUMNS)
# Results and tasks are selected together, because this takes half as long as reading the tasks by
# key.
_SELECT_RESULTS_OF_SCORES = (
    _SELECT_RESULTS.outerjoin(task, task.c.key == group_member.c.task)
    .add_columns(*ANSWER_COLUMNS)
    .where(
        tuple_(*_RESULT_POSITION).in_(
            select(*(score.c[name] for name in Position._fields)).where(
                score.c.node == bindparam("scored_node"),
                score.c.seq.between(bindparam("first_seq"), bindparam("last_seq")),
            )
        )
    )
)


class GroupResultRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, results: Sequence[GroupResult]) -> None:
        """Append the results of groups at the positions where the groups closed."""
        insert_rows(
            self._connection,
            group_result,
            [
                (*result.closed_at, decode_hex(result.group), result.time, result.scored)
                for result in results
            ],
        )
        insert_rows(
            self._connection,
            group_member,
            [
                (
                    *result.closed_at,
                    member_index,
                    decode_hex(member.task),
                    decode_optional_hex(member.node),
                    member.rank,
                    member.elapsed,
                    member.score,
                )
                for result in results
                for member_index, member in enumerate(result.members)
            ],
        )

    def list_for_group(self, group: GroupKey) -> list[GroupResult]:
        """Return the results of this group.

        There are several results only if the group's key was reused.
        """
        return self._select_results(group_result.c.task_group == decode_hex(group))

    def list_possible_zero_scores(
        self, node: Address, first_block: int, last_block: int
    ) -> list[Position]:
        """Return the closing positions of groups that may have scored this node 0.

        The oldest group comes first.
        """
        query = (
            select(*_MEMBER_POSITION)
            .join_from(group_result, group_member, _IS_MEMBER_OF_RESULT)
            .where(
                group_result.c.block.between(first_block, last_block),
                group_result.c.scored,
                group_member.c.node == decode_hex(node),
                group_member.c.score.is_(None),
            )
            .order_by(*_MEMBER_POSITION)
        )
        return [Position(*row) for row in self._connection.execute(query)]

    def list_closed_at(self, positions: Sequence[Position]) -> list[GroupResult]:
        """Return the results of the groups closed at these positions, oldest first."""
        positions_as_tuples = [tuple(position) for position in positions]
        return (
            self._select_results(tuple_(*_RESULT_POSITION).in_(positions_as_tuples))
            if positions_as_tuples
            else []
        )

    def list_for_scores(
        self, node: Address, first_seq: int, last_seq: int
    ) -> tuple[list[GroupResult], dict[TaskKey, Task]]:
        """Return the groups that led to a node's scores, and the tasks of these groups.

        The oldest group comes first. In the returned tasks, only the fields that determine the
        rank and the payment of an answer are read; all other fields are as in a new task.
        """
        parameters = {
            "scored_node": decode_hex(node),
            "first_seq": first_seq,
            "last_seq": last_seq,
        }
        rows = self._connection.execute(_SELECT_RESULTS_OF_SCORES, parameters).all()
        tasks = [
            decode_answer_row(values)
            for row in rows
            if (values := row[_MEMBER_END:])[0] is not None
        ]
        return _build_results(rows), {answered_task.key: answered_task for answered_task in tasks}

    def list_newest_answer_times(self, limit: int) -> list[list[tuple[Address, int]]]:
        """Return the answer times of the newest scored groups, as (node, seconds) by rank.

        `seconds` is the time that the node took to answer; answers in less than a second are left
        out. Up to `limit` groups are returned, newest first.
        """
        newest_query = (
            select(*_RESULT_POSITION)
            .where(group_result.c.scored)
            .order_by(*(column.desc() for column in _RESULT_POSITION))
            .limit(limit)
            .subquery()
        )
        positions = [newest_query.c[name] for name in Position._fields]
        is_member = and_(
            *(
                position == member_column
                for position, member_column in zip(positions, _MEMBER_POSITION, strict=True)
            )
        )
        rows = self._connection.execute(
            select(*positions, group_member.c.node, group_member.c.elapsed)
            .join_from(newest_query, group_member, is_member)
            .where(
                group_member.c.rank.is_not(None),
                group_member.c.node.is_not(None),
                group_member.c.elapsed > 0,
            )
            .order_by(*(position.desc() for position in positions))
        )
        return [
            [(Address(encode_hex(node)), elapsed) for *_, node, elapsed in group_rows]
            for _, group_rows in groupby(rows, key=itemgetter(slice(len(positions))))
        ]

    def list_with_unaccepted_tasks(
        self, first_block: int, last_block: int, limit: int | None = None
    ) -> list[GroupResult]:
        """Return up to `limit` groups closed in these blocks that have an unaccepted task.

        The oldest groups come first. Groups in which a node only timed out are included.
        """
        is_not_accepted = task.c.ending.in_(_NOT_ACCEPTED)
        query = (
            select(*_RESULT_POSITION)
            .distinct()
            .join_from(group_result, group_member, _IS_MEMBER_OF_RESULT)
            .join(task, task.c.key == group_member.c.task)
            .where(group_result.c.block.between(first_block, last_block), is_not_accepted)
            .order_by(*_RESULT_POSITION)
            .limit(limit)
        )
        return self.list_closed_at([Position(*row) for row in self._connection.execute(query)])

    def count(self) -> int:
        """Count the closed groups."""
        count_query = select(func.count()).select_from(group_result)
        return int(self._connection.execute(count_query).scalar_one())

    def _select_results(self, condition: ColumnElement[bool]) -> list[GroupResult]:
        return _build_results(self._connection.execute(_SELECT_RESULTS.where(condition)).all())


def _build_results(rows: Sequence[Any]) -> list[GroupResult]:
    """Build group results from rows of members, which are sorted by group."""
    return [
        _build_result(result_values, member_rows)
        for result_values, member_rows in groupby(rows, key=_get_result_values)
    ]


_get_result_values = itemgetter(*range(_RESULT_WIDTH))
_get_member_values = itemgetter(*range(_RESULT_WIDTH, _MEMBER_END))


def _build_result(result_values: Sequence[Any], member_rows: Iterable[Any]) -> GroupResult:
    # The values are unpacked by position, because access by name would take most of the time.
    *position, task_group, time, scored = result_values
    members = [
        GroupMember(
            TaskKey(encode_hex(task_key)),
            None if node is None else Address(encode_hex(node)),
            rank,
            elapsed,
            member_score,
        )
        for task_key, node, rank, elapsed, member_score in map(_get_member_values, member_rows)
    ]
    return GroupResult(
        group=GroupKey(encode_hex(task_group)),
        closed_at=Position(*position),
        time=time,
        members=tuple(members),
        scored=bool(scored),
    )
