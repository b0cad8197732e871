"""The last few values of QoS of many nodes at once: what a list draws beside each of them.

One question to the database for all that are asked for and have changed since; the others are
kept (docs/reference/read-api.md#trends-in-lists).
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

# Blocks in which something happened to a node, the newest ones.
MOST_POINTS = 30
_MOST_KEPT = 20_000


class _Key(NamedTuple):
    """What a course follows from, as far as its node's row tells."""

    generation: int
    node: Address
    changed_at: int
    scored: int
    base: int
    since: int


class RecentCourses:
    """Courses by node, kept as long as the node's row stands; any thread may ask."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, tuple[int, ...]] = OrderedDict()

    def of(
        self, uow: UnitOfWork, nodes: Sequence[Node], generation: int
    ) -> dict[Address, tuple[int, ...]]:
        """Return the QoS at the end of the newest blocks that changed each node, oldest first.

        In units of 10^-18. Nothing of a node whose stored past does not end in what its row says,
        and of all nodes under rules that compare them, or restart pools. `generation` tells one
        fold from the next one: after a rewind rows may be other ones of the same look.
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
    """Return why no course can be told under these rules; None: it can."""
    if rules.legacy is not None:
        return "a score depends on all other nodes"
    if rules.restarts or rules.rejoin_floor is not None:
        return "these rules restart pools"
    return None


def recent(steps: Sequence[NodeStep], node: Node, rules: Rules) -> tuple[int, ...]:
    """Return the QoS at the end of the newest blocks of a node's steps, oldest first.

    `steps`: in the order of blocks. Empty: they do not end in what the row says.
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
