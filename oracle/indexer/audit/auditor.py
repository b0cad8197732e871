"""Audits final blocks by comparing their stored rows with another provider's rows.

If only one provider is configured, another one of its endpoints is used. Every final block is
audited once, or compared with every other provider if receipts prove nothing on this chain. From
time to time an old window, chosen by the hash of the final block, is audited again. If the rows
differ, receipts prove which side is right where this is possible. Wrong rows are repaired, and the
state is folded again. See docs/explanation/verification.md#l5.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from oracle.indexer.audit.judgement import (
    AuditResult,
    record_endpoints_proven_wrong,
    resolve_disputed_blocks,
)
from oracle.indexer.audit.row_diff import (
    RepairContext,
    RowDiff,
    check_endpoint_on_same_chain,
    compare_window_with_database,
    find_conflicting_hashes,
    require_cursor,
)
from oracle.indexer.audit.unproven_history import (
    build_dispute,
    find_accepted_blocks,
    record_dispute,
)
from oracle.indexer.folder import EventFolder
from oracle.rpc.background import run_in_background
from oracle.rpc.endpoints.providers import WitnessQuorum
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import integrity_metrics as metrics
from oracle.telemetry.indexer_metrics import MISSING_LOGS

__all__ = ["RESAMPLE_INTERVAL", "AuditResult", "Auditor", "audit_next_window"]

# Number of blocks per request.
WINDOW_BLOCKS = 1_000
# On average, one old window is audited again for every 100 new final blocks.
RESAMPLE_INTERVAL = 100
# While the index is behind the head, only every 20th tick audits blocks.
CATCH_UP_INTERVAL = 20
# At most this many targets wait until an endpoint responds again.
_MAX_POSTPONED_TARGETS = 100


class AuditTarget(NamedTuple):
    """The blocks to audit, and the endpoint that served them.

    `is_repeated` is whether the blocks were audited before. `is_suspect` is whether the endpoint
    that served the blocks was proven wrong. While the blocks are compared with further endpoints,
    `auditors` are all endpoints requested in this audit. The first of them returned the stored
    rows, and the last one is being requested.
    """

    blocks: BlockRange
    source_endpoint: str
    is_repeated: bool = False
    is_suspect: bool = False
    auditors: tuple[str, ...] = ()


@dataclass(slots=True)
class Auditor:
    """The state of the audit between ticks.

    The coverage records which blocks were audited. The search for blocks to audit starts at
    `next_block`. Blocks below it that could not be audited are left to the next process. For
    blocks from endpoints that were proven wrong, the search starts at `next_suspect_block`. A tick
    waits at most `wait_seconds` for a response, or without a limit if this is None. If the
    response arrives later, a later tick takes it.
    """

    window_blocks: int = WINDOW_BLOCKS
    # A range with fewer blocks is not audited while it can still grow.
    min_blocks: int = WINDOW_BLOCKS
    resample_interval: int = RESAMPLE_INTERVAL
    next_block: int = 0
    next_suspect_block: int = 0
    wait_seconds: float | None = None
    # The target and the pending response of the request in flight, or None.
    _pending: tuple[AuditTarget, Future[BlockWindow]] | None = None
    _tick_count: int = 0
    _last_sampled_final: int = -1
    # Audited targets that still have to be compared with an endpoint in backoff, oldest first.
    postponed_targets: deque[AuditTarget] = field(
        default_factory=lambda: deque(maxlen=_MAX_POSTPONED_TARGETS)
    )
    _wrong_rows_by_endpoint: dict[str, int] = field(default_factory=dict)
    _wrong_endpoints: frozenset[str] = frozenset()

    def should_run(self, *, is_caught_up: bool) -> bool:
        """Return whether blocks are audited in this tick.

        The audit runs in every tick at the head, but seldom during catch-up.
        """
        self._tick_count += 1
        return is_caught_up or self._tick_count % CATCH_UP_INTERVAL == 0

    @property
    def has_pending_request(self) -> bool:
        """Whether a request was sent and its response was not taken yet."""
        return self._pending is not None

    def start_audit_request(
        self, target: AuditTarget, fetch_window: Callable[[], BlockWindow]
    ) -> None:
        """Send a request in the background, and wait up to `wait_seconds` for its response."""
        window_future = run_in_background(fetch_window, f"audit {target.blocks.first}")
        self._pending = target, window_future
        wait([window_future], self.wait_seconds)

    def take_response(self) -> tuple[AuditTarget, BlockWindow | None] | None:
        """Return the target and the window of a finished request, or None if there is none.

        The window is None if a further endpoint did not respond.

        Raises:
            TransientError: the first endpoint did not respond.
        """
        if self._pending is None or not self._pending[1].done():
            return None
        (target, window_future), self._pending = self._pending, None
        try:
            return target, window_future.result()
        except TransientError:
            if not target.auditors:
                raise
            return target, None

    def skip_blocks(self, target: AuditTarget, blocks: BlockRange) -> None:
        """Skip blocks of the target that could not be verified."""
        if target.is_suspect:
            self.next_suspect_block = max(self.next_suspect_block, blocks.last + 1)
        else:
            self.next_block = max(self.next_block, blocks.last + 1)

    def set_endpoints_proven_wrong(self, endpoints: Iterable[str]) -> None:
        """Set which endpoints are proven wrong.

        If they changed, the search for blocks starts again from the oldest block.
        """
        endpoint_names = frozenset(endpoints)
        if endpoint_names != self._wrong_endpoints:
            self._wrong_endpoints, self.next_block, self.next_suspect_block = endpoint_names, 0, 0

    def add_to_wrong_row_count(self, endpoint: str, row_count: int) -> int:
        """Count wrong rows of an endpoint, and return its total in this process."""
        self._wrong_rows_by_endpoint[endpoint] = (
            self._wrong_rows_by_endpoint.get(endpoint, 0) + row_count
        )
        return self._wrong_rows_by_endpoint[endpoint]

    def sample_old_window(self, cursor: Cursor, start_block: int) -> BlockRange | None:
        """Return an old window to audit again, if the hash of the final block selects one."""
        final_number, final_hash = cursor.final_number, cursor.final_hash
        if final_number is None or final_hash is None or final_number == self._last_sampled_final:
            return None
        self._last_sampled_final = final_number
        window_count = (final_number - start_block + 1) // self.window_blocks
        seed = int.from_bytes(sha256(final_hash.encode()).digest()[:8], "big")
        if window_count < 1 or seed % self.resample_interval:
            return None
        first_block = (
            start_block + seed // self.resample_interval % window_count * self.window_blocks
        )
        return BlockRange(first_block, first_block + self.window_blocks - 1)


def audit_next_window(context: RepairContext, auditor: Auditor) -> AuditResult | None:
    """Audit the next due window with an endpoint of another witness.

    Return None if no window is due, if no witness can audit it, or if the response is pending.

    Raises:
        TransientError: the other endpoint returns no complete response, or is on another chain, or
            blocks were rewound or read again before its response.
    """
    chain, store, folder = context.chain, context.store, context.folder
    usable_witness_count = chain.count_usable_witnesses()
    metrics.AUDIT_POSSIBLE.set(usable_witness_count > 1)
    if not auditor.has_pending_request:
        with store.read_transaction() as uow:
            target = _find_suspect_target(uow, folder, auditor) if usable_witness_count else None
            if target is None and usable_witness_count > 1:
                target = _find_next_audit_target(uow, folder, auditor)
        if target is None:
            target = _take_postponed_target(chain, auditor)
        if target is None:
            return None
        auditor.start_audit_request(target, _build_request(chain, target))
    response = auditor.take_response()
    if response is None:
        return None
    target, window = response
    with store.read_transaction() as uow:
        is_unchanged = _is_served_by_source(uow, folder, target)
    if not is_unchanged:
        raise TransientError(
            f"blocks {target.blocks.first} to {target.blocks.last} were rewound or read again "
            "during their audit; they are audited later"
        )
    if target.auditors or window is None:
        return _compare_with_further_endpoint(context, auditor, target, window)
    return _compare_blocks(context, auditor, target, window)


def _is_served_by_source(uow: UnitOfWork, folder: EventFolder, target: AuditTarget) -> bool:
    """Return whether the stored rows of the target still come from its source endpoint."""
    blocks = target.blocks
    intervals = uow.coverage.list_intervals(folder.scope.id, blocks.first, blocks.last)
    return sum(len(interval.blocks) for interval in intervals) == len(blocks) and all(
        interval.endpoint == target.source_endpoint for interval in intervals
    )


def _build_request(chain: ChainSource, target: AuditTarget) -> Callable[[], BlockWindow]:
    if target.auditors:
        return lambda: chain.fetch_verified_window(
            target.blocks, VerificationLevel.CHECKED, target.auditors[-1]
        )
    return lambda: chain.fetch_verified_window(
        target.blocks, VerificationLevel.CHECKED, excluded_endpoint=target.source_endpoint or None
    )


def _compare_with_further_endpoint(
    context: RepairContext, auditor: Auditor, target: AuditTarget, window: BlockWindow | None
) -> AuditResult:
    """Compare the window of a further witness with rows that two witnesses returned.

    A difference is a dispute, because no receipts prove which side is right. No row is added or
    removed, because two witnesses agree on the stored rows. Another hash of a block that is not
    final for this witness is no difference, because the witness lags or is on a short fork.
    """
    audit = AuditResult(
        target.blocks,
        target.source_endpoint,
        target.auditors[0],
        RowDiff(),
        is_repeated=target.is_repeated,
    )
    if window is not None:
        target = target._replace(blocks=window.range)
        audit = replace(audit, blocks=window.range)
        audit = _compare_unproven_blocks(context, audit, window) or audit
    elif context.chain.is_backing_off(target.auditors[-1]):
        auditor.postponed_targets.append(target._replace(auditors=target.auditors[:-1]))
    if audit.has_difference:
        with context.rebuild_options.transaction(context.store) as uow:
            record_dispute(uow, build_dispute(audit, audit.difference))
    metrics.AUDITS.labels(audit.outcome).inc()
    if audit.has_difference or not _start_further_request(context.chain, auditor, target):
        _record_audit(context, audit.blocks, target.auditors[0])
    return audit


def _compare_unproven_blocks(
    context: RepairContext, audit: AuditResult, window: BlockWindow
) -> AuditResult | None:
    """Compare a window with the database, and return the audit with the differences.

    Differences that an operator has accepted are left out. If the window has another hash of a
    block that is not final for its endpoint, all differences above the last conflicting block that
    is final are left out too. Return None if no conflicting block is final.
    """
    with context.store.read_transaction() as uow:
        row_diff = compare_window_with_database(uow, window)
        hashes = find_conflicting_hashes(uow, window)
        accepted_blocks = find_accepted_blocks(uow, window.endpoint, row_diff, hashes)
    conflicts = sorted(hashes.keys() - accepted_blocks)
    final_conflicts = conflicts[
        : bisect_left(
            conflicts,
            True,
            key=lambda number: not _is_final_for(context, window.endpoint, number, hashes[number]),
        )
    ]
    if conflicts and not final_conflicts:
        return None
    last_block = window.range.last if final_conflicts == conflicts else final_conflicts[-1]
    return replace(
        audit,
        auditor=window.endpoint,
        difference=row_diff.select_blocks(
            lambda number: number <= last_block and number not in accepted_blocks
        ),
        conflicting_hashes={number: hashes[number] for number in final_conflicts},
        accepted_blocks=frozenset(accepted_blocks),
    )


def _is_final_for(
    context: RepairContext, endpoint: str, block_number: int, block_hash: str
) -> bool:
    """Return whether the block is final according to the endpoint.

    The endpoint must return the block again, deep enough below its head.
    """
    witnesses = context.chain.fetch_witnesses(block_number)
    return any(
        witness.block is not None
        and witness.block.hash == block_hash
        and context.chain.is_deep_enough(witness.block, witness.head)
        for witness in witnesses
        if witness.endpoint == endpoint
    )


def _start_further_request(chain: ChainSource, auditor: Auditor, target: AuditTarget) -> bool:
    """Request the target from a further witness, or return False if none is left.

    If receipts can prove which of two endpoints is right, two agreeing endpoints are enough. An
    endpoint that has just failed is compared later, because one that hangs would delay every
    window.
    """
    if chain.are_receipts_provable():
        return False
    endpoints = _list_further_endpoints(chain, target)
    endpoint = next((name for name in endpoints if not chain.is_backing_off(name)), None)
    if endpoint is None:
        if endpoints:
            auditor.postponed_targets.append(target)
        return False
    target = target._replace(auditors=(*target.auditors, endpoint))
    auditor.start_audit_request(target, _build_request(chain, target))
    return True


def _list_further_endpoints(chain: ChainSource, target: AuditTarget) -> list[str]:
    """Return the usable endpoints of the witnesses that have not been requested for a target."""
    providers = chain.get_providers()
    quorum = WitnessQuorum(providers)
    requested_endpoints = (target.source_endpoint, *target.auditors)
    requested_witnesses = set(map(quorum.get_witness, filter(None, requested_endpoints)))
    return [
        name
        for name in providers
        if quorum.get_witness(name) not in requested_witnesses
        and name not in chain.get_proven_wrong_endpoints()
    ]


def _take_postponed_target(chain: ChainSource, auditor: Auditor) -> AuditTarget | None:
    """Take the oldest postponed target that an endpoint can be compared with now, if any."""
    for target in auditor.postponed_targets:
        for endpoint in _list_further_endpoints(chain, target):
            if not chain.is_backing_off(endpoint):
                auditor.postponed_targets.remove(target)
                return target._replace(auditors=(*target.auditors, endpoint))
    return None


def _record_audit(context: RepairContext, blocks: BlockRange, endpoint: str) -> None:
    with context.rebuild_options.transaction(context.store) as uow:
        newest_number = require_cursor(uow).number
        uow.coverage.record_audit(context.folder.scope.id, blocks, endpoint, newest_number)


def _compare_blocks(
    context: RepairContext, auditor: Auditor, target: AuditTarget, window: BlockWindow
) -> AuditResult:
    """Compare a window from another witness with the stored rows, and store the result."""
    chain, store = context.chain, context.store
    audit = AuditResult(
        window.range,
        target.source_endpoint,
        window.endpoint,
        RowDiff(),
        is_repeated=target.is_repeated,
    )
    if chain.are_receipts_provable():
        with store.read_transaction() as uow:
            check_endpoint_on_same_chain(chain, uow, require_cursor(uow), window)
            audit = replace(audit, difference=compare_window_with_database(uow, window))
    else:
        audit = _dispute_unproven_blocks(context, audit, window)
    if audit.difference:
        audit = resolve_disputed_blocks(context, audit)
        _penalize_endpoint(context, auditor, audit)
    metrics.AUDITS.labels(audit.outcome).inc()
    if audit.outcome == "unproven" or audit.unsettled_blocks:
        auditor.skip_blocks(target, audit.blocks)
        return audit
    further_target = target._replace(blocks=audit.blocks, auditors=(window.endpoint,))
    if audit.difference or not _start_further_request(chain, auditor, further_target):
        _record_audit(context, audit.blocks, window.endpoint)
    return audit


def _dispute_unproven_blocks(
    context: RepairContext, audit: AuditResult, window: BlockWindow
) -> AuditResult:
    """Store the differences in blocks without proofs as a dispute.

    The result is the audit of these blocks. Blaming one side would hide a difference, because no
    header can prove which side is right.

    Raises:
        TransientError: the window has another hash of a block, which no operator has rejected.
    """
    compared_audit = _compare_unproven_blocks(context, audit, window)
    if compared_audit is None:
        reason = (
            f"{window.endpoint} has another hash of one of the blocks {window.range.first} to "
            f"{window.range.last}, but it is not final there; the blocks are audited later"
        )
        # The next request goes to a different endpoint, if there is one.
        context.chain.report_wrong_logs(window.endpoint, reason)
        raise TransientError(reason)
    if not compared_audit.has_difference:
        return compared_audit
    dispute = build_dispute(compared_audit, compared_audit.difference)
    with context.rebuild_options.transaction(context.store) as uow:
        record_dispute(uow, dispute)
    if compared_audit.conflicting_hashes:
        context.chain.report_wrong_logs(window.endpoint, dispute.message)
        raise TransientError(dispute.message)
    return compared_audit


def _find_suspect_target(
    uow: UnitOfWork, folder: EventFolder, auditor: Auditor
) -> AuditTarget | None:
    """Return the oldest blocks that only an endpoint proven wrong has served, if any.

    These blocks are audited even if the range is short and can still grow, because no report or
    kickout may depend on them before their audit.
    """
    quarantine = uow.facts.quarantine
    cursor = uow.cursor.get()
    reason_by_endpoint = quarantine.get_reason_by_endpoint()
    auditor.set_endpoints_proven_wrong(reason_by_endpoint)
    if not reason_by_endpoint or cursor is None or auditor.next_suspect_block > cursor.number:
        return None
    remaining_range = BlockRange(auditor.next_suspect_block, cursor.number)
    interval = quarantine.find_lowest_suspect_interval(
        folder.scope.id, remaining_range, auditor.window_blocks
    )
    return (
        None
        if interval is None
        else AuditTarget(interval.blocks, interval.endpoint, is_suspect=True)
    )


def _find_next_audit_target(
    uow: UnitOfWork, folder: EventFolder, auditor: Auditor
) -> AuditTarget | None:
    """Return the blocks to audit next, or None if there are none.

    They are the next final blocks, or an old window to audit again.
    """
    cursor = uow.cursor.get()
    identity = uow.identity.get()
    if cursor is None or identity is None or cursor.final_number is None:
        return None
    final_number = min(cursor.final_number, cursor.number)
    if auditor.next_block <= final_number:
        remaining_range = BlockRange(auditor.next_block, final_number)
        interval = uow.coverage.find_lowest_unaudited_interval(
            folder.scope.id, remaining_range, auditor.window_blocks
        )
        # Every block below is audited, so the next search starts here.
        auditor.next_block = final_number + 1 if interval is None else interval.first
        # A range that can still grow is audited later, so that one request covers more blocks.
        is_large_enough = interval is not None and len(interval.blocks) >= min(
            auditor.min_blocks, auditor.window_blocks
        )
        if interval is not None and (is_large_enough or interval.last < final_number):
            return AuditTarget(interval.blocks, interval.endpoint)
    sampled_range = auditor.sample_old_window(
        replace(cursor, final_number=final_number), identity.start_block
    )
    if sampled_range is None:
        return None
    intervals = uow.coverage.list_intervals(
        folder.scope.id, sampled_range.first, sampled_range.last
    )
    return (
        AuditTarget(intervals[0].blocks, intervals[0].endpoint, is_repeated=True)
        if intervals
        else None
    )


def _penalize_endpoint(context: RepairContext, auditor: Auditor, audit: AuditResult) -> None:
    """Deprioritise or quarantine an endpoint that was wrong, and count its wrong rows."""
    if not audit.at_fault:
        return
    difference = audit.difference
    missing_rows = (
        difference.missing_rows
        if audit.at_fault == audit.source_endpoint
        else difference.extra_rows
    )
    MISSING_LOGS.labels(audit.at_fault).inc(len(missing_rows))
    row_count = (
        len(difference.missing_rows) + len(difference.extra_rows) + len(difference.changed_rows)
    )
    total_row_count = auditor.add_to_wrong_row_count(audit.at_fault, row_count)
    blocks_text = f"blocks {audit.blocks.first} to {audit.blocks.last}"
    chain = context.chain
    chain.report_wrong_logs(
        audit.at_fault,
        f"was wrong about {row_count} rows of {blocks_text}, {total_row_count} in all",
    )
    if audit.proven_wrong:
        chain.mark_proven_wrong(audit.at_fault, audit.proven_wrong)
        record_endpoints_proven_wrong(chain, context.store, context.rebuild_options)
