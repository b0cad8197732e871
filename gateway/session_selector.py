"""Counts relay outcomes, and draws nodes for the relays of a session.

The class extends Pocket's selector (`oracle.systems.pocket.node_selector`) by verifiable draws,
node checks, ended sessions, detection of repeated outcomes, and cached rankings. A ranking has the
tickets of each node at one time (docs/explanation/gateway.md#verifiable-draws).

The class reads no clock, uses no database and sends no requests; `SelectionService` adds the clock
and the database. Only one thread at a time may use an instance
(docs/how-to/run-a-gateway.md#use-the-selector-in-your-own-process).
"""

import secrets
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

from gateway.draw_seeds import DrawEpoch, DrawSeeds
from gateway.gateway_records import GatewayRecords, OutcomeCounts, ReportedOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import UNSTAKED, NodeChecks
from oracle.systems.pocket.ranking import Ranking

_BITS = 64


@dataclass(frozen=True, slots=True)
class SessionRanking:
    """The nodes to draw from, ordered by their tickets.

    `as_of` is in milliseconds since 1970. `chances` lists the nodes with tickets; if no node has
    any, it lists all nodes with one ticket each. `degraded` is set in that case, and if no node
    passes the checks. `cumulative_tickets` has the running total of the tickets.
    """

    as_of: int
    ranking: Ranking
    chances: tuple[tuple[str, int], ...]
    degraded: bool
    cumulative_tickets: tuple[int, ...]

    @property
    def total_tickets(self) -> int:
        """The total number of tickets."""
        return self.cumulative_tickets[-1] if self.cumulative_tickets else 0

    @property
    def id(self) -> str:
        """The SHA-256 of the ranking's content.

        The content is a line with `as_of`, and a line `<tickets> <node>` for each node.
        """
        id_lines = [str(self.as_of), *(f"{tickets} {node}" for node, tickets in self.chances)]
        return sha256("\n".join(id_lines).encode()).hexdigest()

    def as_degraded(self) -> "SessionRanking":
        """Return the ranking marked as degraded, because no node passed the checks."""
        return replace(self, degraded=True)

    def without_nodes(self, excluded_nodes: Collection[str]) -> "SessionRanking":
        """Return the ranking without some nodes.

        The other nodes keep their tickets. If none of the other nodes has tickets, each of them
        gets one, because drawing a node that may fail is better than drawing none.
        """
        remaining_chances = tuple(pair for pair in self.chances if pair[0] not in excluded_nodes)
        if remaining_chances:
            tickets = _accumulate_tickets(remaining_chances)
            return replace(self, chances=remaining_chances, cumulative_tickets=tickets)
        remaining_chances = tuple(
            (row.node, 1) for row in self.ranking.rows if row.node not in excluded_nodes
        )
        tickets = _accumulate_tickets(remaining_chances)
        return replace(self, chances=remaining_chances, cumulative_tickets=tickets, degraded=True)

    def get_ticket_holder(self, value: bytes) -> str:
        """Return the node that holds the ticket drawn by `value`.

        The ranking must not be empty. The ticket number is floor(total * first 8 bytes of `value`
        / 2^64). `oracle.systems.pocket.ranking` returns the same node, but it computes with
        fractions and goes through all rows.
        """
        ticket = int.from_bytes(value[:8], "big") * self.total_tickets >> _BITS
        return self.chances[bisect_right(self.cumulative_tickets, ticket)][0]


def build_session_ranking(ranking: Ranking, as_of: int) -> SessionRanking:
    """Build a ranking together with its nodes' tickets."""
    if ranking.degraded:
        chances: tuple[tuple[str, int], ...] = tuple((node, 1) for node in ranking.input_order)
    else:
        chances = tuple((row.node, row.tickets) for row in ranking.rows if row.tickets)
    return SessionRanking(as_of, ranking, chances, ranking.degraded, _accumulate_tickets(chances))


