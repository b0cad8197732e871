"""The raw logs."""

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
        super().__init__(connection, log, _row_of, _log_of)


def _row_of(entry: Log) -> Row:
    # In one expression: this runs once for every log of the chain.
    unhex = bytes.fromhex
    return (
        entry.block,
        entry.index,
        unhex(entry.block_hash[2:]),
        entry.time,
        entry.tx,
        unhex(entry.tx_hash[2:]),
        unhex(entry.address[2:]),
        unhex("".join([topic[2:] for topic in entry.topics])),
        unhex(entry.data[2:]),
        True,
    )


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
