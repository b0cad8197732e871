"""The thread-safe selector: with a clock, a lock and records that survive a restart."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from gateway.draw_seeds import DrawEpoch
from gateway.gateway_records import OutcomeCounts, ToldOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckedNode, NodeChecks, ProbeAnswer
from gateway.record_writer import CHECK_PASSED, RecordWriter
from gateway.session_ranking import SessionRanking
from gateway.session_selector import (
    Hooks,
    NodeSelection,
    SelectionRequest,
    SessionSelector,
)
from oracle.domain.ids import Address
from oracle.store.database import Store
from oracle.store.gateway_repositories import StoredCheck
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from oracle.telemetry import gateway_metrics

# The number of epochs that are served after a restart.
_EPOCHS = 1_000


def unix_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 10**6


class SelectionService:
    """The service; `clock` returns unix milliseconds, and its backward steps are ignored."""

    def __init__(
        self,
        store: Store,
        rules: GatewayRules,
        checks: Mapping[str, NodeChecks],
        lose: Callable[[], None],
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        """Restore the stored state; `on_lost` is called when another process has the database."""
        with store.reading() as uow:
            number = uow.gateway.outcomes.next_number()
        self.writer = RecordWriter(store, rules, number, lose)
        self.check_soon: Callable[[], None] = lambda: None
        hooks = Hooks(
            told=self.writer.put, passed=self.writer.put_passed, began=self.writer.put_epoch
        )
        self.rules = rules
        self._selector = SessionSelector(rules, checks, hooks)
        self._clock = clock
        self._newest = 0
        # Serialises the check threads and the server's loop.
        self._lock = threading.Lock()
        self._recall(store)

    @property
    def failure(self) -> str | None:
        """Why the records are not written, or None."""
        return self.writer.failure

    def take(self, outcomes: list[ToldOutcome]) -> OutcomeCounts:
        """Count a batch of outcomes.

        Raises:
            TooManyRecordsError: no outcome was counted.
        """
        with self._lock:
            counts = self._selector.take(outcomes, self._now())
        if any(one.outcome.kind is OutcomeKind.MISCONFIGURED for one in outcomes):
            self.check_soon()
        return counts

    def stored(self) -> "Future[bool]":
        """Return a future: whether all outcomes counted so far are stored."""
        return self.writer.stored()

    def select(self, asked: SelectionRequest) -> NodeSelection:
        """Draw nodes for a request.

        Raises:
            NoCandidatePassesError: as `SessionSelector.get_ranking`.
        """
        with self._lock:
            return self._selector.select(asked, self._now())

    def ranking(self, asked: SelectionRequest) -> tuple[SessionRanking, bytes]:
        """Return a ranking, and a seed with which a client can draw from it.

        Raises:
            NoCandidatePassesError: as `SessionSelector.get_ranking`.
        """
        with self._lock:
            now = self._now()
            made = self._selector.ranking(asked, now)
            epoch, counter = self._selector.seeds.counters(1, now)
            return made, epoch.value(asked.session, counter)

    def epochs(self) -> tuple[list[DrawEpoch], list[DrawEpoch]]:
        """Return the epochs whose seeds may be revealed, and the others."""
        with self._lock:
            return self._selector.seeds.shown(self._now())

    def checks(self) -> dict[str, tuple[NodeChecks, dict[str, CheckedNode]]]:
        """Return the check results of each node, by chain."""
        with self._lock:
            found = self._selector.checks.items()
            return {chain: (checks, dict(checks.nodes)) for chain, checks in found}

    def node(self, node: str) -> list[tuple[str, NodeStats]]:
        """Return the statistics by which one node is ranked, by chain."""
        with self._lock:
            return self._selector.records.of_node(node, self._now())

    def checked(self, chain: str, answers: Mapping[str, ProbeAnswer]) -> None:
        """Apply one round of checks."""
        with self._lock:
            now, checks = self._now(), self._selector.checks[chain]
            passed = checks.answered(answers, now)
            self._selector.passed_checks(chain, passed, now)
            states = [_stored(chain, node, checks.nodes[node]) for node in answers]
        self.writer.put_checks(states)
        for label, many in (("passed", len(passed)), ("failed", len(answers) - len(passed))):
            gateway_metrics.NODES.labels(chain, label).set(many)

    def staked(self, members: Iterable[str]) -> None:
        """Set the staked nodes, on every chain."""
        known = frozenset(members)
        with self._lock:
            for checks in self._selector.checks.values():
                checks.members = known

    def _now(self) -> int:
        self._newest = max(self._newest, self._clock())
        return self._newest

    def _recall(self, store: Store) -> None:
        """Restore the state from before the restart."""
        records = self._selector.records
        with store.reading() as uow:
            for one in uow.gateway.outcomes.all():
                if one.kind == CHECK_PASSED:
                    records.passed_check(one.chain, one.node, one.t_ms)
                    continue
                kind = OutcomeKind(one.kind)
                outcome = RelayOutcome(
                    Address(one.node), one.chain, one.t_ms, kind, one.latency_ms or 0.0
                )
                records.put(ToldOutcome(outcome, one.session))
                if one.outcome_id is not None:
                    records.remember(one.outcome_id, one.taken_ms + self.rules.id_ms)
            stored = uow.gateway.epochs.newest(_EPOCHS)
            states = uow.gateway.checks.all()
        self._selector.seeds.recall([DrawEpoch(*one) for one in stored])
        for state in states:
            checks = self._selector.checks.get(state.chain)
            if checks is not None and state.node in checks.nodes:
                checks.nodes[state.node] = _recalled(state)


def _stored(chain: str, node: str, state: CheckedNode) -> StoredCheck:
    return StoredCheck(
        chain, node, state.at, state.chain_id, state.height, state.best, state.chain_until,
        state.sync_until, state.fault,
    )  # fmt: skip


def _recalled(stored: StoredCheck) -> CheckedNode:
    return CheckedNode(
        at=stored.at_ms,
        chain_id=stored.chain_id,
        height=stored.height,
        best=stored.best,
        chain_until=stored.chain_until_ms,
        sync_until=stored.sync_until_ms,
        fault=stored.fault,
    )