def _accumulate_tickets(ticket_counts: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    return tuple(accumulate(tickets for _, tickets in ticket_counts))


class NoCandidatePassesError(Exception):
    """No candidate passes its chain's checks, and the settings forbid a degraded draw."""


class SelectionRequest(NamedTuple):
    """A request to draw nodes for a relay.

    Up to `max_nodes` of `candidates` are drawn, except `exclude`.
    """

    chain: str
    session: str
    candidates: tuple[str, ...]
    max_nodes: int = 1
    exclude: tuple[str, ...] = ()


class NodeSelection(NamedTuple):
    """The drawn nodes in order, without repetition.

    They are fewer than requested if candidates run out. `values` has one value per draw, derived
    from the seed of `epoch` and from consecutive counters that start at `counter`.
    """

    nodes: list[str]
    ranking: SessionRanking
    values: list[bytes]
    epoch: DrawEpoch
    counter: int


@dataclass(slots=True)
class SelectorHooks:
    """Callbacks that receive the records to store, and the source of random bytes."""

    on_outcomes: Callable[[Sequence[ReportedOutcome], int], None] = lambda _outcomes, _now: None
    on_passed_checks: Callable[[str, Sequence[str], int], None] = lambda _chain, _nodes, _now: None
    on_epoch: Callable[[DrawEpoch], None] = lambda _epoch: None
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


class SessionSelector:
    """Ranks and draws nodes.

    Times are milliseconds since 1970, and `now` must never decrease.
    """

    def __init__(
        self,
        rules: GatewayRules | None = None,
        checks: Mapping[str, NodeChecks] | None = None,
        hooks: SelectorHooks | None = None,
    ) -> None:
        """Create a selector.

        On a chain that is not in `checks`, every node is a candidate.
        """
        self.rules = rules or GatewayRules()
        self.checks = dict(checks or {})
        self.records = GatewayRecords(self.rules)
        self._hooks = hooks or SelectorHooks()
        self.seeds = DrawSeeds(self.rules.epoch_ms, self._hooks.random_bytes, self._hooks.on_epoch)
        self._rankings: dict[tuple[str, str, tuple[str, ...]], SessionRanking] = {}

    def record_outcomes(self, outcomes: Iterable[ReportedOutcome], now: int) -> OutcomeCounts:
        """Record relay outcomes, and return how many were counted, repeated or late.

        Raises:
            TooManyRecordsError: no outcome was counted.
        """
        outcome_counts, stored_outcomes = self.records.record_outcomes(outcomes, now)
        if stored_outcomes:
            self._hooks.on_outcomes(stored_outcomes, now)
        return outcome_counts

    def record_passed_checks(self, chain: str, nodes: Iterable[str], now: int) -> None:
        """Mark nodes as healthy again after a passed check."""
        # Only these nodes have failures that a passed check could reset.
        failing_nodes = [node for node in nodes if self.records.is_failing(chain, node, now)]
        for node in failing_nodes:
            self.records.record_passed_check(chain, node, now)
        if failing_nodes:
            self._hooks.on_passed_checks(chain, failing_nodes, now)

    def get_ranking(self, request: SelectionRequest, now: int) -> SessionRanking:
        """Return the candidates with their tickets.

        A ranking is reused for `ranking_ms`.

        Raises:
            NoCandidatePassesError: no candidate passes its checks, and the rules forbid a degraded
                draw.
        """
        cache_key = request[:3]
        cached_ranking = self._rankings.get(cache_key)
        if cached_ranking is not None and 0 <= now - cached_ranking.as_of < self.rules.ranking_ms:
            return cached_ranking
        new_ranking = self._rank_candidates(request, now)
        if self.rules.ranking_ms:
            # Drop the oldest ranking if there are too many. A later request can compute it again.
            self._rankings.pop(cache_key, None)
            self._rankings[cache_key] = new_ranking
            if len(self._rankings) > self.rules.max_rankings:
                del self._rankings[next(iter(self._rankings))]
        return new_ranking

    def select_nodes(self, request: SelectionRequest, now: int) -> NodeSelection:
        """Draw nodes for a request.

        Raises:
            NoCandidatePassesError: no candidate passes its checks, and the rules forbid a
                degraded draw.
        """
        ranking = self.get_ranking(request, now)
        if request.exclude:
            ranking = ranking.without_nodes(request.exclude)
        epoch, counter = self.seeds.reserve_counters(request.max_nodes, now)
        if not ranking.chances:
            return NodeSelection([], ranking, [], epoch, counter)
        value = epoch.compute_draw_value(request.session, counter)
        drawn_nodes = [ranking.get_ticket_holder(value)]
        drawn_values = [value]
        while len(drawn_nodes) < request.max_nodes:
            remaining_ranking = ranking.without_nodes({*request.exclude, *drawn_nodes})
            if not remaining_ranking.chances:
                break
            drawn_values.append(
                epoch.compute_draw_value(request.session, counter + len(drawn_nodes))
            )
            drawn_nodes.append(remaining_ranking.get_ticket_holder(drawn_values[-1]))
        return NodeSelection(drawn_nodes, ranking, drawn_values, epoch, counter)

    def _rank_candidates(self, request: SelectionRequest, now: int) -> SessionRanking:
        chain, session, candidates = request[:3]
        records = self.records
        checks = self.checks.get(chain)
        reason_by_excluded_node = {
            node: "session_ended"
            for node in candidates
            if records.has_session_ended(chain, session, node, now)
        }
        remaining_candidates = [node for node in candidates if node not in reason_by_excluded_node]
        reason_by_node = (
            {} if checks is None else checks.find_exclusion_reasons(remaining_candidates, now)
        )
        is_all_failing = bool(remaining_candidates) and len(reason_by_node) == len(
            set(remaining_candidates)
        )
        if is_all_failing and checks is not None:
            # A degraded draw ignores the checks, but it never draws a node without a stake.
            reason_by_node = {
                node: reason for node, reason in reason_by_node.items() if reason in UNSTAKED
            }
            if not checks.rules.allows_degraded_draw or len(reason_by_node) == len(
                set(remaining_candidates)
            ):
                raise NoCandidatePassesError
        session_ranking = build_session_ranking(
            records.rank_candidates(
                chain, candidates, reason_by_excluded_node | reason_by_node, now
            ),
            now,
        )
        return session_ranking.as_degraded() if is_all_failing else session_ranking
