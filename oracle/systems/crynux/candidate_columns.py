"""Stores the inputs of candidates' weights in columns, with one row per node.

The columns are for one kind of task. Numbers are in units of 10^-18, and at most 2^64 (ensured by
`Weighting` and `Rules`). `native.compute_weights` reads the same columns if the native code is
installed.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from oracle.domain.fixed_point import ONE, UNIT, compute_decay, encode_decay_table
from oracle.domain.native import native
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import Weighting, compute_stake_score

_ONE_BITS = ONE.bit_length() - 1
# The results are cached, because the same elapsed times recur in later blocks for other nodes.
_decay = lru_cache(maxsize=1 << 16)(compute_decay)


@dataclass(slots=True)
class IndexedCandidate:
    """The inputs of a node's weight for one kind of task.

    Fractions are in units of 10^-18. `base` is the node's reliability at the block time `since`
    (docs/reference/scoring-rules.md#reliability), and `boost` is its model boost M. The node is
    excluded while its reliability is below `exclusion_threshold`. `is_free` is whether the node is
    neither busy nor paused.
    """

    is_free: bool
    stake: int
    boost: int
    long_term: int
    base: int
    since: int
    exclusion_threshold: int

    @property
    def is_recovering(self) -> bool:
        """Return whether the weight and the exclusion of the node change with time."""
        return self.is_free and self.base != UNIT


class CandidateColumns:
    """The columns of the candidates.

    `update_weights` computes `weights` and `offered`. A node that is not free has weight 0 and is
    not offered.
    """

    __slots__ = (
        "_changed",
        "_max_stake",
        "_rules",
        "_time",
        "_weighting",
        "base_reliabilities",
        "boosts",
        "exclusion_thresholds",
        "free",
        "long_term_scores",
        "offered",
        "recovering_flags",
        "reliability_times",
        "scores",
        "stakes",
        "weights",
    )  # fmt: skip

    def __init__(
        self, rules: Rules, weighting: Weighting, rows: Sequence[IndexedCandidate]
    ) -> None:
        self._rules, self._weighting = rules, weighting
        # Largest stake, and time, at the last update of the weights. Both are None before the
        # first update.
        self._max_stake: int | None = None
        self._time: int | None = None
        self.stakes = [row.stake for row in rows]
        self.base_reliabilities = array("Q", [row.base for row in rows])
        self.reliability_times = array("q", [row.since for row in rows])
        self.long_term_scores = array("Q", [row.long_term for row in rows])
        self.exclusion_thresholds = array("Q", [row.exclusion_threshold for row in rows])
        self.boosts = array("Q", [row.boost for row in rows])
        self.scores = array("Q", bytes(8 * len(rows)))
        self.weights = array("Q", bytes(8 * len(rows)))
        # Each of these columns has a flag for each node. The flags mean that the node is free,
        # that its weight changes with time, that its row changed since the last update of the
        # weights, and that it is a candidate.
        self.free = bytearray(row.is_free for row in rows)
        self.recovering_flags = bytearray(row.is_recovering for row in rows)
        self._changed = bytearray(len(rows))
        self.offered = bytearray(len(rows))

    def insert_row(self, index: int, row: IndexedCandidate) -> None:
        for column in self._get_columns():
            column.insert(index, 0)
        self.set_row(index, row)

    def set_row(self, index: int, row: IndexedCandidate) -> None:
        """Replace the row at an index."""
        self.stakes[index], self.boosts[index] = row.stake, row.boost
        self.base_reliabilities[index], self.reliability_times[index] = row.base, row.since
        self.long_term_scores[index], self.exclusion_thresholds[index] = (
            row.long_term,
            row.exclusion_threshold,
        )
        self.free[index], self.recovering_flags[index] = row.is_free, row.is_recovering
        self.weights[index] = self.offered[index] = 0
        self._changed[index] = 1

    def remove_row(self, index: int) -> None:
        for column in self._get_columns():
            del column[index]

    def update_weights(self, time: int, max_stake: int) -> None:
        """Update the weights for a block time and for the largest stake in the network."""
        if max_stake != self._max_stake:
            self._compute_stake_scores(max_stake)
            flags = self.free
        else:
            flags = (
                bytearray(len(self.free)) if time == self._time else self.recovering_flags.copy()
            )
            for index in _iter_flagged_indexes(self._changed):
                self.scores[index] = compute_stake_score(self.stakes[index], max_stake)
                flags[index] = self.free[index]
        self._changed = bytearray(len(self.free))
        self._max_stake, self._time = max_stake, time
        if 1 in flags:
            self._compute_weights(flags, time)

    def _get_columns(self) -> "tuple[list[int] | array[int] | bytearray, ...]":
        return (
            *(
                self.stakes,
                self.base_reliabilities,
                self.reliability_times,
                self.long_term_scores,
                self.exclusion_thresholds,
                self.boosts,
            ),
            *(
                self.scores,
                self.weights,
                self.free,
                self.recovering_flags,
                self._changed,
                self.offered,
            ),
        )

    def _compute_stake_scores(self, max_stake: int) -> None:
        """Compute the stake score S of every node.

        The score is computed once for each distinct stake.
        """
        if native is not None and native.compute_stake_scores(self.stakes, max_stake, self.scores):
            return
        score_by_stake = {
            stake: compute_stake_score(stake, max_stake) for stake in set(self.stakes)
        }
        self.scores = array("Q", [score_by_stake[stake] for stake in self.stakes])

    def _compute_weights(self, flags: bytearray, time: int) -> None:
        if native is None:
            self._compute_weights_in_python(flags, time)
            return
        columns = (
            *(
                self.base_reliabilities,
                self.reliability_times,
                self.long_term_scores,
                self.exclusion_thresholds,
                self.boosts,
                self.scores,
            ),
            *(flags, self.weights, self.offered),
        )
        table = encode_decay_table(self._rules.tau_seconds)
        native.compute_weights(columns, time, table, self._weighting.weight_floor)

    def _compute_weights_in_python(self, flags: bytearray, time: int) -> None:
        weights, offered_flags = self.weights, self.offered
        min_weight, tau = self._weighting.weight_floor, self._rules.tau_seconds
        columns = (
            self.base_reliabilities,
            self.reliability_times,
            self.long_term_scores,
            self.exclusion_thresholds,
            self.boosts,
            self.scores,
        )
        indexes = list(_iter_flagged_indexes(flags))
        rows = zip(indexes, *(map(column.__getitem__, indexes) for column in columns), strict=True)
        for index, base, since, long_term, exclusion_threshold, boost, score in rows:
            # `heal_reliability`, `multiply_fixed_point` and `compute_weight` are inlined here,
            # because most of the time of a selection is spent in this loop.
            decay_factor = _decay(time - since, tau) if time > since else ONE
            reliability = base + ((UNIT - base) * (ONE - decay_factor) >> _ONE_BITS)
            if reliability < exclusion_threshold:
                weights[index] = offered_flags[index] = 0
                continue
            qos = long_term * reliability // UNIT
            score_sum = score + qos
            weight = boost * score * qos // score_sum // UNIT if score_sum else 0
            weights[index] = max(min_weight, weight)
            offered_flags[index] = 1


def _iter_flagged_indexes(flags: bytearray) -> Iterator[int]:
    """Yield the indexes whose flag is 1."""
    index = flags.find(1)
    while index >= 0:
        yield index
        index = flags.find(1, index + 1)
