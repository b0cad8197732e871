"""The selection of nodes for sessions as a plain class: outcomes in, a node for each relay out.

To Pocket's selector (`oracle.systems.pocket.node_selector`) it adds what a gateway needs: draws
that can be repeated, checks, sessions that ended, outcomes told twice, and rankings that are kept.

It reads no clock, knows no database and asks nobody; the service around it does. One thread at a
time may use it (docs/how-to/run-a-gateway.md#use-the-selector-in-your-own-process).
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
    """No candidate passes the checks of its chain, and the settings draw from nobody then."""


class SelectionRequest(NamedTuple):
    """What is asked for a relay: up to `most` of the candidates, none of `exclude`."""

    chain: str
    session: str
    candidates: tuple[str, ...]
    most: int = 1
    exclude: tuple[str, ...] = ()


class NodeSelection(NamedTuple):
    """The nodes in the order drawn, none twice; fewer than asked where there are no more.

    `values`: what each was drawn by, which come of `epoch` and of the counters from `counter` on.
    """

    nodes: list[str]
    ranking: SessionRanking
    values: list[bytes]
    epoch: DrawEpoch
    counter: int


@dataclass(slots=True)
class Hooks:
    """Who is told what has to be stored: outcomes, passed checks, an epoch before it begins."""

    told: Callable[[Sequence[ToldOutcome], int], None] = lambda _outcomes, _now: None
    passed: Callable[[str, Sequence[str], int], None] = lambda _chain, _nodes, _now: None
    began: Callable[[DrawEpoch], None] = lambda _epoch: None
    random_bytes: Callable[[int], bytes] = secrets.token_bytes


class SessionSelector:
    """Times are milliseconds since 1970; `now` never goes back."""

    def __init__(
        self,
        rules: GatewayRules | None = None,
        checks: Mapping[str, NodeChecks] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """`checks`: by chain; nodes of a chain without any are all candidates."""
        self.rules = rules or GatewayRules()
        self.checks = dict(checks or {})
        self.records = GatewayRecords(self.rules)
        self._hooks = hooks or Hooks()
        self.seeds = DrawSeeds(self.rules.epoch_ms, self._hooks.random_bytes, self._hooks.began)
        self._rankings: dict[tuple[str, str, tuple[str, ...]], SessionRanking] = {}

    def take(self, outcomes: Iterable[ToldOutcome], now: int) -> OutcomeCounts:
        """Take in outcomes of relays.

        Raises:
            TooManyRecordsError: nothing was taken.
        """
        counts, stored = self.records.take(outcomes, now)
        if stored:
            self._hooks.told(stored, now)
        return counts

    def passed_checks(self, chain: str, nodes: Iterable[str], now: int) -> None:
        """Let nodes be taken for well again: a check has found them so."""
        # Of the others there is nothing to take back.
        out = [node for node in nodes if self.records.is_out(chain, node, now)]
        for node in out:
            self.records.passed_check(chain, node, now)
        if out:
            self._hooks.passed(chain, out, now)

    def ranking(self, asked: SelectionRequest, now: int) -> SessionRanking:
        """Return the candidates with their tickets, at most `ranking_ms` old.

        Raises:
            NobodyPassesError: see there.
        """
        key = asked[:3]
        found = self._rankings.get(key)
        if found is not None and 0 <= now - found.as_of < self.rules.ranking_ms:
            return found
        made = self._ranked(asked, now)
        if self.rules.ranking_ms:
            # The oldest leaves: whoever still asks for it has it made anew.
            self._rankings.pop(key, None)
            self._rankings[key] = made
            if len(self._rankings) > self.rules.max_rankings:
                del self._rankings[next(iter(self._rankings))]
        return made

    def select(self, asked: SelectionRequest, now: int) -> NodeSelection:
        """Draw nodes.

        Raises:
            NobodyPassesError: see there.
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
            # Who has no stake is drawn in no case.
            failed = {node: why for node, why in failed.items() if why in UNSTAKED}
            if not checks.rules.all_where_none_passes or len(failed) == len(set(rest)):
                raise NobodyPassesError
        made = drawn_from(records.ranking(chain, candidates, left_out | failed, now), now)
        return made.as_degraded() if is_nobody else made
