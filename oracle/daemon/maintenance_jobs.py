"""The daemon's jobs that verify the index: repair, reread, audit, and compare with snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from oracle.daemon.compose import Index
from oracle.daemon.config.verify_section import one_of
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_keeper import renew
from oracle.daemon.scheduler import Facts
from oracle.errors import TransientError
from oracle.indexer.audit.auditor import Audited, Auditor, audit_next
from oracle.indexer.audit.counter_check import CounterComparison, CounterQuery, compare_counters
from oracle.indexer.audit.disputes import disputes_in
from oracle.indexer.audit.quarantine_liars import note_proven_wrong
from oracle.indexer.audit.reread import Reread, Rereader, reread_next
from oracle.indexer.audit.scope_backfill import ScopeBackfill, ScopeBackfilled, backfill_next
from oracle.indexer.audit.unproven_history import why_unproven
from oracle.indexer.block_confirmation import unconfirmed_reason
from oracle.indexer.feeds.feed_faults import fault_text, holding
from oracle.indexer.folded_state import NoNearbySnapshotError
from oracle.indexer.loop import IngestState
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.snapshots import (
    SnapshotSource,
    check_sample,
    make_next_snapshot,
    state_mismatch,
    store_sample_result,
)
from oracle.telemetry import integrity_metrics

# How often the contracts' counters are read; and the interval of the checks for a late answer.
_COUNTERS_SECONDS = 3600.0
COUNTERS_TURN_SECONDS = 10.0
# How long a tick waits for an endpoint's answer in the background. A late answer is used by a
# later tick, because the head must not wait for it.
BACKGROUND_SECONDS = 0.2
# Blocks that no header proves are audited in chunks of this size.
_UNPROVEN_BLOCKS = 100
# This many blocks may wait for an audit before the daemon reports them.
_WAITING_BLOCKS = 2 * _UNPROVEN_BLOCKS
# How often a sample of the state is compared, and the number of samples that cover every node.
_SAMPLE_SECONDS = 600.0
_SAMPLE_PAGES = 256
SNAPSHOT_TURN_SECONDS = 10.0
# The pause after an endpoint did not answer an audit.
_BACKOFF_SECONDS = 60.0


def unaudited_reason(index: Index, *, is_running: bool = False) -> str | None:
    """Return why some blocks must not be used yet, or None if all blocks are sound.

    The blocks came only from endpoints that were proven wrong, or two endpoints disagree about
    them, or no second provider confirms them, or nothing proves them, or the state is not what
    they fold to. With `is_running`, the newest blocks may still wait for their audit and their
    second provider.
    """
    spare = _WAITING_BLOCKS if is_running else 0
    with index.store.reading() as uow:
        quarantine = uow.facts.quarantine
        blocks, wrong = quarantine.blocks(index.folder.scope.id), quarantine.reasons()
        disputes = disputes_in(uow)
        unproven = why_unproven(index.chain, uow, index.folder.scope, spare=spare)
        unproven = unproven or (None if is_running else unconfirmed_reason(uow))
        mismatch = state_mismatch(uow)
    if mismatch is not None:
        return mismatch
    if not blocks:
        return next((each.words for each in disputes), unproven)
    return (
        f"{blocks} blocks came from {', '.join(wrong)} alone, proven wrong, and no other endpoint "
        "was asked about them yet: name one in [chain] endpoints"
    )


@dataclass(slots=True)
class MaintenanceJobs:
    """The state that these jobs share with each other and with the index job; needs the lease.

    `max_wait_seconds` is how many seconds a tick waits for an endpoint's answer in the background;
    None: until the answer arrives. A tick that takes long marks its progress in `health`, so that
    it does not count as stuck.
    """

    index: Index
    epoch: int
    ingest: IngestState
    health: DaemonHealth
    patience: float | None
    scope_backfill: ScopeBackfill = field(default_factory=ScopeBackfill)
    auditor: Auditor = field(default_factory=Auditor)
    rereader: Rereader = field(default_factory=Rereader)
    counters: CounterQuery = field(default_factory=CounterQuery)
    _backoff_until: float = 0.0
    # When the counters are read next, and when a sample of the state is compared next.
    _counts_again: float = 0.0
    _samples_again: float = 0.0
    _sample_page: int = 0

    def __post_init__(self) -> None:
        self.auditor.wait_seconds = self.counters.background_call.wait_seconds = self.patience

    def backfill_scope(self) -> Facts:
        """Upgrade the blocks of an older configuration or version, one step at a time."""
        index = self.index
        done = backfill_next(
            index.chain, index.store, index.folder, self.scope_backfill, self._options()
        )
        return None if done is None else _backfilled(done)

    def reread(self) -> Facts:
        """Read the next blocks again that can be verified at a higher level than before."""
        index = self.index
        done = reread_next(index.chain, index.store, index.folder, self.rereader, self._options())
        return None if done is None else _reread(done)

    def why_unsure(self) -> str | None:
        """Return why the folded state must not be reported yet, or None if it may be reported."""
        index = self.index
        with index.store.reading() as uow:
            fault = holding(uow)
            if fault is not None:
                return f"the feed is in doubt: {fault_text(fault)}"
            mismatch = state_mismatch(uow)
            if mismatch is not None:
                return mismatch
            due = self.rereader.due(index.chain, uow, index.folder)
            left = 0 if due is None else self.rereader.count(uow, index.folder)
        if due is None:
            return None
        return (
            f"{left} blocks from {due.first} on were read less surely than [verify] asks for and "
            "the chain allows: they are read again before anything is reported"
        )

    def keep_trust(self) -> None:
        """Store which endpoints were proven wrong and what was learned about the chain.

        The next process needs both, so they are stored while blocks are read.
        """
        note_proven_wrong(self.index.chain, self.index.store, self._options())
        self.index.facts.flush_trust(self.epoch)

    def audit(self) -> Facts:
        """Audit final blocks with a second endpoint, unless the head is urgent or a halt is open.

        Blocks that came only from an endpoint that was proven wrong do not wait for the head. A
        silent second endpoint does not affect readiness: the audit is logged and tried again
        later.
        """
        index, heads = self.index, self.ingest.heads
        if (
            self.health.halt is not None
            or heads is None
            or not self.scope_backfill.is_sound
            or self.ingest.clock() < self._backoff_until
        ):
            return None
        with index.store.reading() as uow:
            cursor = uow.cursor.get()
        self.auditor.again = one_of(index.config.verify)
        self.auditor.least = self._least()
        is_caught_up = cursor is not None and cursor.number >= heads.latest.number
        is_urgent = is_caught_up or bool(index.chain.proven_wrong())
        if not self.auditor.has_turn(is_caught_up=is_urgent):
            return None
        try:
            done = audit_next(
                index.chain, index.store, index.folder, self.auditor, self._options()
            )
        except TransientError as error:
            integrity_metrics.AUDITS.labels("unanswered").inc()
            self._backoff_until = self.ingest.clock() + _BACKOFF_SECONDS
            return {"did": "put off the audit", "reason": str(error)}
        return None if done is None else _audited(done)

    def _least(self) -> int:
        """Return the minimum number of new blocks for an audit by a second endpoint.

        Where headers prove the logs, whole windows are audited. Elsewhere the second endpoint is
        the only other evidence: blocks are audited soon, and at once in a process that runs once.
        """
        if self.index.chain.is_vouched():
            return self.auditor.window
        return 1 if self.auditor.wait_seconds is None else _UNPROVEN_BLOCKS

    def snapshot(self) -> Facts:
        """Write the next snapshot of the state, or compare a sample of the state with a snapshot.

        This happens at the head only; during a backfill the processor is needed for the backfill.
        """
        index, heads, now = self.index, self.ingest.heads, self.ingest.clock()
        with index.store.reading() as uow:
            cursor = uow.cursor.get()
        is_caught_up = (
            cursor is not None and heads is not None and cursor.number >= heads.latest.number
        )
        if not is_caught_up or not self.scope_backfill.is_sound:
            return None
        source = SnapshotSource(
            index.store, index.reader, index.rules, index.config.oracle.min_scores
        )
        made = make_next_snapshot(source, self._options())
        if made is not None:
            return {"did": "made a snapshot", "block": made.block, "bytes": len(made.body)}
        if now < self._samples_again:
            return None
        self._samples_again = now + _SAMPLE_SECONDS
        return self._check_sample(source)

    def _check_sample(self, source: SnapshotSource) -> Facts:
        page = f"0x{self._sample_page:02x}"
        self._sample_page = (self._sample_page + 1) % _SAMPLE_PAGES
        try:
            check = check_sample(source, page)
        except NoNearbySnapshotError:
            # Snapshots must exist before samples can be compared.
            check = None
        if check is None:
            return None
        integrity_metrics.STATE_SAMPLES.inc()
        integrity_metrics.STATE_DIFFERENCE.set(len(check.differing))
        with self._options().transaction(self.index.store) as uow:
            was_known = state_mismatch(uow) is not None
            store_sample_result(uow, check)
            mismatch = state_mismatch(uow)
        if mismatch is not None and not was_known:
            structlog.get_logger().error("state_mismatch", reason=mismatch)
        return None

    def compare(self) -> Facts:
        """Compare the contracts' counters with the counts of the index."""
        if self.ingest.heads is None or not self.scope_backfill.is_sound:
            return None
        if not self.counters.background_call.is_out:
            if self.ingest.clock() < self._counts_again:
                return None
            self._counts_again = self.ingest.clock() + _COUNTERS_SECONDS
        chain, store, heads = self.index.chain, self.index.store, self.ingest.heads
        try:
            done = compare_counters(chain, store, heads, self.counters)
        except TransientError as error:
            return {"did": "compared no counters", "reason": str(error)}
        return None if done is None else _compared(done)

    def _options(self) -> RebuildOptions:
        return RebuildOptions(
            progress=lambda _block, _last: self.health.liveness.mark_progress(),
            lease=self.epoch,
            keep_lease=self._keep_lease,
        )

    def _keep_lease(self) -> None:
        renew(self.index.store, self.epoch)
        self.health.liveness.mark_progress()


