"""Implements `export --parquet`, which adds the blocks that became final since the last run.

Each range of blocks is read in its own snapshot, because a long snapshot would keep the database
from removing old row versions. Final rows change only if everything is folded again, which a run
detects. See docs/reference/parquet.md#runs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from oracle.chain.profiles.event_reader import EventReader
from oracle.domain.blocks import BlockRange
from oracle.domain.state import Node
from oracle.errors import InputError
from oracle.indexer.provenance import find_rebuild_reason, get_refold_count
from oracle.indexer.rules_binding import get_bound_rules
from oracle.indexer.stored_events import iterate_stored_events
from oracle.queries.command_models import ParquetAnswer
from oracle.queries.parquet.event_columns import build_event_batch
from oracle.queries.parquet.parquet_folder import ROWS_PER_GROUP, ExportSource, ParquetFolder
from oracle.queries.parquet.parquet_tables import SCHEMAS, ExportTable
from oracle.store.bulk import Row
from oracle.store.database import Store, UnitOfWork
from oracle.store.encoding import format_version

# A function that is called with the last block written and the last block to write.
ProgressCallback = Callable[[int, int], None]


def load_export_source(uow: UnitOfWork, reader: EventReader) -> ExportSource:
    """Return the identity of a database's history, which is stored in each export.

    Raises:
        InputError: nothing is indexed yet, or the stored logs have to be folded again first.
    """
    identity = uow.identity.get()
    rules = get_bound_rules(uow)
    if identity is None or rules is None or uow.cursor.get() is None:
        raise InputError("nothing is indexed yet; there is nothing to export")
    rebuild_reason = find_rebuild_reason(uow, reader)
    if rebuild_reason is not None:
        raise InputError(f"{rebuild_reason}; run `qos-oracle resync rebuild` first")
    return ExportSource(
        chain_id=identity.chain_id,
        genesis_hash=identity.genesis_hash,
        start_block=identity.start_block,
        profile=reader.identity,
        rules_sha256=rules.sha256,
        rebuilds=get_refold_count(uow),
    )


def export_blocks(
    folder: ParquetFolder,
    store: Store,
    reader: EventReader,
    on_progress: ProgressCallback,
    *,
    include_recent: bool = False,
) -> ParquetAnswer:
    """Write the blocks that became final since the last run, and save progress after each range.

    Args:
        folder: the export, opened for the history of this database (`load_export_source`).
        store: the database, which is read in one snapshot per range.
        reader: decodes logs to events.
        on_progress: a function that is called after each range.
        include_recent: whether to write also blocks that are not final, which the next run
            replaces.

    Raises:
        InputError: the folder has another history, or the database was rebuilt meanwhile.
        OSError: a disk error occurred; ranges that were saved before stay valid.
    """
    with store.read_transaction() as uow:
        _check_export_continuity(uow, folder)
    folder.prepare_export_run()
    first_block = folder.manifest.next
    export_run = _ExportRun(folder, store, reader, dict.fromkeys(ExportTable, 0))
    while export_run.append_final_blocks(on_progress):
        pass
    last_block = export_run.write_recent_blocks() if include_recent else folder.manifest.next - 1
    row_count_by_table = {
        str(table): count for table, count in export_run.row_count_by_table.items()
    }
    return _build_answer(
        folder, first_block, last_block, folder.manifest.next - 1, row_count_by_table
    )


def plan_export(folder: ParquetFolder, store: Store, *, include_recent: bool) -> ParquetAnswer:
    """Return the blocks that `export_blocks` would write."""
    with store.read_transaction() as uow:
        _check_export_continuity(uow, folder)
        newest_block, final_block = _load_last_blocks(uow)
    first_block = folder.manifest.next
    last_block = newest_block if include_recent else final_block
    return _build_answer(folder, first_block, last_block, max(final_block, first_block - 1))


def _build_answer(
    folder: ParquetFolder,
    first_block: int,
    last_block: int,
    final_block: int,
    rows: dict[str, int] | None = None,
) -> ParquetAnswer:
    """Build the answer about a run, or about a dry run if `rows` is None."""
    has_new_blocks = first_block <= last_block
    return ParquetAnswer(
        dry_run=rows is None,
        folder=str(folder.path),
        first=first_block if has_new_blocks else None,
        last=last_block if has_new_blocks else None,
        final_to=final_block,
        rows=rows,
    )


def _load_last_blocks(uow: UnitOfWork) -> tuple[int, int]:
    """Return the numbers of the last folded and the last final block.

    The last final block is -1 if no block is final.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        raise InputError("nothing is indexed yet; there is nothing to export")
    final_block = -1 if cursor.final_number is None else cursor.final_number
    return cursor.number, min(final_block, cursor.number)


