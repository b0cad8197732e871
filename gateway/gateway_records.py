"""The records of a gateway: outcomes by node, known ids, ended sessions.

Memory is bounded by `GatewayRules`; independent of clocks and databases.
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

# After these outcomes the session is over for the node
# (docs/explanation/gateway.md#whom-an-outcome-blames).
SESSION_ENDED = frozenset({OutcomeKind.SESSION_INVALID, OutcomeKind.EXHAUSTED})
# The minimum time between two removals of expired records.
_SWEEP_MS = 10_000


class ToldOutcome(NamedTuple):
    """A relay's outcome as reported by a gateway, in milliseconds of the shared clock since 1970.

    An outcome with an `id` counts once, however often it is reported; None: it counts each time.
    """

    outcome: RelayOutcome
    session: str = ""
    id: str | None = None


class OutcomeCounts(NamedTuple):
    """The outcomes of a batch: counted, repeated, and too old to count."""

    taken: int
    repeated: int
    late: int


class TooManyRecordsError(Exception):
    """The records have no capacity for this batch; no outcome of it was counted."""


class GatewayRecords:
    """The outcomes that count; times are milliseconds since 1970."""

    def __init__(self, rules: GatewayRules) -> None:
        self._rules = rules
        self._selector = NodeSelector(rules.params)
        # The time of each node's last outcome.
        self._heard: dict[Address, int] = {}
        # The expiry and the size of each batch of outcomes, and the total of the sizes.
        self._batches: deque[tuple[int, int]] = deque()
        self._live = 0
        # The expiry of each known id, the earliest first.
        self._ids: dict[str, int] = {}
        # The expiry of a node's exclusion by (chain, session, node).
        self._ended: dict[tuple[str, str, str], int] = {}
        self._swept = 0

    def take(
        self, told: Iterable[ToldOutcome], now: int
    ) -> tuple[OutcomeCounts, list[ToldOutcome]]:
        """Count a batch; return the counts, and the outcomes to be stored.

        An outcome ahead of the local clock counts from now.

        Raises:
            TooManyRecordsError: no outcome was counted.
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
        """Count an accepted outcome, now or after a restart."""
        outcome = told[0]
        self._heard[outcome.node] = outcome.t_ms
        self._selector.take(outcome)
        if outcome.kind in SESSION_ENDED:
            key = outcome.chain, told.session, outcome.node
            self._ended[key] = outcome.t_ms + self._rules.session_out_ms

    def passed_check(self, chain: str, node: str, t: int) -> None:
        """Mark a node as healthy, because a check found it so."""
        if chain in self._selector.chains:
            self._selector.health_passed(Address(node), chain, t)

    def remember(self, outcome_id: str, until: int) -> None:
        """Treat this id as known until then."""
        self._ids[outcome_id] = until

    def is_out(self, chain: str, node: str, now: int) -> bool:
        """Return whether the node is excluded for failures, which a passed check could end."""
        memory = self._selector.chains.get(chain)
        return memory is not None and memory.stats(Address(node), now).failing

    def of_node(self, node: str, now: int) -> list[tuple[str, NodeStats]]:
        """Return the statistics of a node, by chain."""
        found = [
            (chain, memory.stats(Address(node), now))
            for chain, memory in self._selector.chains.items()
        ]
        return sorted((one for one in found if one[1].attempts), key=itemgetter(0))

    def has_ended(self, chain: str, session: str, node: str, now: int) -> bool:
        """Return whether the session is over for the node."""
        return now < self._ended.get((chain, session, node), 0)

    def ranking(
        self, chain: str, candidates: Iterable[str], left_out: dict[str, str], now: int
    ) -> Ranking:
        """Rank the candidates without an exclusion reason, and note that they were ranked."""
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
        """Remove the records that no longer count."""
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
