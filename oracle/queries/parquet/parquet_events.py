"""The events of an export, read back in batches, so that no history is in memory as a whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from oracle.domain.blocks import BEFORE_EVERYTHING
from oracle.domain.events.network_events import DomainEvent
from oracle.errors import InputError
from oracle.queries.event_history import History
from oracle.queries.parquet.event_columns import events_of
from oracle.queries.parquet.parquet_folder import ParquetFolder
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable

# The number of events that exist as objects at the same time.
_EVENTS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class ParquetEvents:
    """The final events of an export up to `max_block` (None: all), in order of position."""

    paths: tuple[Path, ...]
    last: int | None = None

    @classmethod
    def of(cls, path: Path, last: int | None = None) -> Self:
        """Open the export in a folder.

        Raises:
            InputError: there is no export, or none of its blocks is final.
        """
        found = ParquetFolder.existing(path).files(ExportTable.EVENTS)
        if not found:
            raise InputError(f"{path}: no final block is exported")
        return cls(tuple(found), last)

    def chunks(self) -> Iterator[list[DomainEvent]]:
        """Yield all events, a few thousand at a time.

        Raises:
            InputError: a file is no table of events, or its events are out of order.
        """
        before = BEFORE_EVERYTHING
        for path in self.paths:
            for batch in _batches(path):
                events = list(events_of(self._until(batch)))
                for event in events:
                    if event.at <= before:
                        raise InputError(f"{path}: events out of order at {tuple(event.at)}")
                    before = event.at
                if events:
                    yield events

    def history(self, first: int) -> History:
        """Return the history that counts the events from block `min_block` on.

        Only three columns are read for the counts.

        Raises:
            InputError: there is no event from block `min_block` on, or a file cannot be read.
        """
        try:
            found = ds.dataset([str(path) for path in self.paths], schema=_SCHEMA)
            upto = None if self.last is None else ds.field("block") <= self.last
            folded = found.count_rows(filter=upto)
            counted = _Tally()
            wanted = ds.field("block") >= first
            for batch in found.to_batches(
                columns=["block", "time", "type"],
                filter=wanted if upto is None else wanted & upto,
            ):
                counted.add(batch)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self.paths[0].parent}: cannot be read: {error}") from None
        if counted.first is None:
            raise InputError(f"--from {first}: there is no event at or after it")
        (block, time), (last, until) = counted.first, counted.last
        return History(self, folded, counted.events, counted.starts, block, last, time, until)

    def _until(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.last is None:
            return batch
        return batch.filter(pc.less_equal(batch.column("block"), self.last))


_SCHEMA = SCHEMAS[ExportTable.EVENTS]


@dataclass(slots=True)
class _Tally:
    events: int = 0
    starts: int = 0
    first: tuple[int, int] | None = None
    last: tuple[int, int] = (0, 0)

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        blocks, times = batch.column("block"), batch.column("time")
        self.events += batch.num_rows
        self.starts += pc.sum(pc.equal(batch.column("type"), "task_started")).as_py() or 0
        self.first = self.first or (blocks[0].as_py(), times[0].as_py())
        self.last = (blocks[-1].as_py(), times[-1].as_py())


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield a file's rows as the table's columns.

    Raises:
        InputError: the file is damaged, or is no table of events of this program.
    """
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(_SCHEMA):
                raise InputError(f"{path}: has other columns than the table of events")
            yield from file.iter_batches(_EVENTS_AT_ONCE)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
