"""Reads missing blocks or refolds after a change of configuration or version.

This happens before indexing continues. If contracts, events or calls were added, old blocks are
read again for these only. When all missing rows are stored, everything is refolded in order. A
state that another version of the program folded is refolded as well, without requests to the
chain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import CoverageInterval, IngestScope
from oracle.domain.ids import Address
from oracle.indexer.audit.row_diff import (
    RepairContext,
    check_endpoint_on_same_chain,
    require_cursor,
)
from oracle.indexer.provenance import find_rebuild_reason, mark_fold_stale
from oracle.indexer.rebuild import (
    RebuildResult,
    rebuild_state_up_to,
    renew_cursor_epoch,
)
from oracle.store.database import UnitOfWork

# The maximum number of blocks per request; the chain source may return fewer.
CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class ScopeBackfillResult:
    """The result of one backfill step.

    Either `blocks` were read for new scopes, or everything was refolded. `reason` is why this was
    necessary. `blocks_left` is the number of blocks that are still to be read.
    """

    reason: str
    blocks: BlockRange | None = None
    row_count: int = 0
    blocks_left: int = 0
    rebuilt: RebuildResult | None = None


@dataclass(slots=True)
class ScopeBackfill:
    """The state of the backfill between steps.

    `is_complete` is set once no block is left to read.
    """

    is_complete: bool = False
    _chain_by_scope: dict[IngestScope, ChainSource] = field(default_factory=dict)

    def get_narrowed_chain(self, chain: ChainSource, scope: IngestScope) -> ChainSource:
        """Return a chain source that reads only this scope.

        It may read ahead between steps.
        """
        if scope not in self._chain_by_scope:
            self._chain_by_scope[scope] = chain.restrict_to_scope(scope)
        return self._chain_by_scope[scope]


def backfill_next_gap(
    context: RepairContext, scope_backfill: ScopeBackfill
) -> ScopeBackfillResult | None:
    """Run the next backfill step, or return None if nothing is missing.

    Raises:
        TransientError: the chain does not respond, is reorganising, or is not the indexed one.
    """
    if scope_backfill.is_complete:
        return None
    with context.store.read_transaction() as uow:
        gap = _find_first_scope_gap(uow, context.folder.scope)
        reason = find_rebuild_reason(uow, context.folder.reader)
    if gap is not None:
        return _fill_gap(context, scope_backfill, gap)
    if reason is not None:
        return _refold_scope(context, reason)
    scope_backfill.is_complete = True
    return None


@dataclass(frozen=True, slots=True)
class _Gap:
    """Blocks that were not read for the whole scope.

    `blocks_left` is the total number of such blocks in the database. `old_coverage` is how these
    blocks were read before, or None if they were never read. `missing_scopes` are the scopes for
    which they were not read.
    """

    blocks: BlockRange
    blocks_left: int
    old_coverage: CoverageInterval | None
    missing_scopes: tuple[IngestScope, ...]


def _find_first_scope_gap(uow: UnitOfWork, scope: IngestScope) -> _Gap | None:
    cursor = uow.cursor.get()
    identity = uow.identity.get()
    if cursor is None or identity is None or cursor.number < identity.start_block:
        return None
    if uow.coverage.get_current_scope() is None:
        # No scope is stored yet. These blocks count as read for the current scope, which is stored
        # with the next window.
        return None
    gaps = uow.coverage.list_gaps(scope.id, identity.start_block, cursor.number)
    if not gaps:
        return None
    first_block = gaps[0].first
    last_block = gaps[0].last
    blocks_left = sum(map(len, gaps))
    for scope_read in uow.coverage.list_scopes():
        interval = uow.coverage.find_lowest_interval(scope_read.id, first_block, last_block)
        if interval is not None and interval.first == first_block:
            return _Gap(
                interval.blocks, blocks_left, interval, find_missing_scopes(scope, scope_read)
            )
        # The gap ends before the first block that was read for another scope.
        last_block = last_block if interval is None else interval.first - 1
    return _Gap(BlockRange(first_block, last_block), blocks_left, None, (scope,))


def find_missing_scopes(
    required_scope: IngestScope, read_scope: IngestScope
) -> tuple[IngestScope, ...]:
    """Return the scopes that have to be read in addition to `read_scope`.

    Together they cover `required_scope`. Contracts that are new or that have new calls are read
    with all events. Other contracts are read with the new events only.
    """
    new_calls = set(required_scope.selectors) - set(read_scope.selectors)
    new_addresses = set(required_scope.addresses) - set(read_scope.addresses)
    new_addresses |= {Address(selector.partition(":")[0]) for selector in new_calls} & set(
        required_scope.addresses
    )
    call_selectors = [
        selector
        for selector in required_scope.selectors
        if selector.partition(":")[0] in new_addresses
    ]
    known_addresses = set(required_scope.addresses) - new_addresses
    topics = set(required_scope.topics) - set(read_scope.topics)
    missing_scopes = (
        [IngestScope.create(new_addresses, required_scope.topics, call_selectors)]
        if new_addresses
        else []
    )
    if known_addresses and topics:
        return (*missing_scopes, IngestScope.create(known_addresses, topics))
    return tuple(missing_scopes)


def _fill_gap(
    context: RepairContext, scope_backfill: ScopeBackfill, gap: _Gap
) -> ScopeBackfillResult:
    """Read and store one part of the missing rows.

    The rows are folded once all are stored.
    """
    windows = list(_read_windows(context.chain, scope_backfill, gap))
    last_block = min((window.range.last for window in windows), default=gap.blocks.last)
    blocks = BlockRange(gap.blocks.first, last_block)
    logs = [log for window in windows for log in window.logs if log.block <= last_block]
    calls = [call for window in windows for call in window.calls if call.block <= last_block]
    with (
        context.folder.keep_cached_rows_if_current(None),
        context.rebuild_options.transaction(context.store) as uow,
    ):
        cursor = require_cursor(uow)
        for window in windows:
            check_endpoint_on_same_chain(context.chain, uow, cursor, window)
        renew_cursor_epoch(uow, cursor)
        uow.coverage.set_scope(context.folder.scope)
        row_count = uow.logs.append(logs) + uow.calls.append(calls)
        uow.coverage.store_interval(
            context.folder.scope.id, _merge_window_coverage(gap, blocks, windows)
        )
        if row_count:
            mark_fold_stale(uow)
    return ScopeBackfillResult(
        "new contracts or events", blocks, row_count, gap.blocks_left - len(blocks)
    )


def _read_windows(
    chain: ChainSource, scope_backfill: ScopeBackfill, gap: _Gap
) -> Iterator[BlockWindow]:
    """Yield a window for each missing scope, all from the same first block.

    No window is requested beyond the end of the previous windows.
    """
    first_block = gap.blocks.first
    last_block = min(gap.blocks.last, gap.blocks.first + CHUNK - 1)
    for missing_scope in gap.missing_scopes:
        narrowed_chain = scope_backfill.get_narrowed_chain(chain, missing_scope)
        window = narrowed_chain.fetch_window(
            BlockRange(first_block, last_block), with_headers=False
        )
        # A window that was read ahead may be longer than requested.
        last_block = min(last_block, window.range.last)
        yield window


def _merge_window_coverage(
    gap: _Gap, blocks: BlockRange, windows: Sequence[BlockWindow]
) -> CoverageInterval:
    """Return the coverage of blocks that were read in parts.

    The level is the lowest of any part.
    """
    old_levels_and_endpoints = (
        [] if gap.old_coverage is None else [(gap.old_coverage.level, gap.old_coverage.endpoint)]
    )
    levels_and_endpoints = [
        *old_levels_and_endpoints,
        *((window.level, window.endpoint) for window in windows),
    ]
    level, endpoint = min(levels_and_endpoints)
    if gap.old_coverage is not None and not windows:
        return replace(gap.old_coverage, first=blocks.first, last=blocks.last)
    return CoverageInterval(blocks.first, blocks.last, level, endpoint)


def _refold_scope(context: RepairContext, reason: str) -> ScopeBackfillResult:
    with (
        context.folder.keep_cached_rows_if_current(None),
        context.rebuild_options.transaction(context.store) as uow,
    ):
        cursor = require_cursor(uow)
        renew_cursor_epoch(uow, cursor)
        rebuild_result = rebuild_state_up_to(
            uow, context.folder, cursor.number, context.rebuild_options
        )
    context.folder.discard_cached_rows()
    return ScopeBackfillResult(reason, rebuilt=rebuild_result)
