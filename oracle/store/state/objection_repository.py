"""Stores nodes' objections to their kickouts, and this reporter's answers.

See docs/explanation/objections.md.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.events.oracle_events import Objected
from oracle.domain.ids import Address
from oracle.store.bulk import Row, upsert_rows
from oracle.store.encoding import decode_hex, decode_position, encode_hex
from oracle.store.tables.objection_tables import objection, objection_answer

_POSITION = Position._fields


class ObjectionAnswer(NamedTuple):
    """The operator's answer to the objections to one kickout.

    `answered_at` is in unix seconds. `signer` and `signature` are None if no key has signed the
    answer.
    """

    node: Address
    due_since: int
    is_accepted: bool
    because: str
    answered_at: int
    signer: Address | None = None
    signature: bytes | None = None


class ObjectionRepository:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_for_node(self, node: Address, limit: int = 50) -> list[Objected]:
        """Return the newest objections of a node, newest first."""
        query = select(objection).where(objection.c.node == decode_hex(node))
        rows = self._connection.execute(query.order_by(objection.c.seq.desc()).limit(limit))
        return [_decode_objection_row(row) for row in rows]

    def list_newest(self, limit: int = 50) -> list[Objected]:
        """Return the newest objections, newest first."""
        order_columns = [objection.c[name].desc() for name in _POSITION]
        rows = self._connection.execute(select(objection).order_by(*order_columns).limit(limit))
        return [_decode_objection_row(row) for row in rows]

    def list_between(self, blocks: BlockRange) -> list[Objected]:
        """Return the objections that were made in these blocks, oldest first."""
        query = select(objection).where(objection.c.block.between(blocks.first, blocks.last))
        rows = self._connection.execute(query.order_by(*(objection.c[name] for name in _POSITION)))
        return [_decode_objection_row(row) for row in rows]

    def list_for_nodes(self, nodes: Collection[Address]) -> list[Objected]:
        """Return all objections of these nodes, oldest first."""
        query = select(objection).where(objection.c.node.in_([decode_hex(node) for node in nodes]))
        order_columns = (objection.c.node, objection.c.seq)
        rows = self._connection.execute(query.order_by(*order_columns))
        return [_decode_objection_row(row) for row in rows]

    def get(self, node: Address, seq: int) -> Objected | None:
        """Return one objection of a node, or None if it is not stored."""
        query = select(objection).where(
            objection.c.node == decode_hex(node), objection.c.seq == seq
        )
        row = self._connection.execute(query).one_or_none()
        return None if row is None else _decode_objection_row(row)

    def list_answers(self, nodes: Collection[Address]) -> list[ObjectionAnswer]:
        """Return the operator's answers to these nodes' objections, oldest first."""
        query = select(objection_answer).where(
            objection_answer.c.node.in_([decode_hex(node) for node in nodes])
        )
        rows = self._connection.execute(query.order_by(objection_answer.c.answered_at))
        return [
            ObjectionAnswer(
                Address(encode_hex(row.node)),
                row.due_since,
                row.is_accepted,
                row.because,
                row.answered_at,
                None if row.signer is None else Address(encode_hex(row.signer)),
                None if row.signature is None else bytes(row.signature),
            )
            for row in rows
        ]

    def save_answer(self, answer: ObjectionAnswer) -> None:
        """Store an answer, replacing any earlier answer to the same kickout."""
        signer = None if answer.signer is None else decode_hex(answer.signer)
        row = (decode_hex(answer.node), *answer[1:5], signer, answer.signature)
        upsert_rows(self._connection, objection_answer, [row])


def encode_objection_row(event: Objected) -> Row:
    return (
        decode_hex(event.node),
        event.seq,
        *event.at,
        event.time,
        event.due_since,
        event.reason,
        event.text,
    )


def _decode_objection_row(row: Any) -> Objected:  # noqa: ANN401  a row of any driver
    return Objected(
        at=decode_position(row),
        time=row.time,
        node=Address(encode_hex(row.node)),
        due_since=row.due_since,
        reason=row.reason,
        seq=row.seq,
        text=row.text,
    )
