"""The last few QoS values of many nodes at once: the sparkline beside each row of a list.

One database query covers all requested nodes that have changed since; the values of the others are
cached (docs/explanation/read-api.md#courses-of-a-list).
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from oracle.domain.fixed_point import UNIT, multiply
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import long_term
from oracle.domain.scoring.reliability import healed_reliability
from oracle.domain.scoring.rules import Rules
from oracle.domain.scoring.score_window import append_score, mean_of
from oracle.domain.state.node import Node
from oracle.store.activity_repository import NodeStep
from oracle.store.database import UnitOfWork

# The newest blocks that changed a node.
MOST_POINTS = 30
_MOST_KEPT = 20_000


class _Key(NamedTuple):
    """The fields of a node's row that determine its trend."""

    generation: int
    node: Address
    changed_at: int
    scored: int
    base: int
    since: int


class RecentCourses:
    """A thread-safe cache of trends by node, each valid while the node's row is unchanged."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[int, ...]] = OrderedDict()

    def of(
        self, uow: UnitOfWork, nodes: Sequence[Node], generation: int
    ) -> dict[Address, tuple[int, ...]]:
        """Return the QoS at the end of the newest blocks that changed each node, oldest first.

        Values are in units of 10^-18. A node is left out if its stored past does not end in the
        values of its row; all nodes are left out under rules that compare nodes or restart pools.
        `generation` identifies one fold: after a rewind, other rows may have the same key fields.
        """
        if why_none(self._rules) is not None:
            return {}
        keys = {node.address: _key_of(node, generation) for node in nodes}
        with self._lock:
            found = {name: self._kept[key] for name, key in keys.items() if key in self._kept}
        new = {node.address: node for node in nodes if node.address not in found}
        depth = self._rules.pool_size + MOST_POINTS
        steps = uow.activity.last_steps(new, depth) if new else {}
        made = {name: recent(steps.get(name, []), node, self._rules) for name, node in new.items()}
        with self._lock:
            self._kept.update((keys[name], course) for name, course in made.items())
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return {name: course for name, course in (found | made).items() if course}


def why_none(rules: Rules) -> str | None:
    """Return why no trend can be computed under these rules, or None if it can."""
    if rules.legacy is not None:
        return "a score depends on all other nodes"
    if rules.restarts or rules.rejoin_floor is not None:
        return "these rules restart pools"
    return None


def recent(steps: Sequence[NodeStep], node: Node, rules: Rules) -> tuple[int, ...]:
    """Return the QoS at the end of the newest blocks of a node's steps, oldest first.

    `steps`: in the order of blocks. The result is empty if they do not end in the values of the
    row.
    """
    pool, scores, mean = b"", 0, rules.new_node_long_term
    base, since = UNIT, 0
    points: dict[int, int] = {}
    in_all = sum(step.score is not None for step in steps)
    for step in steps:
        if step.score is not None:
            pool, scores = append_score(pool, step.score, rules), scores + 1
            mean = mean_of(pool, None, rules)
        else:
            base, since = step.reliability, step.time
        if scores >= rules.pool_size or in_all == node.scored:
            points[step.block] = multiply(mean, healed_reliability(base, since, step.time, rules))
    is_its_own = mean == long_term(node, rules, since) and base == node.base
    return tuple(points.values())[-MOST_POINTS:] if is_its_own else ()


def _key_of(node: Node, generation: int) -> _Key:
    told = (node.changed_at, node.scored, node.base, node.since)
    return _Key(generation, node.address, *told)
