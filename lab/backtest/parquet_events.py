"""Reads the events of an export in batches, because a history may not fit in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lab.backtest.event_history import History
from oracle.domain.blocks import BEFORE_EVERYTHING
from oracle.domain.events.network_events import DomainEvent
from oracle.errors import InputError
from oracle.queries.parquet.event_columns import decode_event_batch
from oracle.queries.parquet.parquet_folder import ParquetFolder
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable

# Number of events that exist as objects at the same time.
_EVENTS_PER_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class ParquetEvents:
    """The final events of an export in order of position.

    With `max_block`, only events up to this block are included.
    """

    paths: tuple[Path, ...]
    max_block: int | None = None

    @classmethod
    def open_export(cls, path: Path, max_block: int | None = None) -> Self:
        """Open the export in a folder.

        Raises:
            InputError: there is no export, or none of its blocks is final.
        """
        event_files = ParquetFolder.open_existing(path).list_files(ExportTable.EVENTS)
        if not event_files:
            raise InputError(f"{path}: the export has no final block yet")
        return cls(tuple(event_files), max_block)

    def read_chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield all events in chunks of a few thousand.

        Raises:
            InputError: a file is not an event table, or its events are out of order.
        """
        last_position = BEFORE_EVERYTHING
        for path in self.paths:
            for batch in _read_batches(path):
                events = list(decode_event_batch(self._drop_events_after_max_block(batch)))
                for event in events:
                    if event.at <= last_position:
                        raise InputError(
                            f"{path}: the events are out of order at {tuple(event.at)}"
                        )
                    last_position = event.at
                if events:
                    yield events

    def open_history(self, min_block: int) -> History:
        """Open the history, in which only events from block `min_block` on count.

        Only three columns are read to count the events.

        Raises:
            InputError: there is no event from block `min_block` on, or a file cannot be read.
        """
        try:
            event_dataset = ds.dataset([str(path) for path in self.paths], schema=_SCHEMA)
            max_block_filter = (
                None if self.max_block is None else ds.field("block") <= self.max_block
            )
            folded_count = event_dataset.count_rows(filter=max_block_filter)
            event_count = start_count = 0
            first_row: tuple[int, int] | None = None
            last_row = (0, 0)
            min_block_filter = ds.field("block") >= min_block
            for batch in event_dataset.to_batches(
                columns=["block", "time", "type"],
                filter=min_block_filter
                if max_block_filter is None
                else min_block_filter & max_block_filter,
            ):
                if not batch.num_rows:
                    continue
                blocks = batch.column("block")
                times = batch.column("time")
                event_count += batch.num_rows
                start_count += pc.sum(pc.equal(batch.column("type"), "task_started")).as_py() or 0
                first_row = first_row or (blocks[0].as_py(), times[0].as_py())
                last_row = (blocks[-1].as_py(), times[-1].as_py())
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.paths[0].parent}: cannot be read: {error}") from None
        if first_row is None:
            raise InputError(f"--from {min_block}: the export has no event from this block on")
        (first_block, from_time), (last_block, to_time) = first_row, last_row
        return History(
            self,
            folded_count,
            event_count,
            start_count,
            first_block,
            last_block,
            from_time,
            to_time,
        )

    def _drop_events_after_max_block(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.max_block is None:
            return batch
        return batch.filter(pc.less_equal(batch.column("block"), self.max_block))


_SCHEMA = SCHEMAS[ExportTable.EVENTS]


def _read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches.

    Raises:
        InputError: the file is damaged, or is not an event table of this program.
    """
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(_SCHEMA):
                raise InputError(f"{path}: the columns differ from those of the events table")
            yield from file.iter_batches(_EVENTS_PER_BATCH)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
