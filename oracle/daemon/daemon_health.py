"""The health of the running daemon, kept in memory and written by the worker only.

`DaemonHealth.build_report` feeds `/readyz`, the metrics and the stored report
(`health_reporter.py`); see docs/explanation/health.md.
"""

from dataclasses import dataclass, field

from oracle.chain.heads import Heads
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.blocks import BlockRef
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.indexer.commit import WindowCommitted
from oracle.queries.contract_view import (
    READY_WITHIN_BLOCKS,
    AccountBalance,
    ChainView,
    ContractState,
)
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.health import report_findings
from oracle.store.state.cursor_repository import Cursor
from oracle.telemetry import metrics
from oracle.telemetry.outbox_counts import OutboxFigures

# Consecutive failed ticks of a job before the daemon is not ready.
READY_WITHIN_FAILURES = 3
# Without an answer about the head for this time, no endpoint counts as answering. Measured by the
# daemon's monotonic clock, because block timestamps are no reliable measure.
READY_WITHIN_SECONDS = 60.0


@dataclass(slots=True)
class DaemonHealth:
    """The progress of chain and fold, and everything that is wrong; None: not known yet."""

    liveness: JobLiveness
    newest: int | None = None
    final: int | None = None
    folded: BlockRef | Cursor | None = None
    # The dispatcher's balance at the last count; None: no tasks are started.
    dispatcher: AccountBalance | None = None
    # The reason of the open halt, which stops folding and sending; None: no halt is open.
    halt: str | None = None
    # Whether no endpoint shows a new block; and whether one endpoint reports a fork that it must
    # confirm.
    is_stalled: bool = False
    is_in_doubt: bool = False
    # What endpoints disagree about; blocks of neither are applied meanwhile.
    dispute: str | None = None
    # The lowest block that was never read; None: there is no gap.
    gap: int | None = None
    # Why a block is refused by verification; and why the blocks are not verified well enough yet.
    refused: str | None = None
    unsure: str | None = None
    # Why the feed beside the chain is unreliable; None: it is reliable, or not configured.
    feed: str | None = None
    # Why the next report is held for the operator; None: it is not held.
    held: str | None = None
    # Why senders are paused until the operator resumes them.
    paused: list[str] = field(default_factory=list)
    # The leader while this process is a standby; None: this process leads, or the leader is
    # unknown.
    standby_of: str | None = None
    # What this process waits for before it leads; None: it leads, or is a standby.
    waits_for: str | None = None
    endpoints: list[EndpointView] = field(default_factory=list)
    # The contract's state at the last count; None: unknown in this process.
    contract: ContractState | None = None
    # How long no daemon ran before this one, and why; None: after an orderly restart.
    downtime: str | None = None
    # How often a report is due; None: this process sends no reports.
    heartbeat_seconds: int | None = None
    _heads: Heads | None = None
    _answered_at: float | None = None
    _raised: dict[Condition, str] = field(default_factory=dict)

    def saw(self, heads: Heads) -> None:
        """Note the chain's heads; an unchanged object means that no endpoint answered since."""
        if heads is not self._heads:
            self._heads, self._answered_at = heads, self.liveness.clock()
        self.is_stalled = heads.stalled
        self.newest, self.final = heads.latest.number, heads.final.number
        metrics.BLOCK.labels("head").set(heads.latest.number)
        metrics.BLOCK.labels("final").set(heads.final.number)
        if heads.safe is not None:
            metrics.BLOCK.labels("safe").set(heads.safe.number)
        if self.folded is not None:
            metrics.LAG_BLOCKS.set(max(0, heads.latest.number - self.folded.number))
            metrics.LAG_SECONDS.set(max(0, heads.latest.time - self.folded.time))

    def folded_to(self, block: BlockRef | Cursor) -> None:
        """Note the last folded block."""
        self.folded = block
        metrics.BLOCK.labels("folded").set(block.number)

    def counted(self, figures: OutboxFigures | None) -> None:
        """Note the contract's state, or that it is unknown if no endpoint answered."""
        told = None if figures is None else figures.contract
        self.contract = None
        if told is not None:
            self.contract = ContractState(
                told.round, told.pushed_at, told.paused_until, told.kicks_paused
            )

    @property
    def chain(self) -> ChainView:
        """Return the observed state of the chain, from memory only."""
        head = None if self._heads is None else self._heads.latest
        unknown = "this process has not looked at it" if self.contract is None else None
        return ChainView(head, self.contract, unknown)

    @property
    def lag_blocks(self) -> int | None:
        """The number of blocks between the folded block and the head; None if either is unknown."""
        if self.newest is None or self.folded is None:
            return None
        return max(0, self.newest - self.folded.number)

    def raise_condition(self, condition: Condition, detail: str) -> None:
        """Report a condition until `clear_condition`; a condition has one detail at a time."""
        self._raised[condition] = detail

    def clear_condition(self, condition: Condition) -> None:
        """Clear a reported condition."""
        self._raised.pop(condition, None)

    def health(self) -> HealthReport:
        """Return everything that is wrong, from memory only; callable from any thread."""
        loops = [*self._failing(), *self._silent()]
        if self.standby_of is not None:
            # The leader indexes into the same database.
            return HealthReport.of(loops)
        waits = (
            []
            if self.waits_for is None
            else [HealthFinding(Condition.LEASE_WAIT, f"waits for {self.waits_for}")]
        )
        raised = [HealthFinding(condition, detail) for condition, detail in self._raised.items()]
        return HealthReport.of(
            (
                *(*waits, *self._stopped(), *self._unsure(), *raised, *loops, *self._behind()),
                *report_findings(self.chain, self.heartbeat_seconds),
            )
        )

    def _failing(self) -> list[HealthFinding]:
        return [
            HealthFinding(Condition.STEP_FAILING, f"{name}: {reason}")
            for name, (count, reason) in self.liveness.failing().items()
            if count >= READY_WITHIN_FAILURES
        ]

    def _silent(self) -> list[HealthFinding]:
        return [
            HealthFinding(Condition.LOOP_STUCK, f"{name}: has not turned for too long")
            for name in self.liveness.silent()
        ]

    def _stopped(self) -> list[HealthFinding]:
        """Return what stops index and senders while every job still ticks."""
        found = [] if self.halt is None else [HealthFinding(Condition.HALTED, self.halt)]
        if self.is_in_doubt:
            found.append(
                HealthFinding(
                    Condition.FORK_IN_DOUBT,
                    "one endpoint alone says that our blocks left the chain",
                )
            )
        if self.dispute is not None:
            found.append(
                HealthFinding(
                    Condition.ENDPOINTS_DISAGREE,
                    f"{self.dispute}, and nothing new came from who is believed",
                )
            )
        if self.held is not None:
            found.append(HealthFinding(Condition.HELD, self.held))
        found += [HealthFinding(Condition.PAUSED_SENDER, reason) for reason in self.paused]
        if self.gap is not None:
            found.append(
                HealthFinding(
                    Condition.GAP, f"block {self.gap} was never read: `qos-oracle resync gaps`"
                )
            )
        if self.is_stalled:
            found.append(HealthFinding(Condition.STALLED, "no endpoint shows a new block"))
        if self._answered_at is not None:
            age = self.liveness.clock() - self._answered_at
            if age > READY_WITHIN_SECONDS:
                found.append(
                    HealthFinding(
                        Condition.NO_ENDPOINT, f"no endpoint has shown the head for {age:.0f} s"
                    )
                )
        return found

    def _unsure(self) -> list[HealthFinding]:
        """Return which data is not trusted, or not trusted yet."""
        found = []
        if self.refused is not None:
            found.append(
                HealthFinding(Condition.REFUSED, f"{self.refused}: `qos-oracle resync refusal`")
            )
        if self.unsure is not None:
            found.append(HealthFinding(Condition.UNPROVEN, self.unsure))
        if self.feed is not None:
            found.append(HealthFinding(Condition.FEED_SILENT, self.feed))
        return found

    def _behind(self) -> list[HealthFinding]:
        lag = self.lag_blocks
        if lag is None:
            return [HealthFinding(Condition.BEHIND, "no block has been folded yet")]
        return (
            [HealthFinding(Condition.BEHIND, f"{lag} blocks behind the head")]
            if lag > READY_WITHIN_BLOCKS
            else []
        )


def count_window(done: WindowCommitted) -> None:
    """Add one committed window to the metrics."""
    metrics.LOGS.inc(done.logs)
    for kind, count in done.events.items():
        metrics.EVENTS.labels(kind).inc(count)
    metrics.FOLD_SECONDS.observe(done.fold_seconds)
    metrics.COMMIT_SECONDS.observe(done.commit_seconds)
