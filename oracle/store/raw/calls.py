"""The raw calls: transactions whose input says what their logs do not."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Call
from oracle.store.bulk import Row
from oracle.store.encoding import hexed, raw, wei
from oracle.store.raw.raw_rows import RawRowRepository
from oracle.store.tables.chain_tables import call


class CallRepository(RawRowRepository[Call]):
    """A call's key is its block number, its transaction's index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, call, _rows_of, _call_of)


def _rows_of(calls: Sequence[Call]) -> list[Row]:
    return [_row_of(entry) for entry in calls]


def _row_of(entry: Call) -> Row:
    return (
        entry.block,
        entry.tx,
        raw(entry.block_hash),
        entry.time,
        raw(entry.tx_hash),
        raw(entry.sender),
        raw(entry.to),
        wei(entry.value),
        raw(entry.input),
        entry.succeeded,
        True,
    )


def _call_of(row: Any) -> Call:  # noqa: ANN401  a row of any driver
    number, tx, block_hash, time, tx_hash, sender, to, value, content, succeeded, _ = row
    return Call(
        block=number,
        block_hash=Hash(hexed(block_hash)),
        time=time,
        tx=tx,
        tx_hash=Hash(hexed(tx_hash)),
        sender=Address(hexed(sender)),
        to=Address(hexed(to)),
        value=int.from_bytes(value, "big"),
        input=hexed(content),
        succeeded=bool(succeeded),
    )
