"""A relay's own books of its nodes, in floats as the relay keeps them.

The implementation follows the relay's rules (docs/explanation/crynux.md#the-relays-rules) and
shares no code with the fold, so agreement means that both computed the same figures independently.
"""

import math
from dataclasses import dataclass, field, replace

from oracle.domain.ids import Address

RANK_SCORES = (10, 5, 2)
_POOL, _BEST, _NEW, _KICK_BELOW = 50, 10.0, 0.5, 2.0
_TAU_SECONDS = 1800.0
_FIRST_FROM, _FIRST, _NEXT, _BOOST = 0.99, 0.95, 0.3, 0.15
_EXCLUDED_BELOW, _BACK_FROM = 0.2, 0.8
_REJOIN_FLOOR = 0.3
_COPIES = 49


@dataclass(frozen=True, slots=True)
class NodeMark:
    """A node's state from `time` (relay seconds) until its next state.

    `long_term` is Q_long / 10; `health` is H at `time`.
    """

    time: float
    long_term: float = _NEW
    health: float = 1.0
    excluded: bool = False
    is_member: bool = True
    stake: int = 0

    def health_at(self, time: float) -> float:
        """Return H, recovered up to a time."""
        left = math.exp(-max(0.0, time - self.time) / _TAU_SECONDS)
        return 1.0 - (1.0 - self.health) * left

    def is_excluded_at(self, time: float) -> bool:
        """Return whether the node gets no tasks: exclusion lasts until H has recovered."""
        return self.excluded and self.health_at(time) < _BACK_FROM


@dataclass(slots=True)
class NodeBook:
    """The pool of a node and all its states, oldest first."""

    pool: list[int] = field(default_factory=list)
    marks: list[NodeMark] = field(default_factory=list)

    @property
    def is_due(self) -> bool:
        """Whether the next ended task causes a kickout: a full pool with too low a mean."""
        return len(self.pool) >= _POOL and sum(self.pool) / len(self.pool) < _KICK_BELOW


class RelayFigures:
    """The relay's books of all nodes; methods must be called in the order of time."""

    def __init__(self) -> None:
        self.books: dict[Address, NodeBook] = {}

    def join(self, node: Address, time: float, stake: int) -> None:
        """Record a join: H is 1, and a score below the floor starts at the floor."""
        book = self.books.setdefault(node, NodeBook())
        long_term = book.marks[-1].long_term if book.marks else _NEW
        if book.marks and 0 < long_term < _REJOIN_FLOOR:
            long_term = _REJOIN_FLOOR
            book.pool = [int(_REJOIN_FLOOR * _BEST)] * _COPIES
        book.marks.append(NodeMark(time, long_term, stake=stake))

    def leave(self, node: Address, time: float) -> None:
        """Record that a node left or was removed."""
        self._mark(node, time, is_member=False)

    def set_stake(self, node: Address, time: float, stake: int) -> None:
        """Record a node's new stake."""
        self._mark(node, time, stake=stake)

    def score(self, node: Address, time: float, score: int) -> None:
        """Add a task score to a node's pool."""
        book = self.books[node]
        book.pool = [*book.pool, score][-_POOL:]
        self._mark(node, time, long_term=_mean(book.pool))

    def penalize(self, node: Address, time: float) -> None:
        """Record a timeout, which lowers H."""
        before = self.at(node, time)
        health = before.health * (_FIRST if before.health >= _FIRST_FROM else _NEXT)
        excluded = health < _EXCLUDED_BELOW or before.is_excluded_at(time)
        self._mark(node, time, health=health, excluded=excluded)

    def boost(self, node: Address, time: float) -> None:
        """Record a success, which raises H."""
        before = self.at(node, time)
        health = min(1.0, before.health + _BOOST)
        excluded = before.is_excluded_at(time) and health < _BACK_FROM
        self._mark(node, time, health=health, excluded=excluded)

    def restart(self, time: float) -> None:
        """Replace every pool by copies of its truncated mean, as a restart of the relay does."""
        for node, book in self.books.items():
            if book.pool and sum(book.pool):
                book.pool = [sum(book.pool) // len(book.pool)] * _COPIES
                self._mark(node, time, long_term=_mean(book.pool))

    def at(self, node: Address, time: float) -> NodeMark:
        """Return a node's state at `time`, which must not be before its latest state."""
        last = self.books[node].marks[-1]
        return replace(last, time=time, health=last.health_at(time))

    def _mark(self, node: Address, time: float, **changed: object) -> None:
        now = self.at(node, time)
        self.books[node].marks.append(replace(now, **changed))  # type: ignore[arg-type]  # fields of a mark


def _mean(pool: list[int]) -> float:
    """Return Q_long / 10; a mean of 0 counts as that of a new node."""
    return sum(pool) / len(pool) / _BEST if any(pool) else _NEW
