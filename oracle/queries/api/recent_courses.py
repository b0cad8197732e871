"""The last few QoS values of many nodes at once: the sparkline beside each row of a list.

One database query covers all requested nodes that have changed; the values of the other nodes are
cached (docs/reference/read-api.md#trends-in-lists).
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply_fixed
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import (
    append_score,
    compute_long_term,
    compute_pool_mean,
    heal_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.store.activity_repository import NodeTrendPoint
from oracle.store.database import UnitOfWork

# The maximum length of a trend, with one value for each block that changed the node.
MAX_TREND_POINTS = 30
_MAX_CACHED = 20_000


class _TrendKey(NamedTuple):
    """The fields of a node's row that determine its trend."""

    generation: int
    node: Address
    changed_at: int
    scored: int
    base: int
    since: int


class TrendCache:
    """A thread-safe cache of trends by node, each valid while the node's row is unchanged."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._cached: OrderedDict[_TrendKey, tuple[int, ...]] = OrderedDict()

    def load_trends(
        self, uow: UnitOfWork, nodes: Sequence[Node], generation: int
    ) -> dict[Address, tuple[int, ...]]:
        """Return the QoS at the end of the newest blocks that changed each node, oldest first.

        Values are in units of 10^-18. A node is left out if its stored history does not lead to
        the values of its row; all nodes are left out under rules that compare nodes or restart
        pools. `generation` identifies one fold: after a rewind, a changed row may have the same
        key fields.
        """
        if trend_obstacle(self._rules) is not None:
            return {}
        keys = {node.address: _build_key(node, generation) for node in nodes}
        with self._lock:
            cached = {
                address: self._cached[key] for address, key in keys.items() if key in self._cached
            }
        missing = {node.address: node for node in nodes if node.address not in cached}
        max_steps = self._rules.pool_size + MAX_TREND_POINTS
        steps = uow.activity.list_trend_points(missing, max_steps) if missing else {}
        computed = {
            address: compute_trend(steps.get(address, []), node, self._rules)
            for address, node in missing.items()
        }
        with self._lock:
            self._cached.update((keys[address], trend) for address, trend in computed.items())
            while len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)
        return {address: trend for address, trend in (cached | computed).items() if trend}


def trend_obstacle(rules: Rules) -> str | None:
    """Return why no trend can be computed under these rules, or None if it can."""
    if rules.legacy is not None:
        return "a score depends on all other nodes"
    if rules.restarts or rules.rejoin_floor is not None:
        return "these rules restart pools"
    return None


def compute_trend(steps: Sequence[NodeTrendPoint], node: Node, rules: Rules) -> tuple[int, ...]:
    """Return the QoS at the end of the newest blocks that changed a node, oldest first.

    `steps`: the node's scores and changes of H in the order of blocks. The result is empty if the
    steps do not lead to the stored values of `node`.
    """
    pool, score_count, mean_score = b"", 0, rules.new_node_long_term
    base, since = UNIT, 0
    qos_by_block: dict[int, int] = {}
    total_scores = sum(step.score is not None for step in steps)
    for step in steps:
        if step.score is not None:
            pool, score_count = append_score(pool, step.score, rules), score_count + 1
            mean_score = compute_pool_mean(pool, None, rules)
        else:
            base, since = step.reliability, step.time
        if score_count >= rules.pool_size or total_scores == node.scored:
            qos_by_block[step.block] = multiply_fixed(
                mean_score, heal_reliability(base, since, step.time, rules)
            )
    matches_row = mean_score == compute_long_term(node, rules, since) and base == node.base
    return tuple(qos_by_block.values())[-MAX_TREND_POINTS:] if matches_row else ()


def _build_key(node: Node, generation: int) -> _TrendKey:
    row_fields = (node.changed_at, node.scored, node.base, node.since)
    return _TrendKey(generation, node.address, *row_fields)
