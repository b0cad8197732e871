"""Logs to rows of `log_row` and back; the block and the source of a row stand elsewhere."""

from collections.abc import Mapping
from typing import Any

from oracle.domain.log_table import INDEX_BITS, LogBlock, LogTable, log_of_row
from oracle.domain.logs import Log
from oracle.store.bulk import Row
from oracle.store.raw.log_sources import LogSources


def key_of(log: Log) -> int:
    """Return the key of a log's row."""
    return log.block << INDEX_BITS | log.index


def rows_of(table: LogTable, sources: LogSources) -> list[Row]:
    """Return the rows, in the order of the table's columns; write down sources that are new."""
    rows: list[Row] = []
    for part in table.parts:
        numbers = [sources[source] for source in part.sources]
        rows += [
            (key, tx, numbers[place], tx_hash, topics, data)
            for key, tx, place, tx_hash, topics, data in part.rows
        ]
    sources.save()
    return rows


def log_of(row: Any, blocks: Mapping[int, LogBlock], sources: LogSources) -> Log:  # noqa: ANN401
    """Return the log of a row of `log_row`."""
    key, tx, source, tx_hash, topics, data = row
    return log_of_row(
        (key, tx, tx_hash, topics, data), blocks[key >> INDEX_BITS], sources.named(source)
    )


def orphan_of(row: Any, sources: LogSources) -> Log:  # noqa: ANN401  a row of any driver
    """Return the log of a row of `log_orphan`."""
    number, index, block_hash, time, *content = row
    key = number << INDEX_BITS | index
    return log_of((key, *content), {number: (block_hash, time)}, sources)
