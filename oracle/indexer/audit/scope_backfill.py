"""Brings an older database up to the configuration and the program before indexing continues.

New contracts, events or calls have no coverage: only what is missing of them is fetched, and once
all of it is stored, everything is refolded in order. A fold by another version of the program is
redone as well, without requests to the chain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Covered, IngestScope
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.indexer.audit.repair import RepairContext
from oracle.indexer.audit.row_diff import check_or_blame
from oracle.indexer.folder import Folder
from oracle.indexer.provenance import note_stale, why_rebuild
from oracle.indexer.rebuild import RebuildOptions, RebuildResult, claim, rebuild_up_to
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# Maximum number of blocks per request; the chain may return fewer.
CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class ScopeBackfilled:
    """Result of one step: `blocks` were read for new scopes, or everything was refolded.

    `reason` is the cause; `blocks_left` counts the blocks that are still to be read.
    """

    why: str
    blocks: BlockRange | None = None
    rows: int = 0
    left: int = 0
    rebuilt: RebuildResult | None = None


@dataclass(slots=True)
class ScopeBackfill:
    """State between steps; `is_complete`: nothing is missing any more."""

    is_sound: bool = False
    _chains: dict[IngestScope, ChainReader] = field(default_factory=dict)

    def part(self, chain: ChainReader, scope: IngestScope) -> ChainReader:
        """Return the chain limited to this scope; it may read ahead between steps."""
        if scope not in self._chains:
            self._chains[scope] = chain.narrowed(scope)
        return self._chains[scope]


def backfill_next(
    chain: ChainReader,
    store: Store,
    folder: Folder,
    scope_backfill: ScopeBackfill,
    manner: RebuildOptions,
) -> ScopeBackfilled | None:
    """Run the next step; None if nothing is missing, and windows may be indexed.

    Raises:
        TransientError: the chain does not respond, is reorganising, or is another one.
    """
    if scope_backfill.is_sound:
        return None
    task = RepairContext(chain, store, folder, manner)
    with store.reading() as uow:
        gap, why = _first_gap(uow, folder.scope), why_rebuild(uow, folder.reader)
    if gap is not None:
        return _fill(task, scope_backfill, gap)
    if why is not None:
        return _refold_scope(task, why)
    scope_backfill.is_sound = True
    return None


@dataclass(frozen=True, slots=True)
class _Gap:
    """Blocks not read for the whole scope, the total of such blocks, and their old coverage.

    `old_coverage` is None if they were never read. `missing_scopes`: what they were not read for.
    """

    blocks: BlockRange
    left: int
    old: Covered | None
    parts: tuple[IngestScope, ...]


def _first_gap(uow: UnitOfWork, scope: IngestScope) -> _Gap | None:
    cursor, identity = uow.cursor.get(), uow.identity.get()
    if cursor is None or identity is None or cursor.number < identity.start_block:
        return None
    if uow.coverage.current() is None:
        # Blocks read by an older program count for this scope; the next window stores it.
        return None
    gaps = uow.coverage.gaps(scope.id, identity.start_block, cursor.number)
    if not gaps:
        return None
    first, last = gaps[0].first, gaps[0].last
    left = sum(map(len, gaps))
    for known in uow.coverage.scopes():
        span = uow.coverage.lowest_span(known.id, first, last)
        if span is not None and span.first == first:
            return _Gap(span.blocks, left, span, missing_of(scope, known))
        # Later blocks were read for another scope, so only the blocks before them are unread.
        last = last if span is None else span.first - 1
    return _Gap(BlockRange(first, last), left, None, (scope,))


def missing_of(wanted: IngestScope, known: IngestScope) -> tuple[IngestScope, ...]:
    """Return the scopes still to be read for `required` if `already_read` was read.

    New contracts, and those with new calls, with all their events; the others with new events.
    """
    new_calls = set(wanted.selectors) - set(known.selectors)
    whole = set(wanted.addresses) - set(known.addresses)
    whole |= {Address(each.partition(":")[0]) for each in new_calls} & set(wanted.addresses)
    calls = [each for each in wanted.selectors if each.partition(":")[0] in whole]
    rest = set(wanted.addresses) - whole
    topics = set(wanted.topics) - set(known.topics)
    parts = [IngestScope.of(whole, wanted.topics, calls)] if whole else []
    return (*parts, IngestScope.of(rest, topics)) if rest and topics else tuple(parts)


def _fill(task: RepairContext, scope_backfill: ScopeBackfill, gap: _Gap) -> ScopeBackfilled:
    """Read and store one part of what is missing; it is folded once everything is stored."""
    windows = list(_windows(task.chain, scope_backfill, gap))
    last = min((window.range.last for window in windows), default=gap.blocks.last)
    blocks = BlockRange(gap.blocks.first, last)
    logs = [log for window in windows for log in window.logs if log.block <= last]
    calls = [call for window in windows for call in window.calls if call.block <= last]
    with task.folder.following(None), task.manner.transaction(task.store) as uow:
        cursor = _cursor(uow)
        for window in windows:
            check_or_blame(task.chain, uow, cursor, window)
        claim(uow, cursor)
        uow.coverage.set_scope(task.folder.scope)
        rows = uow.logs.append(logs) + uow.calls.append(calls)
        uow.coverage.put(task.folder.scope.id, _covered(gap, blocks, windows))
        if rows:
            note_stale(uow)
    return ScopeBackfilled("contracts or events are new", blocks, rows, gap.left - len(blocks))


def _windows(
    chain: ChainReader, scope_backfill: ScopeBackfill, gap: _Gap
) -> Iterator[BlockWindow]:
    """Yield a window of each missing scope, from the same block, none longer than the last."""
    first, last = gap.blocks.first, min(gap.blocks.last, gap.blocks.first + CHUNK - 1)
    for part in gap.parts:
        chain_part = scope_backfill.part(chain, part)
        window = chain_part.window(BlockRange(first, last), with_headers=False)
        # A window read ahead for a longer scope may be longer than requested.
        last = min(last, window.range.last)
        yield window


def _covered(gap: _Gap, blocks: BlockRange, windows: Sequence[BlockWindow]) -> Covered:
    """Return the coverage that holds for all parts of blocks that were read in parts."""
    old = [] if gap.old is None else [(gap.old.level, gap.old.endpoint)]
    told = [*old, *((window.level, window.endpoint) for window in windows)]
    level, endpoint = min(told)
    if gap.old is not None and not windows:
        return replace(gap.old, first=blocks.first, last=blocks.last)
    return Covered(blocks.first, blocks.last, level, endpoint)


def _refold_scope(task: RepairContext, why: str) -> ScopeBackfilled:
    with task.folder.following(None), task.manner.transaction(task.store) as uow:
        cursor = _cursor(uow)
        claim(uow, cursor)
        rebuilt = rebuild_up_to(uow, task.folder, cursor.number, task.manner)
    task.folder.forget()
    return ScopeBackfilled(why, rebuilt=rebuilt)


def _cursor(uow: UnitOfWork) -> Cursor:
    cursor = uow.cursor.get()
    if cursor is None:
        raise TransientError("nothing is indexed any more")
    return cursor
