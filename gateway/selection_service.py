"""A thread-safe `SessionSelector` with a clock.

Its records survive a restart.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from gateway import gateway_metrics
from gateway.draw_seeds import DrawEpoch
from gateway.gateway_records import OutcomeCounts, ReportedOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckedNode, NodeChecks, ProbeAnswer
from gateway.record_writer import CHECK_PASSED, RecordWriter
from gateway.session_selector import (
    NodeSelection,
    SelectionRequest,
    SelectorHooks,
    SessionRanking,
    SessionSelector,
)
from oracle.domain.ids import Address
from oracle.store.database import Store
from oracle.store.gateway_repositories import StoredCheck
from oracle.systems.pocket.ranking import NodeStats
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome

# Number of past epochs that are still served after a restart.
_MAX_RESTORED_EPOCHS = 1_000


def unix_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 10**6


class SelectionService:
    """The selection service of a gateway.

    `clock` returns Unix milliseconds, and backward steps are ignored.
    """

    def __init__(
        self,
        store: Store,
        rules: GatewayRules,
        checks: Mapping[str, NodeChecks],
        on_lost: Callable[[], None],
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        """Restore the stored state.

        `on_lost` is called when records can no longer be written.
        """
        with store.read_transaction() as uow:
            next_number = uow.gateway.outcomes.get_next_number()
        self.writer = RecordWriter(store, rules, next_number, on_lost)
        self.request_checks: Callable[[], None] = lambda: None
        hooks = SelectorHooks(
            on_outcomes=self.writer.enqueue_outcomes,
            on_passed_checks=self.writer.enqueue_passed_checks,
            on_epoch=self.writer.enqueue_epoch,
        )
        self.rules = rules
        self._selector = SessionSelector(rules, checks, hooks)
        self._clock = clock
        self._latest_ms = 0
        # The check threads and the server's loop must not use the selector at the same time.
        self._lock = threading.Lock()
        self._restore_state(store)

    @property
    def write_failure(self) -> str | None:
        """The reason why records cannot be written, or None."""
        return self.writer.failure

    def record_outcomes(self, outcomes: list[ReportedOutcome]) -> OutcomeCounts:
        """Record outcomes, and request a round of checks if a node is misconfigured.

        The outcomes are a batch.

        Raises:
            TooManyRecordsError: no outcome was counted.
        """
        with self._lock:
            outcome_counts = self._selector.record_outcomes(outcomes, self._read_clock())
        if any(
            reported_outcome.outcome.kind is OutcomeKind.MISCONFIGURED
            for reported_outcome in outcomes
        ):
            self.request_checks()
        return outcome_counts

    def create_stored_future(self) -> "Future[bool]":
        """Return a future that becomes True once all counted outcomes are stored.

        These are the outcomes counted so far.
        """
        return self.writer.create_stored_future()

    def select_nodes(self, request: SelectionRequest) -> NodeSelection:
        """Draw nodes for a request.

        Raises:
            NoCandidatePassesError: no candidate passes its checks, and the rules forbid a
                degraded draw.
        """
        with self._lock:
            return self._selector.select_nodes(request, self._read_clock())

    def get_ranking_and_seed(self, request: SelectionRequest) -> tuple[SessionRanking, bytes]:
        """Return a ranking, and a seed with which a client can draw nodes from it.

        Raises:
            NoCandidatePassesError: no candidate passes its checks, and the rules forbid a
                degraded draw.
        """
        with self._lock:
            now = self._read_clock()
            session_ranking = self._selector.get_ranking(request, now)
            epoch, counter = self._selector.seeds.reserve_counters(1, now)
            return session_ranking, epoch.compute_draw_value(request.session, counter)

    def list_ended_and_open_epochs(self) -> tuple[list[DrawEpoch], list[DrawEpoch]]:
        """Return the ended epochs and the other epochs, as two lists.

        The seeds of ended epochs may be revealed.
        """
        with self._lock:
            return self._selector.seeds.list_ended_and_open_epochs(self._read_clock())

    def list_checks(self) -> dict[str, tuple[NodeChecks, dict[str, CheckedNode]]]:
        """Return the check results of each node, grouped by chain."""
        with self._lock:
            checks_by_chain = self._selector.checks.items()
            return {chain: (checks, dict(checks.nodes)) for chain, checks in checks_by_chain}

    def get_node_stats(self, node: str) -> list[tuple[str, NodeStats]]:
        """Return the statistics that determine a node's rank, grouped by chain."""
        with self._lock:
            return self._selector.records.get_node_stats(node, self._read_clock())

    def apply_probe_answers(self, chain: str, answers: Mapping[str, ProbeAnswer]) -> None:
        """Apply and store the probe answers of one round of checks."""
        with self._lock:
            now = self._read_clock()
            checks = self._selector.checks[chain]
            passed_nodes = checks.apply_probe_answers(answers, now)
            self._selector.record_passed_checks(chain, passed_nodes, now)
            stored_checks = [
                _build_stored_check(chain, node, checks.nodes[node]) for node in answers
            ]
        self.writer.enqueue_check_states(stored_checks)
        for label, node_count in (
            ("passed", len(passed_nodes)),
            ("failed", len(answers) - len(passed_nodes)),
        ):
            gateway_metrics.NODES.labels(chain, label).set(node_count)

    def set_staked_nodes(self, member_addresses: Iterable[str]) -> None:
        """Set the nodes that are staked, for every chain."""
        staked_nodes = frozenset(member_addresses)
        with self._lock:
            for checks in self._selector.checks.values():
                checks.staked_nodes = staked_nodes

    def _read_clock(self) -> int:
        self._latest_ms = max(self._latest_ms, self._clock())
        return self._latest_ms

    def _restore_state(self, store: Store) -> None:
        """Load outcomes, ids, epochs and check results from the database."""
        records = self._selector.records
        with store.read_transaction() as uow:
            for stored_outcome in uow.gateway.outcomes.iterate_all():
                if stored_outcome.kind == CHECK_PASSED:
                    records.record_passed_check(
                        stored_outcome.chain, stored_outcome.node, stored_outcome.ended_ms
                    )
                    continue
                kind = OutcomeKind(stored_outcome.kind)
                outcome = RelayOutcome(
                    Address(stored_outcome.node),
                    stored_outcome.chain,
                    stored_outcome.ended_ms,
                    kind,
                    stored_outcome.latency_ms or 0.0,
                )
                records.record_accepted_outcome(ReportedOutcome(outcome, stored_outcome.session))
                if stored_outcome.outcome_id is not None:
                    records.add_known_id(
                        stored_outcome.outcome_id, stored_outcome.received_ms + self.rules.id_ms
                    )
            stored_epochs = uow.gateway.epochs.list_newest(_MAX_RESTORED_EPOCHS)
            stored_checks = uow.gateway.checks.list_all()
        self._selector.seeds.restore_past_epochs(
            [DrawEpoch(*stored_epoch) for stored_epoch in stored_epochs]
        )
        for stored_check in stored_checks:
            checks = self._selector.checks.get(stored_check.chain)
            if checks is not None and stored_check.node in checks.nodes:
                checks.nodes[stored_check.node] = _build_checked_node(stored_check)


def _build_stored_check(chain: str, node: str, state: CheckedNode) -> StoredCheck:
    return StoredCheck(
        chain, node, state.at, state.chain_id, state.height, state.best, state.chain_until,
        state.sync_until, state.fault,
    )  # fmt: skip


def _build_checked_node(stored_check: StoredCheck) -> CheckedNode:
    return CheckedNode(
        at=stored_check.checked_ms,
        chain_id=stored_check.chain_id,
        height=stored_check.height,
        best=stored_check.best_height,
        chain_until=stored_check.chain_until_ms,
        sync_until=stored_check.sync_until_ms,
        fault=stored_check.fault,
    )
