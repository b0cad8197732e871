"""The running daemon's health, kept in memory and changed only by the worker thread.

`/readyz`, the metrics and the stored report (`health_reporter.py`) use the result of
`DaemonHealth.build_report`; see docs/explanation/health.md.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from oracle.chain.heads import Heads
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.blocks import BlockRef
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.indexer.commit import CommittedWindow
from oracle.queries.contract_view import (
    READY_WITHIN_BLOCKS,
    AccountBalance,
    ChainView,
)
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.health import list_contract_findings
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import metrics
from oracle.telemetry.outbox_counts import ContractStatus, OutboxStatistics

# The daemon is not ready once a job has failed in this many consecutive ticks.
READY_WITHIN_FAILURES = 3
# The daemon is not ready if no endpoint has returned the head for this many seconds, measured with
# a monotonic clock because block times are not reliable.
READY_WITHIN_SECONDS = 60.0


@dataclass(slots=True)
class DaemonHealth:
    """The daemon's progress and its current problems.

    A field is None if the progress is not known yet, or if there is no such problem.
    """

    liveness: JobLiveness
    newest_block: int | None = None
    final_block: int | None = None
    folded_block: BlockRef | Cursor | None = None
    # The dispatcher's balance at the last check, or None if this process starts no tasks.
    dispatcher_balance: AccountBalance | None = None
    # The reason for the open halt, which stops folding and sending, or None.
    halt_reason: str | None = None
    # `is_stalled` is True if no endpoint has returned a new block for a long time.
    # `is_fork_in_doubt` is True if one endpoint reports a fork that no other endpoint has
    # confirmed yet.
    is_stalled: bool = False
    is_fork_in_doubt: bool = False
    # A description of a dispute between endpoints. Until it is resolved, no block of either
    # endpoint is applied.
    dispute: str | None = None
    # The lowest height whose block was never read, or None if all blocks were read.
    first_gap: int | None = None
    # The reason why verification refuses a block, and the reason why the stored blocks are not
    # verified well enough yet.
    refusal_reason: str | None = None
    unsure_reason: str | None = None
    # The reason why the feed is unreliable, or None if the feed is reliable or not configured.
    feed_fault: str | None = None
    # The reason why the next report is held for the operator, or None.
    held_report_reason: str | None = None
    # The reasons why senders are paused until the operator resumes them. Empty if none is paused.
    pause_reasons: list[str] = field(default_factory=list)
    # Descriptions of nonces that the chain has used although no endpoint returns a receipt.
    missing_receipt_reasons: list[str] = field(default_factory=list)
    # The name of the leader while this process is a standby; None if this process leads or the
    # leader is unknown.
    leader: str | None = None
    # The condition that this process waits for before it can lead, or None if it leads or is a
    # standby.
    waiting_for: str | None = None
    endpoints: list[EndpointView] = field(default_factory=list)
    # The contract's state at the last check, or None if this process does not know it.
    contract: ContractStatus | None = None
    # Text that says how long and why no daemon ran before this one. None after an orderly restart.
    downtime: str | None = None
    # The maximum interval between reports, or None if this process sends none.
    heartbeat_seconds: int | None = None
    _heads: Heads | None = None
    _answered_at: float | None = None
    _detail_by_condition: dict[Condition, str] = field(default_factory=dict)

    def record_heads(self, heads: Heads) -> None:
        """Record the chain's heads.

        If `heads` is the same object as in the previous call, no endpoint has answered since then.
        """
        if heads is not self._heads:
            self._heads, self._answered_at = heads, self.liveness.clock()
        self.is_stalled = heads.stalled
        self.newest_block, self.final_block = heads.latest.number, heads.final.number
        metrics.BLOCK.labels("head").set(heads.latest.number)
        metrics.BLOCK.labels("final").set(heads.final.number)
        if heads.safe is not None:
            metrics.BLOCK.labels("safe").set(heads.safe.number)
        if self.folded_block is not None:
            metrics.LAG_BLOCKS.set(max(0, heads.latest.number - self.folded_block.number))
            metrics.LAG_SECONDS.set(max(0, heads.latest.time - self.folded_block.time))

    def record_folded_block(self, block: BlockRef | Cursor) -> None:
        """Record the last folded block."""
        self.folded_block = block
        metrics.BLOCK.labels("folded").set(block.number)

    def record_contract_state(self, statistics: OutboxStatistics | None) -> None:
        """Record the contract's state; None marks it as unknown."""
        self.contract = None if statistics is None else statistics.contract

    @property
    def chain_view(self) -> ChainView:
        """The last observed state of the chain, without requests or queries."""
        head = None if self._heads is None else self._heads.latest
        unknown_reason = "not checked by this process yet" if self.contract is None else None
        return ChainView(head, self.contract, unknown_reason)

    @property
    def lag_blocks(self) -> int | None:
        """The number of blocks from the folded block to the head, or None if unknown."""
        if self.newest_block is None or self.folded_block is None:
            return None
        return max(0, self.newest_block - self.folded_block.number)

    def set_condition(self, condition: Condition, detail: str) -> None:
        """Report a condition until it is cleared, replacing any earlier detail."""
        self._detail_by_condition[condition] = detail

    def clear_condition(self, condition: Condition) -> None:
        """Clear a reported condition."""
        self._detail_by_condition.pop(condition, None)

    def build_report(self) -> HealthReport:
        """Build a report of all known problems from memory; callable from any thread."""
        job_findings = [*self._list_failing_job_findings(), *self._list_silent_job_findings()]
        if self.leader is not None:
            # A standby does not index, because the leader already indexes into the same database.
            return HealthReport.from_findings(job_findings)
        lease_findings = (
            []
            if self.waiting_for is None
            else [HealthFinding(Condition.LEASE_WAIT, f"waiting for {self.waiting_for}")]
        )
        raised_findings = [
            HealthFinding(condition, detail)
            for condition, detail in self._detail_by_condition.items()
        ]
        return HealthReport.from_findings(
            (
                *(
                    *lease_findings,
                    *self._list_stalled_work_findings(),
                    *self._list_untrusted_data_findings(),
                    *raised_findings,
                    *job_findings,
                    *self._list_lag_findings(),
                ),
                *list_contract_findings(self.chain_view, self.heartbeat_seconds),
            )
        )

    def _list_failing_job_findings(self) -> list[HealthFinding]:
        return [
            HealthFinding(Condition.STEP_FAILING, f"{name}: {reason}")
            for name, (count, reason) in self.liveness.get_failing_jobs().items()
            if count >= READY_WITHIN_FAILURES
        ]

    def _list_silent_job_findings(self) -> list[HealthFinding]:
        return [
            HealthFinding(Condition.LOOP_STUCK, f"{name}: the loop has not run for too long")
            for name in self.liveness.get_silent_jobs()
        ]

    def _list_stalled_work_findings(self) -> list[HealthFinding]:
        """Return a finding for each reason why indexing or sending has stopped.

        The jobs themselves are running.
        """
        findings = (
            [] if self.halt_reason is None else [HealthFinding(Condition.HALTED, self.halt_reason)]
        )
        if self.is_fork_in_doubt:
            findings.append(
                HealthFinding(
                    Condition.FORK_IN_DOUBT,
                    "a single endpoint reports a fork of the indexed blocks",
                )
            )
        if self.dispute is not None:
            findings.append(
                HealthFinding(
                    Condition.ENDPOINTS_DISAGREE,
                    f"{self.dispute}; the trusted endpoint returns no new blocks",
                )
            )
        if self.held_report_reason is not None:
            findings.append(HealthFinding(Condition.HELD, self.held_report_reason))
        findings += [
            HealthFinding(Condition.PAUSED_SENDER, reason) for reason in self.pause_reasons
        ]
        if self.first_gap is not None:
            findings.append(
                HealthFinding(
                    Condition.GAP,
                    f"block {self.first_gap} was never read; run `qos-oracle resync gaps`",
                )
            )
        if self.is_stalled:
            findings.append(HealthFinding(Condition.STALLED, "no endpoint shows a new block"))
        if self._answered_at is not None:
            heads_age_seconds = self.liveness.clock() - self._answered_at
            if heads_age_seconds > READY_WITHIN_SECONDS:
                endpoint_states = "".join(
                    f"; {view.endpoint}: {view.state}"
                    for view in self.endpoints
                    if view.state != "ok"
                )
                findings.append(
                    HealthFinding(
                        Condition.NO_ENDPOINT,
                        f"no endpoint has shown the head for {heads_age_seconds:.0f} "
                        f"s{endpoint_states}",
                    )
                )
        return findings

    def _list_untrusted_data_findings(self) -> list[HealthFinding]:
        """Return findings about unverified or contradictory data."""
        findings = []
        if self.refusal_reason is not None:
            findings.append(
                HealthFinding(
                    Condition.REFUSED, f"{self.refusal_reason}; see `qos-oracle resync refusal`"
                )
            )
        if self.unsure_reason is not None:
            findings.append(HealthFinding(Condition.UNPROVEN, self.unsure_reason))
        findings += [
            HealthFinding(Condition.UNPROVEN, reason) for reason in self.missing_receipt_reasons
        ]
        if self.feed_fault is not None:
            findings.append(HealthFinding(Condition.FEED_SILENT, self.feed_fault))
        return findings

    def _list_lag_findings(self) -> list[HealthFinding]:
        lag_blocks = self.lag_blocks
        if lag_blocks is None:
            return [HealthFinding(Condition.BEHIND, "no block has been folded yet")]
        if lag_blocks > READY_WITHIN_BLOCKS:
            return [
                HealthFinding(
                    Condition.BEHIND,
                    f"the index is {lag_blocks} blocks behind the head{self._describe_head_gap()}",
                )
            ]
        return []

    def _describe_head_gap(self) -> str:
        """Describe endpoints whose heads are far above those of all others.

        The result is empty if there are none. If these endpoints have invented their blocks,
        nothing is published until they are removed.
        """
        known_heads = sorted(
            (view.head, view.endpoint) for view in self.endpoints if view.head is not None
        )
        # The largest gap between two neighbours, and the position of the higher one.
        gap, position = max(
            (
                (higher[0] - lower[0], position)
                for position, (lower, higher) in enumerate(pairwise(known_heads), start=1)
            ),
            default=(0, 0),
        )
        if gap <= READY_WITHIN_BLOCKS:
            return ""
        lower_head, lower_endpoint = known_heads[position - 1]
        leaders = [f"{endpoint} shows block {head}" for head, endpoint in known_heads[position:]]
        return (
            f"; {', '.join(leaders)}, but the newest known block of {lower_endpoint} is "
            f"{lower_head}"
        )


def record_window_metrics(window: CommittedWindow) -> None:
    metrics.LOGS.inc(window.log_count)
    for kind, count in window.event_counts.items():
        metrics.EVENTS.labels(kind).inc(count)
    metrics.FOLD_SECONDS.observe(window.fold_seconds)
    metrics.COMMIT_SECONDS.observe(window.commit_seconds)
