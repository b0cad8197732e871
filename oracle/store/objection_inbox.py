"""Stores signed objections from the read API until they are on chain.

The read API adds rows, and the daemon that submits the objections marks them as ended. See
docs/explanation/objections.md#post-an-objection.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from oracle.domain.ids import Address
from oracle.store.encoding import decode_hex, encode_hex
from oracle.store.tables.objection_tables import objection_inbox


@dataclass(frozen=True, slots=True)
class PostedObjection:
    """A signed objection; times are in unix seconds, and `deadline` is a block time.

    `intent_id` is the call that submits the objection, or None while no call is planned.
    `ended_at` is None while the objection waits or is being sent. `ended_reason` is set only if
    the objection ended without being submitted. `reserved_gas` is the maximum gas of its
    transaction.
    """

    node: Address
    due_since: int
    reason: int
    text: str
    seq: int
    deadline: int
    signature: bytes
    received_at: int
    reserved_gas: int
    id: int = 0
    intent_id: int | None = None
    ended_at: int | None = None
    ended_reason: str | None = None


class ObjectionInbox:
    """Access to the table objection_inbox, within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, posted_objection: PostedObjection) -> None:
        """Store a newly posted objection.

        The fields for its id, its call and its end are ignored.
        """
        row = {
            "node": decode_hex(posted_objection.node),
            "seq": posted_objection.seq,
            "due_since": posted_objection.due_since,
            "reason": posted_objection.reason,
            "text": posted_objection.text.encode(),
            "deadline": posted_objection.deadline,
            "signature": posted_objection.signature,
            "received_at": posted_objection.received_at,
            "reserved_gas": posted_objection.reserved_gas,
        }
        self._connection.execute(insert(objection_inbox).values(row))

    def count_posted_within(self, now: int, seconds: int) -> int:
        """Count the objections posted in the last `seconds` before `now` (unix seconds).

        Objections more than `seconds` in the future are left out, because they were stored by a
        clock that was ahead.
        """
        query = select(func.count()).where(
            objection_inbox.c.received_at.between(now - seconds, now + seconds)
        )
        return int(self._connection.execute(query).scalar_one())

    def sum_reserved_gas_within(self, now: int, seconds: int) -> int:
        """Return the gas reserved for objections posted in the last `seconds` before `now`."""
        query = select(func.coalesce(func.sum(objection_inbox.c.reserved_gas), 0)).where(
            objection_inbox.c.received_at.between(now - seconds, now + seconds)
        )
        return int(self._connection.execute(query).scalar_one())

    def list_for_node(self, node: Address, limit: int = 50) -> list[PostedObjection]:
        """Return the newest posted objections of a node, newest first."""
        query = select(objection_inbox).where(objection_inbox.c.node == decode_hex(node))
        return self._select_objections(query.order_by(objection_inbox.c.id.desc()).limit(limit))

    def find_unplanned_objection(self) -> PostedObjection | None:
        """Return the oldest posted objection without a call, or None if all have one."""
        query = select(objection_inbox).where(
            objection_inbox.c.ended_at.is_(None), objection_inbox.c.intent_id.is_(None)
        )
        return next(
            iter(self._select_objections(query.order_by(objection_inbox.c.id).limit(1))), None
        )

    def find_by_intent(self, intent_id: int) -> PostedObjection | None:
        """Return the objection that a call submits, or None if it submits none."""
        query = select(objection_inbox).where(objection_inbox.c.intent_id == intent_id)
        return next(iter(self._select_objections(query)), None)

    def set_intent(self, posted_objection: PostedObjection, intent_id: int) -> None:
        """Record which call submits an objection."""
        self._update(posted_objection, intent_id=intent_id)

    def mark_ended(self, posted_objection: PostedObjection, at: int, reason: str | None) -> None:
        """Record that an objection ended at time `at` (unix seconds).

        `reason` is None if the objection is on chain.
        """
        self._update(posted_objection, ended_at=at, ended_reason=reason)

    def _update(self, posted_objection: PostedObjection, **values: object) -> None:
        statement = update(objection_inbox).where(objection_inbox.c.id == posted_objection.id)
        self._connection.execute(statement.values(values))

    def _select_objections(self, query: Any) -> list[PostedObjection]:  # noqa: ANN401  a select of the table
        return [_decode_row(row) for row in self._connection.execute(query)]


def _decode_row(row: Any) -> PostedObjection:  # noqa: ANN401  a row of any driver
    return PostedObjection(
        node=Address(encode_hex(row.node)),
        due_since=row.due_since,
        reason=row.reason,
        text=bytes(row.text).decode(),
        seq=row.seq,
        deadline=row.deadline,
        signature=bytes(row.signature),
        received_at=row.received_at,
        reserved_gas=row.reserved_gas,
        id=row.id,
        intent_id=row.intent_id,
        ended_at=row.ended_at,
        ended_reason=row.ended_reason,
    )
