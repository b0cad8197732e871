"""A relay's own books about nodes' pools and health.

They use floats as the relay does. The module follows the relay's rules
(docs/explanation/crynux.md#the-relays-rules), but shares no code with the daemon. If both yield
the same values, two independent computations agree.
"""

import math
from dataclasses import dataclass, field, replace

from oracle.domain.ids import Address

RANK_SCORES = (10, 5, 2)
_POOL_SIZE, _MAX_SCORE, _NEW_NODE_SCORE, _KICK_BELOW = 50, 10.0, 0.5, 2.0
_TAU_SECONDS = 1800.0
_FIRST_PENALTY_MIN, _FIRST_PENALTY_FACTOR, _PENALTY_FACTOR, _SUCCESS_BOOST = 0.99, 0.95, 0.3, 0.15
_EXCLUDED_BELOW, _READMITTED_FROM = 0.2, 0.8
_REJOIN_FLOOR = 0.3
_RESTORED_SCORES = 49


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node from `time` (relay seconds) until its next state.

    `long_term` is Q_long / 10; `health` is H at `time`.
    """

    time: float
    long_term: float = _NEW_NODE_SCORE
    health: float = 1.0
    excluded: bool = False
    is_member: bool = True
    stake: int = 0

    def compute_reliability(self, at_time: float) -> float:
        """Compute the reliability H at a time.

        It includes the recovery since the state began.
        """
        remaining_loss = math.exp(-max(0.0, at_time - self.time) / _TAU_SECONDS)
        return 1.0 - (1.0 - self.health) * remaining_loss

    def is_excluded_at(self, at_time: float) -> bool:
        """Return whether the node is excluded.

        Such a node gets no tasks until its reliability has recovered.
        """
        return self.excluded and self.compute_reliability(at_time) < _READMITTED_FROM


@dataclass(slots=True)
class NodeStateHistory:
    """The pool of a node and all of its states, oldest first."""

    pool: list[int] = field(default_factory=list)
    states: list[NodeState] = field(default_factory=list)

    @property
    def is_due(self) -> bool:
        """Whether the pool is full and its mean is too low.

        If so, the next task that ends causes a kickout.
        """
        return len(self.pool) >= _POOL_SIZE and sum(self.pool) / len(self.pool) < _KICK_BELOW


class RelayBooks:
    """The books of all nodes.

    Methods must be called in chronological order.
    """

    def __init__(self) -> None:
        self.state_history_by_node: dict[Address, NodeStateHistory] = {}

    def record_join(self, node: Address, at_time: float, stake: int) -> None:
        """Record a join.

        It resets H to 1 and raises a low score to the rejoin floor.
        """
        state_history = self.state_history_by_node.setdefault(node, NodeStateHistory())
        long_term = state_history.states[-1].long_term if state_history.states else _NEW_NODE_SCORE
        if state_history.states and 0 < long_term < _REJOIN_FLOOR:
            long_term = _REJOIN_FLOOR
            state_history.pool = [int(_REJOIN_FLOOR * _MAX_SCORE)] * _RESTORED_SCORES
        state_history.states.append(NodeState(at_time, long_term, stake=stake))

    def record_leave(self, node: Address, at_time: float) -> None:
        """Record that a node left or was removed."""
        self._append_state(node, at_time, is_member=False)

    def add_score(self, node: Address, at_time: float, score: int) -> None:
        """Add a task score to a node's pool."""
        state_history = self.state_history_by_node[node]
        state_history.pool = [*state_history.pool, score][-_POOL_SIZE:]
        self._append_state(node, at_time, long_term=_compute_long_term_score(state_history.pool))

    def record_timeout(self, node: Address, at_time: float) -> None:
        """Record a timeout, which lowers the node's reliability H."""
        previous_state = self.get_state(node, at_time)
        health = previous_state.health * (
            _FIRST_PENALTY_FACTOR
            if previous_state.health >= _FIRST_PENALTY_MIN
            else _PENALTY_FACTOR
        )
        is_excluded = health < _EXCLUDED_BELOW or previous_state.is_excluded_at(at_time)
        self._append_state(node, at_time, health=health, excluded=is_excluded)

    def record_success(self, node: Address, at_time: float) -> None:
        """Record a success, which raises the node's reliability H."""
        previous_state = self.get_state(node, at_time)
        health = min(1.0, previous_state.health + _SUCCESS_BOOST)
        is_excluded = previous_state.is_excluded_at(at_time) and health < _READMITTED_FROM
        self._append_state(node, at_time, health=health, excluded=is_excluded)

    def reset_pools_to_mean(self, at_time: float) -> None:
        """Fill each pool with copies of its truncated mean, as a restarted relay does."""
        for node, state_history in self.state_history_by_node.items():
            if state_history.pool and sum(state_history.pool):
                state_history.pool = [
                    sum(state_history.pool) // len(state_history.pool)
                ] * _RESTORED_SCORES
                self._append_state(
                    node, at_time, long_term=_compute_long_term_score(state_history.pool)
                )

    def get_state(self, node: Address, time: float) -> NodeState:
        """Return a node's state at `time`, which must not precede the node's latest state."""
        last_state = self.state_history_by_node[node].states[-1]
        return replace(last_state, time=time, health=last_state.compute_reliability(time))

    def _append_state(self, node: Address, time: float, **changes: object) -> None:
        current_state = self.get_state(node, time)
        self.state_history_by_node[node].states.append(replace(current_state, **changes))  # type: ignore[arg-type]  # fields of a NodeState


def _compute_long_term_score(pool: list[int]) -> float:
    """Compute a pool's long-term score (Q_long / 10).

    If all scores are 0, it is the score of a new node.
    """
    return sum(pool) / len(pool) / _MAX_SCORE if any(pool) else _NEW_NODE_SCORE
