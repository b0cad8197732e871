"""The raw logs."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log
from oracle.store.bulk import Row
from oracle.store.encoding import raw, split
from oracle.store.raw.raw_rows import RawRowRepository
from oracle.store.tables.chain_tables import log


class LogRepository(RawRowRepository[Log]):
    """A log's key is its block number, its index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, log, _rows_of, _log_of)

    def counts_without(self, address: Address | None, first: int, last: int) -> dict[int, int]:
        """Count the canonical logs of each block, but those of one contract."""
        theirs = [] if address is None else [log.c.address == raw(address)]
        return self.counts(first, last, *theirs)

    def block_of(self, transactions: Iterable[Hash], first: int) -> int | None:
        """Return the block, from `first` on, of a canonical log of one of these transactions."""
        known = [raw(one) for one in transactions]
        found = select(log.c.block).where(
            log.c.block >= first, log.c.canonical, log.c.tx_hash.in_(known)
        )
        return self._connection.execute(found.limit(1)).scalar_one_or_none()


class _Known(dict[str, bytearray]):
    """Hex to bytes, each text once: neighbours share block and address."""

    def __missing__(self, text: str) -> bytearray:
        found = self[text] = bytearray.fromhex(text[2:])
        return found


def _rows_of(logs: Sequence[Log]) -> list[Row]:
    # One expression for all of them: this runs over every log of the chain. sqlite3 takes a
    # bytearray as it is; at bytes it looks longer than it takes to write them.
    known, raw = _Known(), bytearray.fromhex
    return [
        (
            entry.block,
            entry.index,
            known[entry.block_hash],
            entry.time,
            entry.tx,
            raw(entry.tx_hash[2:]),
            known[entry.address],
            raw("".join(entry.topics).replace("0x", "")),
            raw(entry.data[2:]),
            True,
        )
        for entry in logs
    ]


def _log_of(row: Any) -> Log:  # noqa: ANN401  a row of any driver
    number, index, block_hash, time, tx, tx_hash, address, topics, content, _ = row
    return Log(
        block=number,
        block_hash=Hash("0x" + block_hash.hex()),
        time=time,
        tx=tx,
        tx_hash=Hash("0x" + tx_hash.hex()),
        index=index,
        address=Address("0x" + address.hex()),
        topics=split(topics),
        data="0x" + content.hex(),
    )
