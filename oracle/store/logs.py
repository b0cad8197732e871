"""The raw logs."""

from binascii import unhexlify
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from oracle.domain.ids import Address, Hash
from oracle.domain.logs import Log
from oracle.store.bulk import Row
from oracle.store.chain_tables import log
from oracle.store.encoding import split
from oracle.store.raw_rows import RawRoom


class LogRoom(RawRoom[Log]):
    """A log's key is its block number, its index and its block's hash."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, log, _rows_of, _log_of)


class _Known(dict[str, bytes]):
    """Hex to bytes, each text once: neighbours share block, address, often transaction."""

    def __missing__(self, text: str) -> bytes:
        found = self[text] = unhexlify(text[2:])
        return found


def _rows_of(logs: Sequence[Log]) -> list[Row]:
    # One expression for all of them: this runs over every log of the chain.
    known = _Known()
    return [
        (
            entry.block,
            entry.index,
            known[entry.block_hash],
            entry.time,
            entry.tx,
            known[entry.tx_hash],
            known[entry.address],
            unhexlify("".join(entry.topics).replace("0x", "")),
            unhexlify(entry.data[2:]),
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
