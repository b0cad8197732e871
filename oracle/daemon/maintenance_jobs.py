"""The daemon jobs that verify the index: repairs, rereads, audits and sample comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.daemon.compose import Index
from oracle.daemon.config.chain_section import compute_audit_interval
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease_keeper import renew_held_lease
from oracle.daemon.scheduler import TickFacts
from oracle.domain.blocks import format_block_count
from oracle.errors import TransientError
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.contract_counters import (
    CounterComparison,
    CounterQuery,
    compare_contract_counters,
)
from oracle.indexer.audit.judgement import record_endpoints_proven_wrong
from oracle.indexer.audit.reread import Rereader, RereadResult, reread_next_window
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.audit.scope_backfill import (
    ScopeBackfill,
    ScopeBackfillResult,
    backfill_next_gap,
)
from oracle.indexer.audit.unproven_history import describe_unproven_history, load_disputes
from oracle.indexer.block_confirmation import get_confirmation_obstacle
from oracle.indexer.feed_faults import find_fault_blocking_publication, format_fault
from oracle.indexer.folded_state import NoNearbySnapshotError
from oracle.indexer.loop import IngestState
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.snapshots import check_state_sample, make_next_snapshot
from oracle.indexer.state_sample import find_state_mismatch, store_sample_result
from oracle.telemetry import integrity_metrics
from oracle.telemetry.logger import get_logger

# Interval between readings of the contracts' counters, and interval between checks for a late
# response, in seconds.
_COUNTERS_PERIOD_SECONDS = 3600.0
COUNTERS_TICK_SECONDS = 10.0
# Time, in seconds, that a tick waits for an endpoint's response. A late response is used in a
# later tick, so that indexing at the head is not delayed.
BACKGROUND_SECONDS = 0.2
# If this chain's headers cannot prove logs, blocks are audited in chunks of this size.
_UNPROVEN_AUDIT_BLOCKS = 100
# Blocks that wait for their audit are reported only if there are more than this many.
_MAX_WAITING_BLOCKS = 2 * _UNPROVEN_AUDIT_BLOCKS
# A sample of the state is compared at this interval, in seconds. After `_SAMPLE_PAGES` samples,
# every node has been compared once.
_SAMPLE_SECONDS = 600.0
_SAMPLE_PAGES = 256
SNAPSHOT_TICK_SECONDS = 10.0
# At most this many accepted blocks are listed in the log of an audit.
_MAX_LISTED_BLOCKS = 10
# The pause in seconds after a failed audit. An endpoint with a different block hash is tried
# last for longer than this, so that the next audit tries a third endpoint.
AUDIT_BACKOFF_SECONDS = 30.0


def find_unsound_block_reason(
    index: Index, *, is_running: bool = False, audit_obstacle: str = ""
) -> str | None:
    """Return why some blocks must not be used yet, or None if all blocks may be used.

    Blocks must not be used if they came only from endpoints that were proven wrong, if two
    endpoints disagree about them, if no second provider has confirmed them, if the required proof
    is missing, or if the stored state differs from a refold of the blocks. With `is_running`, the
    newest blocks are accepted although they may still wait for their audit or confirmation.
    `audit_obstacle` is the reason why the last audit failed, if it failed.
    """
    max_waiting_blocks = _MAX_WAITING_BLOCKS if is_running else 0
    with index.store.read_transaction() as uow:
        quarantine = uow.facts.quarantine
        block_count = quarantine.count_suspect_blocks(index.folder.scope.id)
        wrong_endpoints = quarantine.get_reason_by_endpoint()
        disputes = load_disputes(uow)
        unproven_blocks_reason = describe_unproven_history(
            index.chain,
            uow,
            index.folder.scope,
            max_unaudited=max_waiting_blocks,
            audit_obstacle=audit_obstacle,
        )
        unproven_blocks_reason = unproven_blocks_reason or (
            None if is_running else get_confirmation_obstacle(uow)
        )
        mismatch = find_state_mismatch(uow)
    if mismatch is not None:
        return mismatch
    if not block_count:
        return next((dispute.message for dispute in disputes), unproven_blocks_reason)
    return (
        f"data of {format_block_count(block_count)} came only from {', '.join(wrong_endpoints)}, "
        "proven wrong, and no other endpoint has confirmed it yet; add one to [chain] endpoints"
    )


@dataclass(slots=True)
class MaintenanceJobs:
    """The jobs that audit, reread and check indexed blocks, with state shared with indexing.

    The jobs require the lease. A tick waits for a response of an endpoint for at most
    `max_wait_seconds`, or without limit if it is None. A long tick marks its progress in `health`,
    so that it does not count as stuck.
    """

    index: Index
    epoch: int
    ingest: IngestState
    health: DaemonHealth
    max_wait_seconds: float | None
    scope_backfill: ScopeBackfill = field(default_factory=ScopeBackfill)
    auditor: Auditor = field(default_factory=Auditor)
    rereader: Rereader = field(default_factory=Rereader)
    counters: CounterQuery = field(default_factory=CounterQuery)
    # The reason why the last audit failed, or an empty string.
    audit_obstacle: str = ""
    _backoff_until: float = 0.0
    # The times, on the monotonic clock, at which the counters are next read and a sample is next
    # compared.
    _next_count_at: float = 0.0
    _next_sample_at: float = 0.0
    _sample_page: int = 0

    def __post_init__(self) -> None:
        self.auditor.wait_seconds = self.counters.background_call.wait_seconds = (
            self.max_wait_seconds
        )

    def backfill_index_scope(self) -> TickFacts:
        """Reread the next blocks that were indexed with another configuration or version."""
        backfill_result = backfill_next_gap(self._build_repair_context(), self.scope_backfill)
        return None if backfill_result is None else _describe_backfill(backfill_result)

    def reread_blocks(self) -> TickFacts:
        """Reread the next blocks that can be verified at a higher level."""
        reread_result = reread_next_window(self._build_repair_context(), self.rereader)
        return None if reread_result is None else _describe_reread(reread_result)

    def find_unreportable_state_reason(self) -> str | None:
        """Return why no report may be based on the folded state yet.

        The result is None if reports may be based on it.
        """
        index = self.index
        with index.store.read_transaction() as uow:
            fault = find_fault_blocking_publication(uow)
            if fault is not None:
                return f"the feed is in doubt: {format_fault(fault)}"
            mismatch = find_state_mismatch(uow)
            if mismatch is not None:
                return mismatch
            due_blocks = self.rereader.find_span_to_reread(index.chain, uow, index.folder)
            blocks_left = (
                0
                if due_blocks is None
                else self.rereader.count_blocks_to_reread(uow, index.folder)
            )
        if due_blocks is None:
            return None
        return (
            f"data of {format_block_count(blocks_left)} from block {due_blocks.first} on was "
            "verified at a lower level than [verify] requires and the chain allows; it is read "
            "again before anything is reported"
        )

    def store_endpoint_findings(self) -> None:
        """Store which endpoints were proven wrong, and the facts learned about the chain.

        This is done while blocks are read, because the next process needs the facts even if this
        process crashes.
        """
        record_endpoints_proven_wrong(
            self.index.chain, self.index.store, self._build_rebuild_options()
        )
        self.index.endpoint_facts.store_chain_facts(self.epoch)

    def audit_blocks(self) -> TickFacts:
        """Audit final blocks with a second endpoint, unless a halt is open.

        While the index catches up with the head, only some ticks audit blocks. However, blocks
        that came only from an endpoint that was proven wrong are audited by every tick. If the
        second endpoint does not respond, the daemon stays ready; the failure is logged, and the
        audit is tried again later.
        """
        index, heads = self.index, self.ingest.heads
        if (
            self.health.halt_reason is not None
            or heads is None
            or not self.scope_backfill.is_complete
            or self.ingest.clock() < self._backoff_until
        ):
            return None
        with index.store.read_transaction() as uow:
            cursor = uow.cursor.get()
        self.auditor.resample_interval = compute_audit_interval(index.config.verify)
        self.auditor.min_blocks = self._get_min_audit_blocks()
        is_caught_up = cursor is not None and cursor.number >= heads.latest.number
        is_urgent = is_caught_up or bool(index.chain.get_proven_wrong_endpoints())
        if not self.auditor.should_run(is_caught_up=is_urgent):
            return None
        try:
            audit_result = audit_next_window(self._build_repair_context(), self.auditor)
        except TransientError as error:
            integrity_metrics.AUDITS.labels("unanswered").inc()
            self._backoff_until = self.ingest.clock() + AUDIT_BACKOFF_SECONDS
            self.audit_obstacle = str(error)
            return {"did": "put off the audit", "reason": self.audit_obstacle}
        if audit_result is not None or not self.auditor.has_pending_request:
            self.audit_obstacle = ""
        return None if audit_result is None else _describe_audit(audit_result)

    def _get_min_audit_blocks(self) -> int:
        """Return the minimum number of new blocks for an audit by a second endpoint.

        If headers prove the logs, only whole windows are audited. Otherwise the audit is the only
        verification, so blocks are audited sooner. A process that runs once audits all blocks.
        """
        if self.index.chain.are_receipts_provable():
            return self.auditor.window_blocks
        return 1 if self.auditor.wait_seconds is None else _UNPROVEN_AUDIT_BLOCKS

    def update_snapshots(self) -> TickFacts:
        """Write the next state snapshot, or compare a sample of the state with a snapshot.

        Nothing is done while the index catches up with the head, in order not to slow it down.
        """
        index = self.index
        heads = self.ingest.heads
        now = self.ingest.clock()
        with index.store.read_transaction() as uow:
            cursor = uow.cursor.get()
        is_caught_up = (
            cursor is not None and heads is not None and cursor.number >= heads.latest.number
        )
        if not is_caught_up or not self.scope_backfill.is_complete:
            return None
        new_snapshot = make_next_snapshot(index.archive, self._build_rebuild_options())
        if new_snapshot is not None:
            return {
                "did": "made a snapshot",
                "block": new_snapshot.block,
                "bytes": len(new_snapshot.body),
            }
        if now < self._next_sample_at:
            return None
        self._next_sample_at = now + _SAMPLE_SECONDS
        return self._compare_state_sample()

    def _compare_state_sample(self) -> TickFacts:
        page = f"0x{self._sample_page:02x}"
        self._sample_page = (self._sample_page + 1) % _SAMPLE_PAGES
        try:
            sample_check = check_state_sample(self.index.archive, page)
        except NoNearbySnapshotError:
            # No snapshot is close to the cursor yet, so the sample cannot be compared with
            # anything.
            sample_check = None
        if sample_check is None:
            return None
        integrity_metrics.STATE_SAMPLES.inc()
        integrity_metrics.STATE_DIFFERENCE.set(len(sample_check.differing))
        with self._build_rebuild_options().transaction(self.index.store) as uow:
            had_mismatch = find_state_mismatch(uow) is not None
            store_sample_result(uow, sample_check)
            mismatch = find_state_mismatch(uow)
        if mismatch is not None and not had_mismatch:
            get_logger().error("state_mismatch", reason=mismatch)
        return None

    def check_counters(self) -> TickFacts:
        """Compare the contracts' own counters with the indexed counts."""
        if self.ingest.heads is None or not self.scope_backfill.is_complete:
            return None
        if not self.counters.background_call.is_pending:
            if self.ingest.clock() < self._next_count_at:
                return None
            self._next_count_at = self.ingest.clock() + _COUNTERS_PERIOD_SECONDS
        chain, store, heads = self.index.chain, self.index.store, self.ingest.heads
        try:
            counter_comparison = compare_contract_counters(chain, store, heads, self.counters)
        except TransientError as error:
            return {"did": "compared no counters", "reason": str(error)}
        return None if counter_comparison is None else _describe_comparison(counter_comparison)

    def _build_repair_context(self) -> RepairContext:
        index = self.index
        return RepairContext(index.chain, index.store, index.folder, self._build_rebuild_options())

    def _build_rebuild_options(self) -> RebuildOptions:
        return RebuildOptions(
            progress=lambda _block, _last: self.health.liveness.mark_progress(),
            lease_epoch=self.epoch,
            renew_lease=self._renew_lease,
        )

    def _renew_lease(self) -> None:
        renew_held_lease(self.index.store, self.epoch)
        self.health.liveness.mark_progress()


