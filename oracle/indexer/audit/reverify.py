"""Reads blocks again at a level, compares them, and records the level that they reached.

A run can be interrupted: its progress is stored in the database. Differences are checked twice
before they are reported. See docs/explanation/verification.md.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.indexer.audit.disputes import settle
from oracle.indexer.audit.quarantine_liars import is_stored_data_wrong, lie_of, note_proven_wrong
from oracle.indexer.audit.repair import proven_in, repair_blocks, settled
from oracle.indexer.audit.row_diff import RowDiff, check_same_chain, compare, require_indexed
from oracle.indexer.folder import Folder
from oracle.indexer.provenance import note_proven
from oracle.indexer.rebuild import RebuildOptions, RebuildResult
from oracle.store.database import Store, UnitOfWork

# Blocks that are read, compared and recorded at a time.
CHUNK = 1_000
# Shorter windows are recorded block by block.
SINGLE = 25


@dataclass(frozen=True, slots=True)
class ReverifyRequest:
    """Blocks to verify, up to which level, and by which endpoint (None: any usable one).

    `repair`: repair what can be, and refold.
    """

    blocks: BlockRange
    level: Level
    endpoint: str | None = None
    repair: bool = False


@dataclass(slots=True)
class Verified:
    """Result of a run: the lowest level reached, the endpoints used, and the differences.

    `resumed_at`: the block from which an earlier run was continued; None: a new run. `repaired` is
    None if no row was repaired. `unrepaired_count`: rows that still differ, without a proof that
    they are wrong.
    """

    blocks: BlockRange
    reached: Level
    endpoints: tuple[str, ...]
    difference: RowDiff
    resumed_at: int | None = None
    repaired: RebuildResult | None = None
    left: int = 0


@dataclass(slots=True)
class _RunProgress:
    """Progress of a run, as stored in the database between two chunks."""

    next: int
    reached: int = Level.PROVEN.value
    endpoints: list[str] = field(default_factory=list)
    unequal: list[tuple[int, int]] = field(default_factory=list)

    def take(self, window: BlockWindow, difference: RowDiff) -> None:
        self.next = window.range.last + 1
        self.reached = min(self.reached, window.level.value)
        if window.endpoint not in self.endpoints:
            self.endpoints.append(window.endpoint)
        if difference:
            self.unequal.append((window.range.first, window.range.last))


def verify(
    chain: ChainReader,
    store: Store,
    folder: Folder,
    asked: ReverifyRequest,
    manner: RebuildOptions,
) -> Verified:
    """Read the blocks again and compare; raise the coverage level of those that are equal.

    A dry run writes nothing, and needs no lease.

    Raises:
        InputError: the range exceeds the indexed blocks, or there is no endpoint of that name.
        TransientError: the chain is reorganising, or does not respond.
        FatalError: a final block differs between the chain and the database.
    """
    run = _Run(chain, store, folder, asked, manner)
    place, resumed_at = run.resumed()
    for window in run.windows(place):
        run.note(window, place)
    difference, seen = run.looked_again(place)
    repaired, left = None, difference.rows
    if asked.repair and difference:
        repaired, left = run.repair(difference, seen)
    run.finish(is_equal=left == 0)
    return Verified(
        asked.blocks,
        Level(place.reached),
        tuple(place.endpoints),
        difference,
        resumed_at,
        repaired,
        left,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    chain: ChainReader
    store: Store
    folder: Folder
    asked: ReverifyRequest
    manner: RebuildOptions

    @property
    def _key(self) -> str:
        blocks, level = self.asked.blocks, self.asked.level.value
        return f"verify {blocks.first} {blocks.last} {level} {self.asked.endpoint or ''}"

    def resumed(self) -> tuple[_RunProgress, int | None]:
        """Return the progress to start from, and the resumed block or None."""
        first = self.asked.blocks.first
        with self.store.reading() as uow:
            require_indexed("verify", uow, self.asked.blocks)
            left = None if self.manner.dry_run else uow.bookmarks.get(self._key)
        if left is None:
            return _RunProgress(first), None
        place = msgspec.json.decode(left, type=_RunProgress)
        return place, place.next

    def windows(self, place: _RunProgress) -> Iterator[BlockWindow]:
        """Yield the remaining windows, each read after the previous one was recorded."""
        last = self.asked.blocks.last
        while place.next <= last:
            rest = BlockRange(place.next, last)
            yield self.chain.verified(rest, self.asked.level, self.asked.endpoint, most=CHUNK)
            self.manner.keep_lease()
            self.manner.progress(place.next - 1, last)

    def note(self, window: BlockWindow, place: _RunProgress) -> None:
        """Compare one window, and store the progress."""
        with self._transaction() as uow:
            difference = self._compared(uow, window)
            place.take(window, difference)
            if self.manner.dry_run:
                return
            if not difference:
                self._raise(uow, window)
            uow.bookmarks.set(self._key, msgspec.json.encode(place).decode())

    def looked_again(self, place: _RunProgress) -> tuple[RowDiff, list[BlockWindow]]:
        """Read unequal windows again; one that is equal now was a temporary fault."""
        found, seen = RowDiff(), []
        for first, last in place.unequal:
            reached = first - 1
            while reached < last:
                rest = BlockRange(reached + 1, last)
                window = self.chain.verified(rest, self.asked.level, self.asked.endpoint)
                reached = window.range.last
                with self._transaction() as uow:
                    difference = self._compared(uow, window)
                    if not difference and not self.manner.dry_run:
                        self._raise(uow, window)
                if difference:
                    found.add(difference)
                    seen.append(window)
        return found, seen

    def repair(
        self, difference: RowDiff, seen: list[BlockWindow]
    ) -> tuple[RebuildResult | None, int]:
        """Repair what can be, in one transaction with the fold; None if there is nothing.

        The second value is the number of rows that still differ.
        """
        proven = {number for window in seen for number in _proven(window)}
        rebuilt = None
        with self.folder.following(None), self.manner.transaction(self.store) as uow:
            cursor = require_indexed("verify", uow, self.asked.blocks)
            ours = proven_in(uow, self.folder.scope, self.asked.blocks)
            for window in seen if self.chain.is_vouched() else ():
                self._quarantine(uow, window, cursor.final_number or 0)
            repair = settled(difference, proven, ours)
            if repair:
                # The rest of the difference stays as it is and is not verified.
                verified = self.asked.blocks if repair.rows == difference.rows else None
                rebuilt = repair_blocks(uow, self.folder, cursor, repair, self.manner, verified)
                for window in seen:
                    if not compare(uow, window):
                        self._raise(uow, window)
        self.folder.forget()
        return rebuilt, difference.rows - repair.rows

    def _quarantine(self, uow: UnitOfWork, window: BlockWindow, final: int) -> None:
        """Quarantine the endpoints that served rows proven wrong, up to the final block."""
        for number in sorted(_proven(window)):
            if number > final or not is_stored_data_wrong(uow, self.folder, number, window):
                continue
            for span in uow.coverage.spans(self.folder.scope.id, number, number):
                if span.endpoint not in {"", window.endpoint}:
                    uow.facts.quarantine.add(span.endpoint, lie_of([number]))

    def finish(self, *, is_equal: bool) -> None:
        """Delete the progress, so that the next run starts anew.

        Blocks that an operator compared with a trusted endpoint, and that are equal now, are no
        longer disputed.
        """
        if self.manner.dry_run:
            return
        note_proven_wrong(self.chain, self.store, self.manner)
        with self.manner.transaction(self.store) as uow:
            uow.bookmarks.clear(self._key)
            if is_equal:
                cursor, identity = uow.cursor.get(), uow.identity.get()
                if cursor is not None and identity is not None:
                    indexed = BlockRange(identity.start_block, cursor.number)
                    uow.raw_checksums.reset(self.asked.blocks, indexed)
            if is_equal and self.asked.endpoint is not None:
                settle(uow, self.asked.blocks)

    def _transaction(self) -> AbstractContextManager[UnitOfWork]:
        return self.store.reading() if self.manner.dry_run else self.manner.transaction(self.store)

    def _compared(self, uow: UnitOfWork, window: BlockWindow) -> RowDiff:
        check_same_chain(uow, require_indexed("verify", uow, self.asked.blocks), window)
        return compare(uow, window)

    def _raise(self, uow: UnitOfWork, window: BlockWindow) -> None:
        scope, level = self.folder.scope, window.level
        if len(window.range) < SINGLE and len(window.headers) == len(window.range):
            # A few blocks are recorded one by one, so that intervals stay few and long.
            single = [(block.number, block.hash) for block in window.headers]
            uow.verified_blocks.save(single, level, window.endpoint)
            return
        uow.coverage.raise_to(scope.id, window.range, level, window.endpoint)
        note_proven(uow, window)


def _proven(window: BlockWindow) -> set[int]:
    if window.level >= Level.PROVEN:
        return set(range(window.range.first, window.range.last + 1))
    return set(window.proven)
