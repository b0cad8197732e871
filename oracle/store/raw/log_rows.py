"""Logs to rows of `log_row` and back; the block and the source of a row stand elsewhere."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from oracle.domain.ids import Hash
from oracle.domain.logs import Log
from oracle.errors import FatalError
from oracle.store.bulk import Row
from oracle.store.encoding import raw, split
from oracle.store.packing import packed, unpacked
from oracle.store.raw.log_sources import LogSources
from oracle.store.tables.log_tables import INDEX_BITS, MOST_INDEX

# Hash, and time in seconds.
Block = tuple[bytes, int]

_INDEX = attrgetter("index")
_BLOCK = attrgetter("block", "block_hash")


def key_of(log: Log) -> int:
    """Return the key of a log's row."""
    return log.block << INDEX_BITS | log.index


def blocks_of(logs: Sequence[Log]) -> dict[int, Block]:
    """Return hash and time of the logs' blocks, each as the first log of it says.

    Raises:
        FatalError: two blocks of one number, or an index that no key has room for.
    """
    if not 0 <= max(map(_INDEX, logs)) <= MOST_INDEX:
        raise FatalError(f"a log's index is above {MOST_INDEX}")
    named = set(map(_BLOCK, logs))
    hashes: dict[int, Hash] = dict(named)
    if len(hashes) < len(named):
        raise FatalError("logs of two blocks of one number cannot both be of one chain")
    times = {log.block: log.time for log in reversed(logs)}
    return {number: (raw(hashes[number]), time) for number, time in times.items()}


def rows_of(logs: Sequence[Log], sources: LogSources) -> list[Row]:
    """Return the rows, in the order of the table's columns; write down sources that are new."""
    # One expression for all of them: this runs over every log of the chain. sqlite3 takes a
    # bytearray as it is; at bytes it looks longer than it takes to write them.
    plain = bytearray.fromhex
    rows: list[Row] = [
        (
            log.block << INDEX_BITS | log.index,
            log.tx,
            sources[log.address, log.topics[0] if log.topics else ""],
            plain(log.tx_hash[2:]),
            plain("".join(log.topics[1:]).replace("0x", "")),
            packed(log.data),
        )
        for log in logs
    ]
    sources.save()
    return rows


def log_of(row: Any, blocks: Mapping[int, Block], sources: LogSources) -> Log:  # noqa: ANN401
    """Return the log of a row of `log_row`."""
    key, tx, source, tx_hash, topics, data = row
    number = key >> INDEX_BITS
    block_hash, time = blocks[number]
    address, topic0 = sources.named(source)
    return Log(
        number,
        Hash("0x" + block_hash.hex()),
        time,
        tx,
        Hash("0x" + tx_hash.hex()),
        key & MOST_INDEX,
        address,
        (topic0, *split(topics)) if topic0 else (),
        unpacked(data),
    )


def orphan_of(row: Any, sources: LogSources) -> Log:  # noqa: ANN401  a row of any driver
    """Return the log of a row of `log_orphan`."""
    number, index, block_hash, time, *content = row
    key = number << INDEX_BITS | index
    return log_of((key, *content), {number: (block_hash, time)}, sources)
