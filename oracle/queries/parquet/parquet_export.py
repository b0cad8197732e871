"""`export --parquet`: adds to a folder the blocks that became final since the last run.

Each range of blocks is read in a snapshot of its own, so that the daemon's database can clean up
meanwhile. Final rows change only if everything is folded again, which is detected. See
docs/reference/parquet.md#runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange
from oracle.domain.state.node import Node
from oracle.errors import InputError
from oracle.indexer.provenance import rebuilds, why_rebuild
from oracle.indexer.rules_binding import folded_by
from oracle.indexer.stored_events import stored_events
from oracle.queries.parquet.event_columns import batch_of
from oracle.queries.parquet.parquet_folder import ROWS_AT_ONCE, ExportSource, ParquetFolder
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable
from oracle.store.bulk import Row
from oracle.store.database import Store, UnitOfWork
from oracle.store.encoding import version_text

# Called with the last written block and the last block to write.
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of a run: `blocks` is None if nothing was new; `rows` by table.

    `final_block`: blocks up to this one will not be written again.
    """

    blocks: BlockRange | None
    rows: Mapping[ExportTable, int]
    final: int


def source_of(uow: UnitOfWork, reader: LogReader) -> ExportSource:
    """Return the identity of the history that a database holds.

    Raises:
        InputError: nothing is indexed yet, or the stored logs have to be folded again first.
    """
    identity, rules = uow.identity.get(), folded_by(uow)
    if identity is None or rules is None or uow.cursor.get() is None:
        raise InputError("nothing is indexed yet: there is nothing to export")
    why = why_rebuild(uow, reader)
    if why is not None:
        raise InputError(f"{why}: run `qos-oracle resync rebuild` first")
    return ExportSource(
        chain_id=identity.chain_id,
        genesis_hash=identity.genesis_hash,
        start_block=identity.start_block,
        profile=reader.identity,
        rules_sha256=rules.sha256,
        rebuilds=rebuilds(uow),
    )


def export_to(
    folder: ParquetFolder, store: Store, reader: LogReader, told: Told, *, recent: bool = False
) -> Exported:
    """Write the blocks that became final since the last run, saving after each range.

    Args:
        folder: opened for the `load_source` of this database.
        store: read in one snapshot per range.
        reader: decodes logs to events.
        on_progress: called after each range.
        include_recent: also write blocks that are not final; the next run replaces them.

    Raises:
        InputError: the folder has another history, or the database was rebuilt meanwhile.
        OSError: from the disk; ranges that were saved before stay valid.
    """
    with store.reading() as uow:
        _check_chain(uow, folder)
    folder.begin()
    first = folder.manifest.next
    run = _Run(folder, store, reader, dict.fromkeys(ExportTable, 0))
    while run.append_final_blocks(told):
        pass
    last = run.add_recent() if recent else folder.manifest.next - 1
    blocks = BlockRange(first, last) if first <= last else None
    return Exported(blocks, run.rows, folder.manifest.next - 1)


def planned(folder: ParquetFolder, store: Store, *, recent: bool) -> Exported:
    """Return the blocks that a run would write now, without rows. Raises as `export_blocks`."""
    with store.reading() as uow:
        _check_chain(uow, folder)
        newest, final = _heads(uow)
    first, last = folder.manifest.next, newest if recent else final
    blocks = BlockRange(first, last) if first <= last else None
    return Exported(blocks, {}, max(final, first - 1))


def _heads(uow: UnitOfWork) -> tuple[int, int]:
    """Return the last folded block and the last final block, -1 if no block is final."""
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet: there is nothing to export")
    final = -1 if cursor.final_number is None else cursor.final_number
    return cursor.number, min(final, cursor.number)


def _check_chain(uow: UnitOfWork, folder: ParquetFolder) -> None:
    """Raise InputError if the last exported block with a log is not in the database."""
    manifest = folder.manifest
    if manifest.last_log != uow.logs.highest_hash(manifest.next - 1):
        raise InputError(
            f"{folder.path}: its last block with a log is not the database's: the chain, or what "
            "was read of it, is another; export into another folder, or remove this one"
        )


@dataclass(slots=True)
class _Run:
    folder: ParquetFolder
    store: Store
    reader: LogReader
    rows: dict[ExportTable, int]

    def append_final_blocks(self, told: Told) -> bool:
        """Write one range of final blocks and save it; return whether more final blocks wait."""
        manifest = self.folder.manifest
        with self.store.reading() as uow:
            self._check_source(uow)
            _, final = _heads(uow)
            if manifest.next > final:
                return False
            blocks = next(self.folder.cut(BlockRange(manifest.next, final)))
            self._write(uow, blocks)
            if blocks.last == final:
                self._write_nodes(uow, blocks)
                manifest.nodes_next = final + 1
            manifest.last_log = uow.logs.highest_hash(blocks.last)
        manifest.next = blocks.last + 1
        self.folder.save()
        told(blocks.last, final)
        return blocks.last < final

    def add_recent(self) -> int:
        """Write the blocks that are not final, without saving; return the last block."""
        first = self.folder.manifest.next
        with self.store.reading() as uow:
            self._check_source(uow)
            newest, _ = _heads(uow)
            if first > newest:
                return first - 1
            for blocks in self.folder.cut(BlockRange(first, newest)):
                self._write(uow, blocks)
                if blocks.last == newest:
                    self._write_nodes(uow, blocks)
        return newest

    def _check_source(self, uow: UnitOfWork) -> None:
        if source_of(uow, self.reader) != self.folder.manifest.source:
            raise InputError("everything was folded anew meanwhile: export into another folder")

    def _write(self, uow: UnitOfWork, blocks: BlockRange) -> None:
        for table, batches in _tables(uow, self.reader, blocks).items():
            self.rows[table] += self.folder.write(table, blocks, batches)

    def _write_nodes(self, uow: UnitOfWork, blocks: BlockRange) -> None:
        since = BlockRange(self.folder.manifest.nodes_next, blocks.last)
        table = ExportTable.NODES
        rows = map(_node_row, uow.histories.nodes(since))
        self.rows[table] += self.folder.write(table, blocks, _batches(table, rows))


def _tables(
    uow: UnitOfWork, reader: LogReader, blocks: BlockRange
) -> dict[ExportTable, Iterator[pa.RecordBatch]]:
    """Return lazy batches of these blocks for every table except `nodes`."""
    read = uow.histories
    rows: dict[ExportTable, Iterable[Row]] = {
        ExportTable.SCORES: read.scores(blocks),
        ExportTable.RELIABILITY_CHANGES: read.reliability_changes(blocks),
        ExportTable.ROUNDS: read.rounds(blocks),
        ExportTable.KICKOUTS: read.kickouts(blocks),
    }
    events = iter(stored_events(uow, reader, blocks))
    made = {table: _batches(table, found) for table, found in rows.items()}
    pages = iter(lambda: list(islice(events, ROWS_AT_ONCE)), [])
    return {ExportTable.EVENTS: map(batch_of, pages), **made}


def _batches(table: ExportTable, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    schema, left = SCHEMAS[table], iter(rows)
    while page := list(islice(left, ROWS_AT_ONCE)):
        columns = zip(*page, strict=True)
        arrays = [
            pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)


def _node_row(node: Node) -> Row:
    return (
        *(node.changed_at, node.address, node.membership.value, node.paused, node.running),
        None if node.stake is None else str(node.stake),
        *(node.gpu_name, node.gpu_vram, version_text(node.version), list(node.models)),
        *(node.timeout, list(node.pool), node.pool_sum, node.scored, node.base, node.since),
        *(node.excluded, node.kickout_due_since is not None),
    )
