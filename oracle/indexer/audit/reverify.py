"""Reads blocks again at a given level, and compares them with the stored rows.

The level of equal blocks is recorded. A run can be interrupted and continued, because its progress
is stored in the database. Differences are checked twice before they are reported. See
docs/explanation/verification.md.
"""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import FatalError, InputError, TransientError
from oracle.indexer.audit.judgement import (
    describe_wrong_blocks,
    is_stored_data_wrong,
    record_endpoints_proven_wrong,
)
from oracle.indexer.audit.row_diff import (
    RepairContext,
    RowDiff,
    check_window_on_same_chain,
    compare_window_with_database,
    find_proven_blocks,
    repair_blocks,
    require_indexed_blocks,
    select_rows_to_repair,
)
from oracle.indexer.audit.unproven_history import accept_disputed_blocks
from oracle.indexer.provenance import record_proven_blocks
from oracle.indexer.rebuild import RebuildResult
from oracle.store.database import UnitOfWork

# Number of blocks that are read, compared and recorded at a time.
CHUNK = 1_000
# The level of a window with fewer blocks is recorded block by block.
MIN_SPAN_BLOCKS = 25


@dataclass(slots=True)
class VerifyResult:
    """The result of a verification run.

    It has the lowest level reached, the endpoints used, and the differences. `resumed_at` is the
    block from which an earlier run was continued, or None for a new run. `repaired` is None if no
    row was repaired. `unrepaired_count` is the number of rows that still differ, because there is
    no proof that the stored rows are wrong.
    """

    blocks: BlockRange
    reached_level: VerificationLevel
    endpoints: tuple[str, ...]
    difference: RowDiff
    resumed_at: int | None = None
    repaired: RebuildResult | None = None
    unrepaired_count: int = 0


@dataclass(slots=True)
class _RunProgress:
    """The progress of a run, stored in the database after each chunk."""

    next: int
    reached: int = VerificationLevel.PROVEN.value
    endpoints: list[str] = field(default_factory=list)
    unequal: list[tuple[int, int]] = field(default_factory=list)

    def add_window_result(self, window: BlockWindow, difference: RowDiff) -> None:
        self.next = window.range.last + 1
        self.reached = min(self.reached, window.level.value)
        if window.endpoint not in self.endpoints:
            self.endpoints.append(window.endpoint)
        if difference:
            self.unequal.append((window.range.first, window.range.last))


def reverify_blocks(
    context: RepairContext,
    blocks: BlockRange,
    level: VerificationLevel,
    endpoint: str | None = None,
    *,
    repair: bool = False,
) -> VerifyResult:
    """Read blocks again, and compare them with the stored rows.

    The coverage level of equal blocks is raised. `level` is the level to reach. `endpoint` is the
    name of the endpoint to read from, or None for any usable endpoint. `repair` is whether rows
    are repaired where possible, followed by a refold. A dry run writes nothing and needs no lease.

    Raises:
        InputError: the range exceeds the indexed blocks, or there is no endpoint of that name.
        TransientError: the chain is reorganising, or does not respond.
        FatalError: a final block differs between the chain and the database.
    """
    reverify_run = _ReverifyRun(context, blocks, level, endpoint)
    progress, resumed_at = reverify_run.load_progress()
    for window in reverify_run.read_windows(progress):
        reverify_run.record_window(window, progress)
    difference, unequal_windows = reverify_run.recheck_unequal_windows(progress)
    rebuild_result, unrepaired_count = None, difference.row_count
    if repair and difference:
        rebuild_result, unrepaired_count = reverify_run.repair_rows(difference, unequal_windows)
    reverify_run.finish(progress.endpoints, is_equal=unrepaired_count == 0)
    return VerifyResult(
        blocks,
        VerificationLevel(progress.reached),
        tuple(progress.endpoints),
        difference,
        resumed_at,
        rebuild_result,
        unrepaired_count,
    )


