"""Members that wait for an index in the oracle contract, and the events that qualified them.

See docs/explanation/reports.md#registration.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, select

from oracle.domain.blocks import Position
from oracle.domain.fold.working_set import FALL_CAUSES
from oracle.domain.ids import Address
from oracle.domain.reports.registration import Newcomer
from oracle.domain.state import Membership
from oracle.store.bulk import KEYS_PER_QUERY
from oracle.store.encoding import decode_hex, decode_position, encode_hex
from oracle.store.tables.round_tables import node_index
from oracle.store.tables.state_tables import group_member, node, reliability_change, score


class RegistrationRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_scored_newcomers(self, min_scores: int) -> list[Newcomer]:
        """Return the members without an index that have at least `min_scores` scores, unordered.

        Each newcomer has the position of its `min_scores`-th score, and its position among the
        members of that score's group.
        """
        waiting = _select_waiting_members().where(node.c.scored >= min_scores)
        query = (
            select(
                score.c.node, *(score.c[name] for name in Position._fields), group_member.c.place
            )
            .outerjoin(group_member, _build_score_join())
            .where(score.c.seq == min_scores, score.c.node.in_(waiting))
        )
        return [
            _decode_newcomer_row(row, row.place or 0) for row in self._connection.execute(query)
        ]

    def list_penalised_members(self, min_scores: int, time: int) -> list[Address]:
        """Return the penalised members without an index and with too few scores.

        A member is penalised if its reliability was still recovering at `time`, in seconds, or if
        it is excluded.
        """
        is_penalised = (node.c.recovers_until > time) | node.c.excluded
        query = _select_waiting_members().where(node.c.scored < min_scores, is_penalised)
        return [Address(encode_hex(row.address)) for row in self._connection.execute(query)]

    def count_waiting(self, min_scores: int = 1) -> int:
        """Count the members that have at least `min_scores` scores and no index yet."""
        waiting = _select_waiting_members().where(node.c.scored >= min_scores).subquery()
        count_query = select(func.count()).select_from(waiting)
        return int(self._connection.execute(count_query).scalar_one())

    def list_first_penalties(self, nodes: Collection[Address]) -> list[Newcomer]:
        """Return the nodes whose H was ever reduced, with the position of the first reduction."""
        keys = [decode_hex(address) for address in nodes]
        newcomer_by_key: dict[bytes, Newcomer] = {}
        for offset in range(0, len(keys), KEYS_PER_QUERY):
            for row in self._connection.execute(
                _select_penalties(keys[offset : offset + KEYS_PER_QUERY])
            ):
                newcomer_by_key.setdefault(row.node, _decode_newcomer_row(row, 0))
        return list(newcomer_by_key.values())

    def filter_members(self, nodes: Sequence[Address]) -> set[Address]:
        """Return the members among these nodes."""
        keys = [decode_hex(address) for address in nodes]
        members = set[Address]()
        for offset in range(0, len(keys), KEYS_PER_QUERY):
            query = select(node.c.address).where(
                node.c.address.in_(keys[offset : offset + KEYS_PER_QUERY]),
                _build_member_condition(),
            )
            members.update(
                Address(encode_hex(row.address)) for row in self._connection.execute(query)
            )
        return members


def _build_member_condition() -> ColumnElement[bool]:
    return node.c.membership == Membership.MEMBER.value


def _select_waiting_members() -> Select[tuple[bytes]]:
    registered = exists().where(node_index.c.node == node.c.address)
    return select(node.c.address).where(_build_member_condition(), ~registered)


def _build_score_join() -> ColumnElement[bool]:
    same_position = [group_member.c[name] == score.c[name] for name in Position._fields]
    return and_(*same_position, group_member.c.task == score.c.task)


def _select_penalties(keys: list[bytes]) -> Select[Any]:
    """Select the changes that lowered the H of these nodes, oldest first."""
    change = reliability_change
    return (
        select(change.c.node, *(change.c[name] for name in Position._fields))
        .where(change.c.node.in_(keys), change.c.cause.in_([cause.value for cause in FALL_CAUSES]))
        .order_by(*(change.c[name] for name in Position._fields))
    )


def _decode_newcomer_row(row: Any, group_place: int) -> Newcomer:  # noqa: ANN401  a row of any driver
    return Newcomer(decode_position(row), group_place, Address(encode_hex(row.node)))