def _backfilled(done: ScopeBackfilled) -> Mapping[str, object]:
    facts: dict[str, object] = {"did": "repaired", "why": done.why}
    if done.blocks is not None:
        facts |= {"blocks": f"{done.blocks.first}..{done.blocks.last}", "rows": done.rows}
        facts["left"] = done.left
    if done.rebuilt is not None:
        facts |= {"did": "folded anew", "logs": done.rebuilt.logs, "same": done.rebuilt.same}
        # Logged before anything is sent: these periods would be reported differently now.
        facts["differing"] = list(done.rebuilt.differing)
    return facts


def _reread(done: Reread) -> Mapping[str, object]:
    facts: dict[str, object] = {
        "did": "read again",
        "blocks": f"{done.blocks.first}..{done.blocks.last}",
        "level": done.level.name.lower(),
        "left": done.left,
    }
    if done.rows:
        facts |= {"rows": done.rows, "repaired": done.repaired is not None}
    return facts


def _audited(done: Audited) -> Mapping[str, object]:
    facts: dict[str, object] = {
        "did": "audited",
        "blocks": f"{done.blocks.first}..{done.blocks.last}",
        "giver": done.giver,
        "auditor": done.auditor,
        "result": done.result,
    }
    if done.difference:
        facts |= {
            "missing": len(done.difference.missing),
            "extra": len(done.difference.extra),
            "other": len(done.difference.other),
            "at_fault": done.at_fault or "unknown",
        }
    if done.left:
        facts["unproven_blocks"] = len(done.left)
    return facts


def _compared(done: CounterComparison) -> Mapping[str, object]:
    return {"did": "compared counters", "block": done.block, "differing": dict(done.differing)}