def reverify_and_repair(
    context: RepairContext, blocks: BlockRange, level: VerificationLevel
) -> VerifyResult:
    """Reverify blocks in the daemon, and repair rows that differ.

    If one endpoint returns another final block, the daemon does not stop, because `finality_halt`
    compares all endpoints.

    Raises:
        InputError: the range exceeds the indexed blocks.
        TransientError: no endpoint returns a complete and consistent response.
    """
    try:
        return reverify_blocks(context, blocks, level, repair=True)
    except InputError:
        raise
    except FatalError as error:
        raise TransientError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _ReverifyRun:
    context: RepairContext
    blocks: BlockRange
    level: VerificationLevel
    endpoint: str | None

    @property
    def _bookmark_key(self) -> str:
        blocks, level = self.blocks, self.level.value
        return f"verify {blocks.first} {blocks.last} {level} {self.endpoint or ''}"

    def load_progress(self) -> tuple[_RunProgress, int | None]:
        """Return the progress of an earlier run and the block at which it is resumed.

        The second value is None for a new run.
        """
        first_block = self.blocks.first
        with self.context.store.read_transaction() as uow:
            require_indexed_blocks("verify", uow, self.blocks)
            progress_json = (
                None
                if self.context.rebuild_options.dry_run
                else uow.bookmarks.get(self._bookmark_key)
            )
        if progress_json is None:
            return _RunProgress(first_block), None
        progress = msgspec.json.decode(progress_json, type=_RunProgress)
        return progress, progress.next

    def read_windows(self, progress: _RunProgress) -> Iterator[BlockWindow]:
        """Yield the remaining windows, each read after the previous one was recorded."""
        last_block = self.blocks.last
        while progress.next <= last_block:
            remaining_range = BlockRange(progress.next, last_block)
            yield self.context.chain.fetch_verified_window(
                remaining_range, self.level, self.endpoint, max_blocks=CHUNK
            )
            self.context.rebuild_options.renew_lease()
            self.context.rebuild_options.progress(progress.next - 1, last_block)

    def record_window(self, window: BlockWindow, progress: _RunProgress) -> None:
        """Compare one window with the stored rows, and store the progress."""
        with self._transaction() as uow:
            row_diff = self._compare_window(uow, window)
            progress.add_window_result(window, row_diff)
            if self.context.rebuild_options.dry_run:
                return
            if not row_diff:
                self._raise_level(uow, window)
            uow.bookmarks.set(self._bookmark_key, msgspec.json.encode(progress).decode())

    def recheck_unequal_windows(self, progress: _RunProgress) -> tuple[RowDiff, list[BlockWindow]]:
        """Read all differing windows again.

        Return the remaining differences and their windows.
        """
        total_row_diff = RowDiff()
        unequal_windows = []
        for first, last in progress.unequal:
            last_checked_block = first - 1
            while last_checked_block < last:
                remaining_range = BlockRange(last_checked_block + 1, last)
                window = self.context.chain.fetch_verified_window(
                    remaining_range, self.level, self.endpoint
                )
                last_checked_block = window.range.last
                with self._transaction() as uow:
                    row_diff = self._compare_window(uow, window)
                    if not row_diff and not self.context.rebuild_options.dry_run:
                        self._raise_level(uow, window)
                if row_diff:
                    total_row_diff.merge(row_diff)
                    unequal_windows.append(window)
        return total_row_diff, unequal_windows

    def repair_rows(
        self, difference: RowDiff, unequal_windows: list[BlockWindow]
    ) -> tuple[RebuildResult | None, int]:
        """Repair rows where possible, and refold the state in the same transaction.

        Return the result of the refold, or None if no row was repaired, and the number of rows
        that still differ.
        """
        served_proven_blocks = {
            number for window in unequal_windows for number in _get_proven_block_numbers(window)
        }
        rebuild_result = None
        folder, rebuild_options = self.context.folder, self.context.rebuild_options
        with (
            folder.keep_cached_rows_if_current(None),
            rebuild_options.transaction(self.context.store) as uow,
        ):
            cursor = require_indexed_blocks("verify", uow, self.blocks)
            stored_proven_blocks = find_proven_blocks(uow, folder.scope, self.blocks)
            for window in unequal_windows if self.context.chain.are_receipts_provable() else ():
                self._quarantine_wrong_endpoints(uow, window, cursor.final_number or 0)
            row_diff = select_rows_to_repair(
                difference, served_proven_blocks, stored_proven_blocks
            )
            if row_diff:
                # If only some of the rows are repaired, the blocks do not count as verified.
                verified_blocks = (
                    self.blocks if row_diff.row_count == difference.row_count else None
                )
                rebuild_result = repair_blocks(
                    uow, folder, cursor, row_diff, rebuild_options, verified_blocks
                )
                for window in unequal_windows:
                    if not compare_window_with_database(uow, window):
                        self._raise_level(uow, window)
        folder.discard_cached_rows()
        return rebuild_result, difference.row_count - row_diff.row_count

    def _quarantine_wrong_endpoints(
        self, uow: UnitOfWork, window: BlockWindow, final_number: int
    ) -> None:
        """Quarantine the endpoints whose rows of final blocks are proven wrong."""
        for block_number in sorted(_get_proven_block_numbers(window)):
            if block_number > final_number or not is_stored_data_wrong(
                uow, self.context.folder, block_number, window
            ):
                continue
            for span in uow.coverage.list_intervals(
                self.context.folder.scope.id, block_number, block_number
            ):
                if span.endpoint not in {"", window.endpoint}:
                    uow.facts.quarantine.add(span.endpoint, describe_wrong_blocks([block_number]))

    def finish(self, endpoints: Collection[str], *, is_equal: bool) -> None:
        """Delete the stored progress, so that the next run starts from the beginning.

        If an operator chose the endpoint and the blocks are equal, their disputes are accepted.
        `endpoints` are the endpoints that were read.
        """
        if self.context.rebuild_options.dry_run:
            return
        record_endpoints_proven_wrong(
            self.context.chain, self.context.store, self.context.rebuild_options
        )
        with self.context.rebuild_options.transaction(self.context.store) as uow:
            uow.bookmarks.delete(self._bookmark_key)
            if is_equal:
                cursor = uow.cursor.get()
                identity = uow.identity.get()
                if cursor is not None and identity is not None:
                    indexed_blocks = BlockRange(identity.start_block, cursor.number)
                    uow.raw_checksums.recompute_checksums(self.blocks, indexed_blocks)
            if is_equal and self.endpoint is not None:
                accept_disputed_blocks(uow, self.blocks, endpoints)

    def _transaction(self) -> AbstractContextManager[UnitOfWork]:
        if self.context.rebuild_options.dry_run:
            return self.context.store.read_transaction()
        return self.context.rebuild_options.transaction(self.context.store)

    def _compare_window(self, uow: UnitOfWork, window: BlockWindow) -> RowDiff:
        check_window_on_same_chain(uow, require_indexed_blocks("verify", uow, self.blocks), window)
        return compare_window_with_database(uow, window)

    def _raise_level(self, uow: UnitOfWork, window: BlockWindow) -> None:
        scope, level = self.context.folder.scope, window.level
        if len(window.range) < MIN_SPAN_BLOCKS and len(window.headers) == len(window.range):
            # A short range would split a coverage interval. To keep intervals few, its blocks are
            # recorded in a table of their own.
            block_hashes = [(block.number, block.hash) for block in window.headers]
            uow.verified_blocks.save(block_hashes, level, window.endpoint)
            return
        uow.coverage.raise_level(scope.id, window.range, level, window.endpoint)
        record_proven_blocks(uow, window)


def _get_proven_block_numbers(window: BlockWindow) -> set[int]:
    if window.level >= VerificationLevel.PROVEN:
        return set(range(window.range.first, window.range.last + 1))
    return set(window.proven)