def _describe_backfill(result: ScopeBackfillResult) -> Mapping[str, object]:
    tick_facts: dict[str, object] = {"did": "repaired", "why": result.reason}
    if result.blocks is not None:
        tick_facts |= {
            "blocks": f"{result.blocks.first}..{result.blocks.last}",
            "rows": result.row_count,
        }
        tick_facts["left"] = result.blocks_left
    if result.rebuilt is not None:
        tick_facts |= {
            "did": "folded again",
            "logs": result.rebuilt.log_count,
            "same": result.rebuilt.is_same,
        }
        # The periods whose reports would now turn out differently are logged before anything is
        # sent.
        tick_facts["differing"] = list(result.rebuilt.differing)
    return tick_facts


def _describe_reread(result: RereadResult) -> Mapping[str, object]:
    tick_facts: dict[str, object] = {
        "did": "read again",
        "blocks": f"{result.blocks.first}..{result.blocks.last}",
        "level": result.level.name.lower(),
        "left": result.blocks_left,
    }
    if result.row_count:
        tick_facts |= {"rows": result.row_count, "repaired": result.repaired is not None}
    return tick_facts


def _describe_audit(result: AuditResult) -> Mapping[str, object]:
    tick_facts: dict[str, object] = {
        "did": "audited",
        "blocks": f"{result.blocks.first}..{result.blocks.last}",
        "giver": result.source_endpoint,
        "auditor": result.auditor,
        "result": result.outcome,
    }
    if result.difference:
        tick_facts |= {
            "missing": len(result.difference.missing_rows),
            "extra": len(result.difference.extra_rows),
            "other": len(result.difference.changed_rows),
            "at_fault": result.at_fault or "unknown",
        }
    if result.accepted_blocks:
        tick_facts["accepted_blocks"] = sorted(result.accepted_blocks)[:_MAX_LISTED_BLOCKS]
    if result.unsettled_blocks:
        tick_facts["unproven_blocks"] = len(result.unsettled_blocks)
    return tick_facts


def _describe_comparison(comparison: CounterComparison) -> Mapping[str, object]:
    return {
        "did": "compared counters",
        "block": comparison.block,
        "differing": dict(comparison.differing_counters),
    }
