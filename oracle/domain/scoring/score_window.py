"""The last task scores of a node (its pool), and the effect of a restart on them.

See docs/reference/scoring-rules.md#long-term-score and docs/reference/scoring-rules.md#relay.
"""

from bisect import bisect_right

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node


def append_score(pool: bytes, score: int, rules: Rules) -> bytes:
    """Return the pool with one more score; a full pool drops its oldest score."""
    return (pool + bytes((score,)))[-rules.pool_size :]


def compute_pool_mean(pool: bytes, prior: int | None, rules: Rules) -> int:
    """Return the mean of a pool divided by the best score, in units of 10^-18.

    The mean of an empty pool is `prior` or, if that is None, the rules' value for a new node.
    """
    total = sum(pool)
    if not pool or (total == 0 and rules.zero_mean_is_new):
        return rules.new_node_long_term if prior is None else prior
    return total * UNIT // (len(pool) * rules.q_max)


def count_restarts(time: int, rules: Rules) -> int:
    """Return how many of the rules' restarts have happened by `time`."""
    return bisect_right(rules.restarts, time)


def is_pool_lost(node: Node, time: int, rules: Rules) -> bool:
    """Return whether a restart happened between the node's last score and `time`.

    The relay keeps pools in memory and means in its database. From a restart until its next score,
    a node therefore has its exact mean, but no pool that could be full.
    """
    return bool(rules.restarts) and node.restarts < count_restarts(time, rules)


def get_pool_in_memory(node: Node, time: int, rules: Rules) -> bytes:
    """Return the pool that decides a kickout at `time`, which is empty if a restart lost it."""
    return b"" if is_pool_lost(node, time, rules) else node.pool


def get_pool_before_score(node: Node, time: int, rules: Rules) -> bytes:
    """Return the pool that a score at `time` is appended to, reseeded if a restart lost it."""
    return reseed_pool(node.pool, rules) if is_pool_lost(node, time, rules) else node.pool


def reseed_pool(pool: bytes, rules: Rules) -> bytes:
    """Return the replacement of a lost pool: copies of its truncated mean; empty if that is 0."""
    if not pool or not any(pool):
        return b""
    return bytes((sum(pool) // len(pool),)) * rules.reseed_copies


def build_prior_pool(prior: int, rules: Rules) -> bytes:
    """Return the copies of a prior that precede the node's next score (relay)."""
    return bytes((prior * rules.q_max // UNIT,)) * rules.reseed_copies