def _check_export_continuity(uow: UnitOfWork, folder: ParquetFolder) -> None:
    """Raise InputError if the last exported log's block is not in the database."""
    manifest = folder.manifest
    if manifest.last_log != uow.logs.find_highest_block_up_to(manifest.next - 1):
        raise InputError(
            f"{folder.path}: the last exported block with a log differs from the database, so the "
            "chain or the indexed contracts changed; export into another folder, or remove this "
            "one"
        )


@dataclass(slots=True)
class _ExportRun:
    folder: ParquetFolder
    store: Store
    reader: EventReader
    row_count_by_table: dict[ExportTable, int]

    def append_final_blocks(self, on_progress: ProgressCallback) -> bool:
        """Write and save one range of final blocks, and return whether more are left."""
        manifest = self.folder.manifest
        with self.store.read_transaction() as uow:
            self._check_source(uow)
            _, final_block = _load_last_blocks(uow)
            if manifest.next > final_block:
                return False
            blocks = next(self.folder.split_block_range(BlockRange(manifest.next, final_block)))
            self._write_tables(uow, blocks)
            if blocks.last == final_block:
                self._write_nodes(uow, blocks)
                manifest.nodes_next = final_block + 1
            manifest.last_log = uow.logs.find_highest_block_up_to(blocks.last)
        manifest.next = blocks.last + 1
        self.folder.save_manifest()
        on_progress(blocks.last, final_block)
        return blocks.last < final_block

    def write_recent_blocks(self) -> int:
        """Write the blocks that are not final yet, and return the last block.

        The manifest is not saved, so the next run replaces these blocks.
        """
        first_block = self.folder.manifest.next
        with self.store.read_transaction() as uow:
            self._check_source(uow)
            newest_block, _ = _load_last_blocks(uow)
            if first_block > newest_block:
                return first_block - 1
            for blocks in self.folder.split_block_range(BlockRange(first_block, newest_block)):
                self._write_tables(uow, blocks)
                if blocks.last == newest_block:
                    self._write_nodes(uow, blocks)
        return newest_block

    def _check_source(self, uow: UnitOfWork) -> None:
        if load_export_source(uow, self.reader) != self.folder.manifest.source:
            raise InputError(
                "the database was rebuilt during the export; export into another folder"
            )

    def _write_tables(self, uow: UnitOfWork, blocks: BlockRange) -> None:
        for table, batches in _open_table_batches(uow, self.reader, blocks).items():
            self.row_count_by_table[table] += self.folder.write_table(table, blocks, batches)

    def _write_nodes(self, uow: UnitOfWork, blocks: BlockRange) -> None:
        changed_blocks = BlockRange(self.folder.manifest.nodes_next, blocks.last)
        table = ExportTable.NODES
        node_rows = map(_build_node_row, uow.histories.iterate_nodes(changed_blocks))
        self.row_count_by_table[table] += self.folder.write_table(
            table, blocks, _build_record_batches(table, node_rows)
        )


def _open_table_batches(
    uow: UnitOfWork, reader: EventReader, blocks: BlockRange
) -> dict[ExportTable, Iterator[pa.RecordBatch]]:
    """Return lazy batches of these blocks for every table except `nodes`."""
    histories = uow.histories
    rows_by_table: dict[ExportTable, Iterable[Row]] = {
        ExportTable.SCORES: histories.iterate_scores(blocks),
        ExportTable.RELIABILITY_CHANGES: histories.iterate_reliability_changes(blocks),
        ExportTable.ROUNDS: histories.iterate_rounds(blocks),
        ExportTable.KICKOUTS: histories.list_kickout_starts_and_ends(blocks),
    }
    events = iter(iterate_stored_events(uow, reader, blocks))
    batches_by_table = {
        table: _build_record_batches(table, table_rows)
        for table, table_rows in rows_by_table.items()
    }
    event_pages = iter(lambda: list(islice(events, ROWS_PER_GROUP)), [])
    return {ExportTable.EVENTS: map(build_event_batch, event_pages), **batches_by_table}


def _build_record_batches(table: ExportTable, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    schema = SCHEMAS[table]
    remaining_rows = iter(rows)
    while page := list(islice(remaining_rows, ROWS_PER_GROUP)):
        columns = zip(*page, strict=True)
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)


def _build_node_row(node: Node) -> Row:
    return (
        *(node.changed_at, node.address, node.membership.value, node.paused, node.running),
        None if node.stake is None else str(node.stake),
        *(node.gpu_name, node.gpu_vram, format_version(node.version), list(node.models)),
        *(node.timeout, list(node.pool), node.pool_sum, node.scored, node.base, node.since),
        *(node.excluded, node.kickout_due_since is not None),
    )
