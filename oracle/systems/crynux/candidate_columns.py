"""The inputs of the candidates' weights for one kind of task, in columns with an index per node.

Numbers are in units of 10^-18, none above 2^64 (`Weighting` and `Rules` ensure that).
`native.weigh` reads the same columns, if the native code is installed.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from oracle.domain.fixed_point import ONE, UNIT, decay, decay_table
from oracle.domain.native import native
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.selection_weight import Weighting, stake_score

_ONE_BITS = ONE.bit_length() - 1
# Elapsed times recur from block to block, each for other nodes.
_decay = lru_cache(maxsize=1 << 16)(decay)


@dataclass(slots=True)
class IndexedCandidate:
    """The inputs of a node's weight for one kind of task; fractions in units of 10^-18.

    `base` at `since` is its reliability (docs/reference/scoring-rules.md#reliability), `boost` its
    M. The node is excluded while its reliability is below `exclusion_threshold`. `is_free`:
    neither busy nor paused.
    """

    free: bool
    stake: int
    boost: int
    long_term: int
    base: int
    since: int
    barred_below: int

    @property
    def is_recovering(self) -> bool:
        """Return whether weight and exclusion change with time."""
        return self.free and self.base != UNIT


class CandidateColumns:
    """The columns, with the `weights` and `offered` flags of the last `update_weights`.

    A node that is not free has weight 0 and is not offered.
    """

    __slots__ = (
        "_changed", "_largest", "_rules", "_time", "_weighting", "barred", "bases", "boosts",
        "free", "healing", "long_terms", "offered", "scores", "sinces", "stakes", "weights",
    )  # fmt: skip

    def __init__(
        self, rules: Rules, weighting: Weighting, rows: Sequence[IndexedCandidate]
    ) -> None:
        self._rules, self._weighting = rules, weighting
        # The inputs of the last weight update; None before the first.
        self._largest: int | None = None
        self._time: int | None = None
        self.stakes = [row.stake for row in rows]
        self.bases = array("Q", [row.base for row in rows])
        self.sinces = array("q", [row.since for row in rows])
        self.long_terms = array("Q", [row.long_term for row in rows])
        self.barred = array("Q", [row.barred_below for row in rows])
        self.boosts = array("Q", [row.boost for row in rows])
        self.scores = array("Q", bytes(8 * len(rows)))
        self.weights = array("Q", bytes(8 * len(rows)))
        # One byte per node: whether it is free, whether its weight changes with time, whether its
        # row changed since the last weight update, and whether it is a candidate.
        self.free = bytearray(row.free for row in rows)
        self.healing = bytearray(row.is_recovering for row in rows)
        self._changed = bytearray(len(rows))
        self.offered = bytearray(len(rows))

    def insert(self, place: int, row: IndexedCandidate) -> None:
        """Insert a row at an index."""
        for column in self._all():
            column.insert(place, 0)
        self.put(place, row)

    def put(self, place: int, row: IndexedCandidate) -> None:
        """Replace the row at an index."""
        self.stakes[place], self.boosts[place] = row.stake, row.boost
        self.bases[place], self.sinces[place] = row.base, row.since
        self.long_terms[place], self.barred[place] = row.long_term, row.barred_below
        self.free[place], self.healing[place] = row.free, row.is_recovering
        self.weights[place] = self.offered[place] = 0
        self._changed[place] = 1

    def remove(self, place: int) -> None:
        """Remove the row at an index."""
        for column in self._all():
            del column[place]

    def settle(self, time: int, largest: int) -> None:
        """Update the weights to a block time, given the network's largest stake."""
        if largest != self._largest:
            self._score_all(largest)
            asked = self.free
        else:
            asked = bytearray(len(self.free)) if time == self._time else self.healing.copy()
            for place in _flagged_places(self._changed):
                self.scores[place] = stake_score(self.stakes[place], largest)
                asked[place] = self.free[place]
        self._changed = bytearray(len(self.free))
        self._largest, self._time = largest, time
        if 1 in asked:
            self._weigh(asked, time)

    def _all(self) -> "tuple[list[int] | array[int] | bytearray, ...]":
        return (
            *(self.stakes, self.bases, self.sinces, self.long_terms, self.barred, self.boosts),
            *(self.scores, self.weights, self.free, self.healing, self._changed, self.offered),
        )

    def _score_all(self, largest: int) -> None:
        """Compute S of every node; many stakes are equal."""
        if native is not None and native.stake_scores(self.stakes, largest, self.scores):
            return
        known = {stake: stake_score(stake, largest) for stake in set(self.stakes)}
        self.scores = array("Q", [known[stake] for stake in self.stakes])

    def _weigh(self, asked: bytearray, time: int) -> None:
        if native is None:
            self._weigh_in_python(asked, time)
            return
        columns = (
            *(self.bases, self.sinces, self.long_terms, self.barred, self.boosts, self.scores),
            *(asked, self.weights, self.offered),
        )
        table = _table_bytes(self._rules.tau_seconds)
        native.weigh(columns, time, table, self._weighting.weight_floor)

    def _weigh_in_python(self, asked: bytearray, time: int) -> None:
        weights, offered = self.weights, self.offered
        least, tau = self._weighting.weight_floor, self._rules.tau_seconds
        columns = self.bases, self.sinces, self.long_terms, self.barred, self.boosts, self.scores
        places = list(_flagged_places(asked))
        rows = zip(places, *(map(column.__getitem__, places) for column in columns), strict=True)
        for place, base, since, long_term, barred_below, boost, score in rows:
            # `heal_reliability`, `multiply_fixed` and `compute_weight` are inlined, because this
            # loop dominates selection.
            left = _decay(time - since, tau) if time > since else ONE
            reliability = base + ((UNIT - base) * (ONE - left) >> _ONE_BITS)
            if reliability < barred_below:
                weights[place] = offered[place] = 0
                continue
            qos = long_term * reliability // UNIT
            both = score + qos
            weight = boost * score * qos // both // UNIT if both else 0
            weights[place] = max(least, weight)
            offered[place] = 1


def _flagged_places(flags: bytearray) -> Iterator[int]:
    """Yield the indexes of flags that are 1."""
    place = flags.find(1)
    while place >= 0:
        yield place
        place = flags.find(1, place + 1)


# One entry per rule set.
@lru_cache(maxsize=64)
def _table_bytes(tau_seconds: int) -> bytes:
    return b"".join(factor.to_bytes(16, "little") for factor in decay_table(tau_seconds))
