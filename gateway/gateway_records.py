"""What a gateway has told: outcomes by node, ids that are known again, sessions that ended.

Memory is bounded by `GatewayRules`; nothing here reads a clock or knows a database.
"""

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from gateway.gateway_rules import GatewayRules
from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.ranking import Ranking
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome

# After these a session is over for its node (docs/explanation/gateway.md#outcomes-and-blame).
SESSION_ENDED = frozenset({OutcomeKind.SESSION_INVALID, OutcomeKind.EXHAUSTED})
# What counts no more is looked for at most so often.
_SWEEP_MS = 10_000


class ToldOutcome(NamedTuple):
    """A relay's outcome as a gateway tells it; of the clock that all of them share, since 1970.

    `id` makes it count once, however often it is told; None: it counts each time.
    """

    outcome: RelayOutcome
    session: str = ""
    id: str | None = None


class OutcomeCounts(NamedTuple):
    """What became of a batch: taken, told before, and too old to count."""

    taken: int
    repeated: int
    late: int


class TooManyRecordsError(Exception):
    """There is no room for this batch; nothing of it was taken."""


class GatewayRecords:
    """Times are milliseconds since 1970."""

    def __init__(self, rules: GatewayRules) -> None:
        self._rules = rules
        self._selector = NodeSelector(rules.params)
        # When each node was last heard of.
        self._heard: dict[Address, int] = {}
        # How many outcomes count until when, and how many are that together.
        self._batches: deque[tuple[int, int]] = deque()
        self._live = 0
        # Until when an id is known, the one that is forgotten first in front.
        self._ids: dict[str, int] = {}
        # (chain, session, node): until when.
        self._ended: dict[tuple[str, str, str], int] = {}
        self._swept = 0

    def take(
        self, told: Iterable[ToldOutcome], now: int
    ) -> tuple[OutcomeCounts, list[ToldOutcome]]:
        """Take in a batch; return what became of it, and what has to be stored of it.

        What is ahead of our clock counts from now.

        Raises:
            TooManyRecordsError: nothing was taken.
        """
        batch = told if isinstance(told, list) else list(told)
        self._make_room(batch, now)
        since, put = now - self._rules.window_ms, self.put
        late = repeated = 0
        taken: list[ToldOutcome] = []
        for one in batch:
            t = one.outcome.t_ms
            if t <= since:
                late += 1
            elif one.id is not None and self._is_known(one.id, now):
                repeated += 1
            else:
                told_now = one if t <= now else _at(one, now)
                put(told_now)
                taken.append(told_now)
        self._batches.append((now + self._rules.window_ms, len(taken)))
        self._live += len(taken)
        return OutcomeCounts(len(taken), repeated, late), taken

    def put(self, told: ToldOutcome) -> None:
        """Let an outcome count that was taken once: now, or before a restart."""
        outcome = told[0]
        self._heard[outcome.node] = outcome.t_ms
        self._selector.take(outcome)
        if outcome.kind in SESSION_ENDED:
            key = outcome.chain, told.session, outcome.node
            self._ended[key] = outcome.t_ms + self._rules.session_out_ms

    def passed_check(self, chain: str, node: str, t: int) -> None:
        """Let a node be taken for well: a check has found it so."""
        if chain in self._selector.chains:
            self._selector.health_passed(Address(node), chain, t)

    def remember(self, outcome_id: str, until: int) -> None:
        """Know an id again until then."""
        self._ids[outcome_id] = until

    def is_out(self, chain: str, node: str, now: int) -> bool:
        """Tell whether the node gets nothing for its failures, which a check could end."""
        memory = self._selector.chains.get(chain)
        return memory is not None and memory.stats(Address(node), now).failing

    def of_node(self, node: str, now: int) -> list[tuple[str, NodeStats]]:
        """Return what is known of a node, by chain."""
        found = [
            (chain, memory.stats(Address(node), now))
            for chain, memory in self._selector.chains.items()
        ]
        return sorted((one for one in found if one[1].attempts), key=itemgetter(0))

    def has_ended(self, chain: str, session: str, node: str, now: int) -> bool:
        """Tell whether the node gets nothing of this session any more."""
        return now < self._ended.get((chain, session, node), 0)

    def ranking(
        self, chain: str, candidates: Iterable[str], left_out: dict[str, str], now: int
    ) -> Ranking:
        """Rank the candidates that are not left out; where a look leaves anything, it has."""
        nodes = [Address(node) for node in candidates]
        reasons = {Address(node): why for node, why in left_out.items()}
        made = self._selector.rank(chain, nodes, now, reasons)
        if chain in self._selector.chains:
            self._selector.looked(chain, frozenset(nodes) - reasons.keys(), now)
        return made

    def _is_known(self, outcome_id: str, now: int) -> bool:
        if now < self._ids.get(outcome_id, 0):
            return True
        self._ids.pop(outcome_id, None)
        self._ids[outcome_id] = now + self._rules.id_ms
        return False

    def _make_room(self, batch: list[ToldOutcome], now: int) -> None:
        rules, size = self._rules, len(batch)
        if now >= self._swept + _SWEEP_MS:
            self._sweep(now)
        nodes = len(self._heard) + size
        if nodes > rules.max_nodes:
            nodes = len(self._heard.keys() | {one.outcome.node for one in batch})
        chains = len(self._selector.chains)
        if chains + size > rules.max_chains:
            chains = len(self._selector.chains.keys() | {one.outcome.chain for one in batch})
        if (
            nodes > rules.max_nodes
            or chains > rules.max_chains
            or self._live + size > rules.max_outcomes
            or len(self._ids) + size > rules.max_ids
            or len(self._ended) + size > rules.max_nodes
        ):
            raise TooManyRecordsError

    def _sweep(self, now: int) -> None:
        """Forget what counts no more."""
        self._swept = now
        while self._batches and self._batches[0][0] <= now:
            self._live -= self._batches.popleft()[1]
        for known, until in list(self._ids.items()):
            if now < until:
                break
            del self._ids[known]
        self._ended = {key: until for key, until in self._ended.items() if now < until}
        since = now - self._rules.kept_ms
        for node in [node for node, heard in self._heard.items() if heard <= since]:
            del self._heard[node]
            self._selector.forget(node)


def _at(told: ToldOutcome, now: int) -> ToldOutcome:
    return told._replace(outcome=told.outcome._replace(t_ms=now))
