"""Keeps a gateway's records: outcomes by node, known ids and ended sessions.

The limits in `GatewayRules` bound the memory. The module reads no clock and no database.
"""

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from gateway.gateway_rules import GatewayRules
from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.ranking import NodeStats, Ranking
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome

# After such an outcome, the session has ended for the node
# (docs/explanation/gateway.md#outcomes-and-blame).
SESSION_ENDING_KINDS = frozenset({OutcomeKind.SESSION_INVALID, OutcomeKind.EXHAUSTED})
# Minimum time between two removals of expired records.
_SWEEP_MS = 10_000


class ReportedOutcome(NamedTuple):
    """A relay outcome as reported by a gateway.

    Its time is in milliseconds since 1970. An outcome with an `id` counts once, however often it
    is reported. An outcome without an `id` counts each time it is reported.
    """

    outcome: RelayOutcome
    session: str = ""
    id: str | None = None


class OutcomeCounts(NamedTuple):
    """The numbers of outcomes in a batch that were counted, repeated or too late."""

    taken: int
    repeated: int
    late: int


class TooManyRecordsError(Exception):
    """A batch exceeds the limits of the records.

    None of its outcomes was counted.
    """


class GatewayRecords:
    """The outcomes that count, the known ids and the ended sessions.

    Times are milliseconds since 1970.
    """

    def __init__(self, rules: GatewayRules) -> None:
        self._rules = rules
        self._selector = NodeSelector(rules.params)
        # Time of each node's last outcome.
        self._last_seen_by_node: dict[Address, int] = {}
        # (Expiry, size) of each batch of outcomes, and the sum of these sizes.
        self._batches: deque[tuple[int, int]] = deque()
        self._live_outcomes = 0
        # Expiry of each known id, earliest first.
        self._expiry_by_id: dict[str, int] = {}
        # Time until which a node is excluded from a session, by (chain, session, node).
        self._session_exclusions: dict[tuple[str, str, str], int] = {}
        self._pruned_at = 0

    def record_outcomes(
        self, outcomes: Iterable[ReportedOutcome], now: int
    ) -> tuple[OutcomeCounts, list[ReportedOutcome]]:
        """Record a batch of outcomes, and return the counts and the outcomes to store.

        An outcome with a time after `now` is counted with the time `now`.

        Raises:
            TooManyRecordsError: no outcome was counted.
        """
        outcome_batch = outcomes if isinstance(outcomes, list) else list(outcomes)
        self._check_capacity(outcome_batch, now)
        window_start = now - self._rules.window_ms
        count_outcome = self.record_accepted_outcome
        late_count = repeated_count = 0
        accepted_outcomes: list[ReportedOutcome] = []
        for reported_outcome in outcome_batch:
            time_ms = reported_outcome.outcome.t_ms
            if time_ms <= window_start:
                late_count += 1
            elif reported_outcome.id is not None and self._test_and_set_outcome_id(
                reported_outcome.id, now
            ):
                repeated_count += 1
            else:
                dated_outcome = (
                    reported_outcome if time_ms <= now else _with_time(reported_outcome, now)
                )
                count_outcome(dated_outcome)
                accepted_outcomes.append(dated_outcome)
        self._batches.append((now + self._rules.window_ms, len(accepted_outcomes)))
        self._live_outcomes += len(accepted_outcomes)
        return OutcomeCounts(len(accepted_outcomes), repeated_count, late_count), accepted_outcomes

    def record_accepted_outcome(self, reported_outcome: ReportedOutcome) -> None:
        """Record one accepted outcome, which is new or restored after a restart."""
        outcome = reported_outcome[0]
        self._last_seen_by_node[outcome.node] = outcome.t_ms
        self._selector.record_outcome(outcome)
        if outcome.kind in SESSION_ENDING_KINDS:
            session_key = outcome.chain, reported_outcome.session, outcome.node
            self._session_exclusions[session_key] = outcome.t_ms + self._rules.session_exclusion_ms

    def record_passed_check(self, chain: str, node: str, time_ms: int) -> None:
        """Mark a node as healthy after a passed check."""
        if chain in self._selector.chains:
            self._selector.record_passed_health_check(Address(node), chain, time_ms)

    def add_known_id(self, outcome_id: str, expiry_ms: int) -> None:
        """Record a known outcome id.

        Outcomes with this id count as repeated until `expiry_ms`.
        """
        self._expiry_by_id[outcome_id] = expiry_ms

    def is_failing(self, chain: str, node: str, now: int) -> bool:
        """Return whether failures exclude the node.

        A passed check would end the exclusion.
        """
        chain_records = self._selector.chains.get(chain)
        return (
            chain_records is not None and chain_records.compute_stats(Address(node), now).failing
        )

    def get_node_stats(self, node: str, now: int) -> list[tuple[str, NodeStats]]:
        """Return the statistics of a node, grouped by chain."""
        stats_by_chain = [
            (chain, chain_records.compute_stats(Address(node), now))
            for chain, chain_records in self._selector.chains.items()
        ]
        return sorted(
            (chain_stats for chain_stats in stats_by_chain if chain_stats[1].attempts),
            key=itemgetter(0),
        )

    def has_session_ended(self, chain: str, session: str, node: str, now: int) -> bool:
        """Return whether a session has ended for a node."""
        return now < self._session_exclusions.get((chain, session, node), 0)

    def rank_candidates(
        self, chain: str, candidates: Iterable[str], reason_by_node: dict[str, str], now: int
    ) -> Ranking:
        """Rank the candidates that are not excluded, and update their failure flags.

        Excluded candidates have an exclusion reason.
        """
        candidate_addresses = [Address(node) for node in candidates]
        reasons = {Address(node): reason for node, reason in reason_by_node.items()}
        ranking = self._selector.rank_nodes(chain, candidate_addresses, now, reasons)
        if chain in self._selector.chains:
            self._selector.update_failure_flags(
                chain, frozenset(candidate_addresses) - reasons.keys(), now
            )
        return ranking

    def _test_and_set_outcome_id(self, outcome_id: str, now: int) -> bool:
        if now < self._expiry_by_id.get(outcome_id, 0):
            return True
        self._expiry_by_id.pop(outcome_id, None)
        self._expiry_by_id[outcome_id] = now + self._rules.id_ms
        return False

    def _check_capacity(self, batch: list[ReportedOutcome], now: int) -> None:
        rules = self._rules
        batch_size = len(batch)
        if now >= self._pruned_at + _SWEEP_MS:
            self._remove_expired_records(now)
        node_count = len(self._last_seen_by_node) + batch_size
        if node_count > rules.max_nodes:
            node_count = len(
                self._last_seen_by_node.keys()
                | {reported_outcome.outcome.node for reported_outcome in batch}
            )
        chain_count = len(self._selector.chains)
        if chain_count + batch_size > rules.max_chains:
            chain_count = len(
                self._selector.chains.keys()
                | {reported_outcome.outcome.chain for reported_outcome in batch}
            )
        if (
            node_count > rules.max_nodes
            or chain_count > rules.max_chains
            or self._live_outcomes + batch_size > rules.max_outcomes
            or len(self._expiry_by_id) + batch_size > rules.max_ids
            or len(self._session_exclusions) + batch_size > rules.max_nodes
        ):
            raise TooManyRecordsError

    def _remove_expired_records(self, now: int) -> None:
        self._pruned_at = now
        while self._batches and self._batches[0][0] <= now:
            self._live_outcomes -= self._batches.popleft()[1]
        for outcome_id, expiry_ms in list(self._expiry_by_id.items()):
            if now < expiry_ms:
                break
            del self._expiry_by_id[outcome_id]
        self._session_exclusions = {
            key: expiry_ms
            for key, expiry_ms in self._session_exclusions.items()
            if now < expiry_ms
        }
        oldest_kept_ms = now - self._rules.retention_ms
        for node in [
            node
            for node, last_seen in self._last_seen_by_node.items()
            if last_seen <= oldest_kept_ms
        ]:
            del self._last_seen_by_node[node]
            self._selector.reset_node(node)


def _with_time(reported_outcome: ReportedOutcome, now: int) -> ReportedOutcome:
    return reported_outcome._replace(outcome=reported_outcome.outcome._replace(t_ms=now))
