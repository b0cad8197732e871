"""Refolds the stored raw rows without requests to the chain, and checks that reports stay equal.

Everything happens in one transaction: readers see the old state until the commit, an interruption
keeps the old state, and a dry run is a real run that is rolled back at its end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.reports.rounds import Rounds
from oracle.errors import FatalError, InputError
from oracle.indexer.block_hooks import BlockHook, HookStops
from oracle.indexer.completeness import check_raw_rows
from oracle.indexer.feeds.feed_events import merge_feed_events
from oracle.indexer.folder import EventFolder
from oracle.indexer.provenance import increment_rebuild_count, record_fold_version
from oracle.indexer.rules_binding import bind_rules
from oracle.indexer.stored_events import iterate_log_chunks
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor


def _ignore_progress(_block: int, _last: int) -> None:
    """Ignore the progress."""


def _do_nothing() -> None:
    """Do nothing, because no lease has to be renewed."""


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """Options of a resync command.

    With `dry_run` the transaction is rolled back at its end. `progress` is called with the block
    reached and the last one. `lease_epoch` is the epoch under which this process may write, None
    in tests. `renew_lease` is called regularly while no transaction is open.
    """

    dry_run: bool = False
    progress: Callable[[int, int], None] = _ignore_progress
    lease_epoch: int | None = None
    renew_lease: Callable[[], None] = _do_nothing

    @contextmanager
    def transaction(self, store: Store) -> Iterator[UnitOfWork]:
        """Open the transaction, which excludes other writers until its end.

        Raises:
            FatalError: another process has taken over the lease; nothing was changed.
        """
        try:
            with store.transaction() as uow:
                if self.lease_epoch is not None:
                    uow.lease.lock_held_lease(self.lease_epoch)
                yield uow
                self._roll_back_dry_run()
        except _DryRunRollbackError:
            return

    def _roll_back_dry_run(self) -> None:
        if self.dry_run:
            raise _DryRunRollbackError


class _DryRunRollbackError(Exception):
    """Rolls back the transaction of a dry run."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Result of a refold up to block `last_block`.

    `is_same`: whether the projections are byte-identical to those before. `differing`: the periods
    whose report is different.
    """

    last_block: int
    log_count: int
    is_same: bool
    report_count: int
    differing: tuple[int, ...]


@dataclass(slots=True)
class _HookCheck:
    """Lets every hook compare its stored results while the fold passes their blocks."""

    hooks: Sequence[BlockHook]
    checked_count: int = 0
    differing: list[int] = field(default_factory=list)
    _stops: HookStops = field(default_factory=HookStops)

    def collect_stops(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        """Return the blocks in this range whose stored results must be reproduced."""
        self._stops = HookStops()
        for hook in self.hooks:
            self._stops.add(hook, hook.get_stored_stops(uow, blocks))
        return self._stops.blocks

    def compare_at_stop(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> None:
        """Compare the stored results of one block with those of the fold."""
        for hook in self._stops.get_hooks(block):
            self.checked_count += 1
            note = hook.find_difference(uow, rounds, block)
            if note is not None:
                self.differing.append(note.number)


def rebuild_state(
    store: Store, folder: EventFolder, rebuild_options: RebuildOptions
) -> RebuildResult:
    """Discard the folded state and fold everything again up to the cursor.

    Raises:
        InputError: nothing is indexed yet, or raw rows are missing.
    """
    with folder.resume_from(None), rebuild_options.transaction(store) as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; there is nothing to refold")
        rewrite_cursor(uow, cursor)
        rebuilt = rebuild_up_to(uow, folder, cursor.number, rebuild_options)
    folder.discard_memory()
    return rebuilt


def rewrite_cursor(uow: UnitOfWork, cursor: Cursor) -> None:
    """Rewrite the cursor at its own block, so that a window read before is not committed.

    Raises:
        FatalError: the header of that block is missing.
    """
    block = uow.blocks.get_canonical(cursor.number)
    if block is None or block.hash != cursor.hash:
        raise FatalError(f"the cursor is at block {cursor.number}, but its header is missing")
    uow.cursor.move_to(block, None, cursor.epoch)


def rebuild_up_to(
    uow: UnitOfWork,
    folder: EventFolder,
    last_block: int,
    rebuild_options: RebuildOptions,
    verified: BlockRange | None = None,
) -> RebuildResult:
    """Refold the canonical rows up to `last_block`, in the caller's transaction.

    Blocks above the final one are journaled, so that they can be rewound as before. `verified`:
    blocks whose rows were just found equal to the chain.

    Raises:
        IncompleteLogsError: other raw rows were lost or changed; nothing was changed.
    """
    check_raw_rows(uow, last_block, verified)
    old_digest = uow.projections.compute_digest()
    uow.projections.clear()
    uow.dead_letters.delete_open()
    bind_rules(uow, folder.rules)
    check = _HookCheck(folder.hooks)
    logs_folded = fold_stored_rows(uow, folder, BlockRange(0, last_block), rebuild_options, check)
    record_fold_version(uow, folder.reader)
    is_same = uow.projections.compute_digest() == old_digest
    return RebuildResult(
        last_block, logs_folded, is_same, check.checked_count, tuple(check.differing)
    )


def fold_stored_rows(
    uow: UnitOfWork,
    folder: EventFolder,
    blocks: BlockRange,
    rebuild_options: RebuildOptions,
    check: _HookCheck | None = None,
) -> int:
    """Fold the canonical rows of these blocks onto the current state; return the log count.

    Blocks above the final one are journaled. Rows in memory are discarded, because the stored rows
    may have changed.
    """
    folder.discard_memory()
    for hook in folder.hooks:
        hook.on_rebuild()
    cursor = uow.cursor.get()
    final_number = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    check = check or _HookCheck(())
    log_count = 0
    for chunk, logs in iterate_log_chunks(uow, blocks):
        calls = list(uow.calls.iterate_between(chunk.first, chunk.last))
        decoded = folder.reader.decode_rows(logs, calls)
        uow.dead_letters.append(decoded.dead_letters)
        decoded = merge_feed_events(uow, folder.reader, decoded, chunk)
        stops = check.collect_stops(uow, chunk)
        folder.fold_events(
            uow, decoded, final_number=final_number, stops=stops, on_stop=check.compare_at_stop
        )
        log_count += len(logs)
        rebuild_options.progress(chunk.last, blocks.last)
    uow.undo.prune_to(min(final_number, blocks.last))
    increment_rebuild_count(uow)
    return log_count
