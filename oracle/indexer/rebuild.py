"""Refolds the stored raw rows without requests to the chain; reports must come out unchanged.

Everything happens in one transaction: readers see the old state meanwhile, an interruption keeps
it, and a dry run is a real run that is rolled back at its end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.reports.rounds import Rounds
from oracle.errors import FatalError, InputError
from oracle.indexer.block_hooks import BlockHook, HookStops
from oracle.indexer.completeness import check_complete
from oracle.indexer.feeds.feed_events import with_feed
from oracle.indexer.folder import Folder
from oracle.indexer.provenance import note_folded, note_rebuilt
from oracle.indexer.rules_binding import bind_rules
from oracle.indexer.stored_events import chunks
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor


def _tell_nobody(_block: int, _last: int) -> None:
    """Ignore the progress."""


def _go_on() -> None:
    """Do nothing, because no lease has to be renewed."""


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """Options of a resync command.

    `dry_run`: the transaction is rolled back at its end. `progress` is called with the block
    reached and the last one. `lease` is the epoch under which this process may write, None in
    tests. `keep_lease` is called regularly while no transaction is open.
    """

    dry_run: bool = False
    progress: Callable[[int, int], None] = _tell_nobody
    lease: int | None = None
    keep_lease: Callable[[], None] = _go_on

    @contextmanager
    def transaction(self, store: Store) -> Iterator[UnitOfWork]:
        """Open the transaction, which excludes other writers until its end.

        Raises:
            FatalError: another process has taken over the lease; nothing was changed.
        """
        try:
            with store.transaction() as uow:
                if self.lease is not None:
                    uow.lease.guard(self.lease)
                yield uow
                self._end()
        except _ThrownAwayError:
            return

    def _end(self) -> None:
        if self.dry_run:
            raise _ThrownAwayError


class _ThrownAwayError(Exception):
    """Rolls back the transaction of a dry run."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Result of a refold up to block `last_block`.

    `is_same`: the projections are byte-identical. `differing`: periods whose report is not.
    """

    last: int
    logs: int
    same: bool
    reports: int
    differing: tuple[int, ...]


@dataclass(slots=True)
class _Check:
    """Lets every hook compare its stored results while the fold passes their blocks."""

    hooks: Sequence[BlockHook]
    checked: int = 0
    differing: list[int] = field(default_factory=list)
    _stops: HookStops = field(default_factory=HookStops)

    def stops(self, uow: UnitOfWork, blocks: BlockRange) -> list[BlockRef]:
        """Return the blocks in this range whose stored results must be reproduced."""
        self._stops = HookStops()
        for hook in self.hooks:
            self._stops.add(hook, hook.kept_stops(uow, blocks))
        return self._stops.blocks

    def at_stop(self, uow: UnitOfWork, rounds: Rounds, block: BlockRef) -> None:
        """Compare the stored results of one block with those of the fold."""
        for hook in self._stops.at(block):
            self.checked += 1
            note = hook.differing_at(uow, rounds, block)
            if note is not None:
                self.differing.append(note.number)


def rebuild_state(store: Store, folder: Folder, manner: RebuildOptions) -> RebuildResult:
    """Discard the folded state and fold everything again up to the cursor.

    Raises:
        InputError: nothing is indexed yet, or raw rows are missing.
    """
    with folder.following(None), manner.transaction(store) as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet: there is nothing to fold again")
        claim(uow, cursor)
        rebuilt = rebuild_up_to(uow, folder, cursor.number, manner)
    folder.forget()
    return rebuilt


def claim(uow: UnitOfWork, cursor: Cursor) -> None:
    """Rewrite the cursor at its own block, so that a window read before is not committed.

    Raises:
        FatalError: the header of that block is missing.
    """
    block = uow.blocks.at(cursor.number)
    if block is None or block.hash != cursor.hash:
        raise FatalError(f"the header of block {cursor.number}, where the cursor is, is missing")
    uow.cursor.move_to(block, None, cursor.epoch)


def rebuild_up_to(
    uow: UnitOfWork,
    folder: Folder,
    last: int,
    manner: RebuildOptions,
    verified: BlockRange | None = None,
) -> RebuildResult:
    """Refold the canonical rows up to `last_block`, in the caller's transaction.

    Blocks above the final one are journaled, so that they can be rewound as before. `verified`:
    blocks whose rows were just found equal to the chain.

    Raises:
        IncompleteLogsError: other raw rows were lost or changed; nothing was changed.
    """
    check_complete(uow, last, verified)
    before = uow.projections.digest()
    uow.projections.clear()
    uow.dead_letters.clear_open()
    bind_rules(uow, folder.rules)
    check = _Check(folder.hooks)
    logs_folded = fold_stored_rows(uow, folder, BlockRange(0, last), manner, check)
    note_folded(uow, folder.reader)
    same = uow.projections.digest() == before
    return RebuildResult(last, logs_folded, same, check.checked, tuple(check.differing))


def fold_stored_rows(
    uow: UnitOfWork,
    folder: Folder,
    blocks: BlockRange,
    manner: RebuildOptions,
    check: _Check | None = None,
) -> int:
    """Fold the canonical rows of these blocks onto the state before; return the log count.

    Blocks above the final one are journaled. Rows in memory are discarded, because the stored rows
    may have changed.
    """
    folder.forget()
    for hook in folder.hooks:
        hook.rebuilding()
    cursor = uow.cursor.get()
    final = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    check = check or _Check(())
    logs_folded = 0
    for chunk, logs in chunks(uow, blocks):
        calls = list(uow.calls.between(chunk.first, chunk.last))
        decoded = folder.reader.read(logs, calls)
        uow.dead_letters.append(decoded.dead)
        decoded = with_feed(uow, folder.reader, decoded, chunk)
        stops = check.stops(uow, chunk)
        folder.fold(uow, decoded, final=final, stops=stops, at_stop=check.at_stop)
        logs_folded += len(logs)
        manner.progress(chunk.last, blocks.last)
    uow.undo.prune_to(min(final, blocks.last))
    note_rebuilt(uow)
    return logs_folded
