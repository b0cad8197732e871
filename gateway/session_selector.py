"""Selects nodes for sessions as a plain class: counts outcomes, draws a node for each relay.

Adds to Pocket's selector (`oracle.systems.pocket.node_selector`) what a gateway needs: repeatable
draws, checks, ended sessions, repeated outcomes, and cached rankings.

The class reads no clock, uses no database and sends no request; the service around it does. One
thread at a time may use it (docs/how-to/run-a-gateway.md#use-the-selector-in-your-own-process).
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.draw_seeds import DrawEpoch, DrawSeeds
from gateway.gateway_records import GatewayRecords, OutcomeCounts, ReportedOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import UNSTAKED, NodeChecks
from gateway.session_ranking import SessionRanking, build_session_ranking


class NoCandidatePassesError(Exception):
    """No candidate passes the checks of its chain, and the settings then draw from none."""


class SelectionRequest(NamedTuple):
    """The request for a relay: up to `max_nodes` of the candidates, none of `exclude`."""

    chain: str
    session: str
    candidates: tuple[str, ...]
    max_nodes: int = 1
    exclude: tuple[str, ...] = ()


class NodeSelection(NamedTuple):
    """Distinct nodes in the order drawn; fewer than requested if there are no more.

    `values` has the value of each draw, derived from `epoch` and the counters from `counter` on.
    """

    nodes: list[str]
    ranking: SessionRanking
    values: list[bytes]
    epoch: DrawEpoch
    counter: int


@dataclass(slots=True)
class SelectorHooks:
    """Callbacks for what must be stored: outcomes, passed checks, an epoch before it begins."""

    on_outcomes: Callable[[Sequence[ReportedOutcome], int], None] = lambda _outcomes, _now: None
    on_passed_checks: Callable[[str, Sequence[str], int], None] = lambda _chain, _nodes, _now: None
    on_epoch: Callable[[DrawEpoch], None] = lambda _epoch: None
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


class SessionSelector:
    """The selector; times are milliseconds since 1970, and `now` never goes back."""

    def __init__(
        self,
        rules: GatewayRules | None = None,
        checks: Mapping[str, NodeChecks] | None = None,
        hooks: SelectorHooks | None = None,
    ) -> None:
        """Set the rules; `checks` is by chain, and without checks all nodes are candidates."""
        self.rules = rules or GatewayRules()
        self.checks = dict(checks or {})
        self.records = GatewayRecords(self.rules)
        self._hooks = hooks or SelectorHooks()
        self.seeds = DrawSeeds(self.rules.epoch_ms, self._hooks.random_bytes, self._hooks.on_epoch)
        self._rankings: dict[tuple[str, str, tuple[str, ...]], SessionRanking] = {}

    def add_outcomes(self, outcomes: Iterable[ReportedOutcome], now: int) -> OutcomeCounts:
        """Count outcomes of relays.

        Raises:
            TooManyRecordsError: no outcome was counted.
        """
        counts, stored = self.records.add_outcomes(outcomes, now)
        if stored:
            self._hooks.on_outcomes(stored, now)
        return counts

    def note_passed_checks(self, chain: str, nodes: Iterable[str], now: int) -> None:
        """Mark nodes as healthy again, because a check found them so."""
        # The other nodes have no failures to reset.
        failing_nodes = [node for node in nodes if self.records.is_failing(chain, node, now)]
        for node in failing_nodes:
            self.records.note_passed_check(chain, node, now)
        if failing_nodes:
            self._hooks.on_passed_checks(chain, failing_nodes, now)

    def get_ranking(self, request: SelectionRequest, now: int) -> SessionRanking:
        """Return the candidates with their tickets, at most `ranking_ms` old.

        Raises:
            NoCandidatePassesError: no candidate passes, and the rules draw from none then.
        """
        key = request[:3]
        cached_ranking = self._rankings.get(key)
        if cached_ranking is not None and 0 <= now - cached_ranking.as_of < self.rules.ranking_ms:
            return cached_ranking
        new_ranking = self._rank_candidates(request, now)
        if self.rules.ranking_ms:
            # The oldest ranking is dropped; a later request makes it again.
            self._rankings.pop(key, None)
            self._rankings[key] = new_ranking
            if len(self._rankings) > self.rules.max_rankings:
                del self._rankings[next(iter(self._rankings))]
        return new_ranking

    def select_nodes(self, request: SelectionRequest, now: int) -> NodeSelection:
        """Draw nodes for a request.

        Raises:
            NoCandidatePassesError: as `get_ranking`.
        """
        ranking = self.get_ranking(request, now)
        if request.exclude:
            ranking = ranking.exclude_nodes(request.exclude)
        epoch, counter = self.seeds.reserve_counters(request.max_nodes, now)
        if not ranking.chances:
            return NodeSelection([], ranking, [], epoch, counter)
        value = epoch.compute_draw_value(request.session, counter)
        nodes, values = [ranking.find_ticket_holder(value)], [value]
        while len(nodes) < request.max_nodes:
            remaining = ranking.exclude_nodes({*request.exclude, *nodes})
            if not remaining.chances:
                break
            values.append(epoch.compute_draw_value(request.session, counter + len(nodes)))
            nodes.append(remaining.find_ticket_holder(values[-1]))
        return NodeSelection(nodes, ranking, values, epoch, counter)

    def _rank_candidates(self, request: SelectionRequest, now: int) -> SessionRanking:
        chain, session, candidates = request[:3]
        records, checks = self.records, self.checks.get(chain)
        left_out = {
            node: "session_ended"
            for node in candidates
            if records.has_session_ended(chain, session, node, now)
        }
        remaining = [node for node in candidates if node not in left_out]
        reason_by_node = {} if checks is None else checks.find_excluded(remaining, now)
        is_all_failing = bool(remaining) and len(reason_by_node) == len(set(remaining))
        if is_all_failing and checks is not None:
            # Nodes without stake are never drawn.
            reason_by_node = {
                node: reason for node, reason in reason_by_node.items() if reason in UNSTAKED
            }
            if not checks.rules.uses_all_if_none_passes or len(reason_by_node) == len(
                set(remaining)
            ):
                raise NoCandidatePassesError
        session_ranking = build_session_ranking(
            records.rank_candidates(chain, candidates, left_out | reason_by_node, now), now
        )
        return session_ranking.mark_degraded() if is_all_failing else session_ranking
