"""Selects nodes for sessions as a plain class: counts outcomes, draws a node for each relay.

Adds to Pocket's selector (`oracle.systems.pocket.node_selector`) what a gateway needs: repeatable
draws, checks, ended sessions, repeated outcomes, and cached rankings.

The class reads no clock, uses no database and sends no request; the service around it does. One
thread at a time may use it (docs/how-to/run-a-gateway.md#in-your-own-process).
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.draw_seeds import DrawEpoch, DrawSeeds
from gateway.gateway_records import GatewayRecords, OutcomeCounts, ToldOutcome
from gateway.gateway_rules import GatewayRules
from gateway.node_checks import UNSTAKED, NodeChecks
from gateway.session_ranking import SessionRanking, drawn_from


class NobodyPassesError(Exception):
    """No candidate passes the checks of its chain, and the settings then draw from none."""


class SelectionRequest(NamedTuple):
    """The request for a relay: up to `max_nodes` of the candidates, none of `exclude`."""

    chain: str
    session: str
    candidates: tuple[str, ...]
    most: int = 1
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
class Hooks:
    """Callbacks for what must be stored: outcomes, passed checks, an epoch before it begins."""

    told: Callable[[Sequence[ToldOutcome], int], None] = lambda _outcomes, _now: None
    passed: Callable[[str, Sequence[str], int], None] = lambda _chain, _nodes, _now: None
    began: Callable[[DrawEpoch], None] = lambda _epoch: None
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


class SessionSelector:
    """The selector; times are milliseconds since 1970, and `now` never goes back."""

    def __init__(
        self,
        rules: GatewayRules | None = None,
        checks: Mapping[str, NodeChecks] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """Set the rules; `checks` is by chain, and without checks all nodes are candidates."""
        self.rules = rules or GatewayRules()
        self.checks = dict(checks or {})
        self.records = GatewayRecords(self.rules)
        self._hooks = hooks or Hooks()
        self.seeds = DrawSeeds(self.rules.epoch_ms, self._hooks.random_bytes, self._hooks.began)
        self._rankings: dict[tuple[str, str, tuple[str, ...]], SessionRanking] = {}

    def take(self, outcomes: Iterable[ToldOutcome], now: int) -> OutcomeCounts:
        """Count outcomes of relays.

        Raises:
            TooManyRecordsError: no outcome was counted.
        """
        counts, stored = self.records.take(outcomes, now)
        if stored:
            self._hooks.told(stored, now)
        return counts

    def passed_checks(self, chain: str, nodes: Iterable[str], now: int) -> None:
        """Mark nodes as healthy again, because a check found them so."""
        # The other nodes have no failures to reset.
        out = [node for node in nodes if self.records.is_out(chain, node, now)]
        for node in out:
            self.records.passed_check(chain, node, now)
        if out:
            self._hooks.passed(chain, out, now)

    def ranking(self, asked: SelectionRequest, now: int) -> SessionRanking:
        """Return the candidates with their tickets, at most `ranking_ms` old.

        Raises:
            NoCandidatePassesError: no candidate passes, and the rules draw from none then.
        """
        key = asked[:3]
        found = self._rankings.get(key)
        if found is not None and 0 <= now - found.as_of < self.rules.ranking_ms:
            return found
        made = self._ranked(asked, now)
        if self.rules.ranking_ms:
            # The oldest ranking is dropped; a later request makes it again.
            self._rankings.pop(key, None)
            self._rankings[key] = made
            if len(self._rankings) > self.rules.max_rankings:
                del self._rankings[next(iter(self._rankings))]
        return made

    def select(self, asked: SelectionRequest, now: int) -> NodeSelection:
        """Draw nodes for a request.

        Raises:
            NoCandidatePassesError: as `get_ranking`.
        """
        ranking = self.ranking(asked, now)
        if asked.exclude:
            ranking = ranking.without(asked.exclude)
        epoch, counter = self.seeds.counters(asked.most, now)
        if not ranking.chances:
            return NodeSelection([], ranking, [], epoch, counter)
        value = epoch.value(asked.session, counter)
        nodes, values = [ranking.holder(value)], [value]
        while len(nodes) < asked.most:
            left = ranking.without({*asked.exclude, *nodes})
            if not left.chances:
                break
            values.append(epoch.value(asked.session, counter + len(nodes)))
            nodes.append(left.holder(values[-1]))
        return NodeSelection(nodes, ranking, values, epoch, counter)

    def _ranked(self, asked: SelectionRequest, now: int) -> SessionRanking:
        chain, session, candidates = asked[:3]
        records, checks = self.records, self.checks.get(chain)
        left_out = {
            node: "session_ended"
            for node in candidates
            if records.has_ended(chain, session, node, now)
        }
        rest = [node for node in candidates if node not in left_out]
        failed = {} if checks is None else checks.left_out(rest, now)
        is_nobody = bool(rest) and len(failed) == len(set(rest))
        if is_nobody and checks is not None:
            # Nodes without stake are never drawn.
            failed = {node: why for node, why in failed.items() if why in UNSTAKED}
            if not checks.rules.all_where_none_passes or len(failed) == len(set(rest)):
                raise NobodyPassesError
        made = drawn_from(records.ranking(chain, candidates, left_out | failed, now), now)
        return made.as_degraded() if is_nobody else made
