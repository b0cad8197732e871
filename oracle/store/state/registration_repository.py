"""Nodes that wait for an index in the oracle contract, with the position that qualified them.

See docs/explanation/reports.md#registration.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import ReliabilityCause
from oracle.domain.ids import Address
from oracle.domain.reports.registration import Newcomer
from oracle.domain.state.node import Membership
from oracle.store.bulk import KEYS
from oracle.store.encoding import hexed, raw
from oracle.store.tables.round_tables import node_index
from oracle.store.tables.state_tables import group_member, node, reliability_change, score

_PLACE = ("block", "tx", "log", "sub")


class RegistrationRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def scored(self, min_scores: int) -> list[Newcomer]:
        """Return the members without an index that have `min_scores` scores, unordered.

        Each has the position of the last of these scores, and its place in the group of that
        score.
        """
        waiting = _waiting().where(node.c.scored >= min_scores)
        chosen = (
            select(score.c.node, *(score.c[name] for name in _PLACE), group_member.c.place)
            .outerjoin(group_member, _of_the_score())
            .where(score.c.seq == min_scores, score.c.node.in_(waiting))
        )
        return [_newcomer(row, row.place or 0) for row in self._connection.execute(chosen)]

    def unscored(self, min_scores: int, time: int) -> list[Address]:
        """Return the penalised members without an index and with too few scores.

        A member is penalised if its reliability was still healing at `time`, in seconds, or if it
        is excluded.
        """
        hurt = (node.c.recovers_until > time) | node.c.excluded
        chosen = _waiting().where(node.c.scored < min_scores, hurt)
        return [Address(hexed(row.address)) for row in self._connection.execute(chosen)]

    def count_waiting(self, min_scores: int = 1) -> int:
        """Count the members that have `min_scores` scores and no index yet."""
        waiting = _waiting().where(node.c.scored >= min_scores).subquery()
        counted = select(func.count()).select_from(waiting)
        return int(self._connection.execute(counted).scalar_one())

    def timed_out(self, nodes: Collection[Address]) -> list[Newcomer]:
        """Return those of these nodes that ever timed out, each with its first timeout."""
        keys = [raw(each) for each in nodes]
        found: dict[bytes, Newcomer] = {}
        for at in range(0, len(keys), KEYS):
            for row in self._connection.execute(_timeouts(keys[at : at + KEYS])):
                found.setdefault(row.node, _newcomer(row, 0))
        return list(found.values())

    def members(self, nodes: Sequence[Address]) -> set[Address]:
        """Return the members among these nodes."""
        return set(self._members([raw(each) for each in nodes]))

    def _members(self, keys: list[bytes]) -> Iterator[Address]:
        for at in range(0, len(keys), KEYS):
            chosen = select(node.c.address).where(
                node.c.address.in_(keys[at : at + KEYS]), _member_condition()
            )
            yield from (Address(hexed(row.address)) for row in self._connection.execute(chosen))


def _member_condition() -> ColumnElement[bool]:
    return node.c.membership == Membership.MEMBER.value


def _waiting() -> Select[tuple[bytes]]:
    registered = exists().where(node_index.c.node == node.c.address)
    return select(node.c.address).where(_member_condition(), ~registered)


def _of_the_score() -> ColumnElement[bool]:
    places = [group_member.c[name] == score.c[name] for name in _PLACE]
    return and_(*places, group_member.c.task == score.c.task)


def _timeouts(keys: list[bytes]) -> Select[Any]:
    """Select the timeouts of these nodes, oldest first."""
    change = reliability_change
    return (
        select(change.c.node, *(change.c[name] for name in _PLACE))
        .where(change.c.node.in_(keys), change.c.cause == ReliabilityCause.TIMED_OUT.value)
        .order_by(*(change.c[name] for name in _PLACE))
    )


def _newcomer(row: Any, place: int) -> Newcomer:  # noqa: ANN401  a row of any driver
    at = Position(row.block, row.tx, row.log, row.sub)
    return Newcomer(at, place, Address(hexed(row.node)))
