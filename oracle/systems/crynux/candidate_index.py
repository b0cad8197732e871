"""Nodes that fit one kind of task, with their weights side by side, for draws at C speed."""

from bisect import bisect_left
from collections.abc import Iterable, Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

from oracle.domain.fixed_point import ONE, UNIT, decay
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.selection_weight import Weighting, stake_score, weight_of

_ONE_BITS = ONE.bit_length() - 1
# Elapsed times recur from block to block, each for other nodes.
_decay = lru_cache(maxsize=1 << 16)(decay)


@dataclass(slots=True)
class IndexedCandidate:
    """What a node's weight for one kind of task is made of; fractions in units of 10^-18.

    `base` at `since` is its reliability (docs/reference/scoring-rules.md#reliability), `boost` its
    M, `score` its S. It is excluded while its reliability is below `barred_below`. `free`: neither
    busy nor paused.
    """

    free: bool
    stake: int
    boost: int
    long_term: int
    base: int
    since: int
    barred_below: int
    score: int = 0

    @property
    def heals(self) -> bool:
        """Tell whether weight and exclusion change with time."""
        return self.free and self.base != UNIT

    @property
    def is_offered(self) -> bool:
        """Tell whether it is a candidate with H = 1."""
        return self.free and self.base == UNIT and self.barred_below <= UNIT


class CandidateList(NamedTuple):
    """Places ascending by address, for `draw.picks`: the last two are the caller's to change."""

    addresses: list[Address]
    weights: list[int]
    offered: bytearray


class CandidateIndex:
    """Standings in parallel lists, ascending by address; weights true at the last `settle`.

    Nodes that are busy, paused or excluded keep their place, with weight 0: most changes move
    nothing. Only nodes that heal have a weight that changes with time.
    """

    __slots__ = (
        "_addresses", "_heal", "_largest", "_offered", "_rows", "_rules", "_time", "_weighting",
        "_weights",
    )  # fmt: skip

    def __init__(
        self,
        rules: Rules,
        weighting: Weighting,
        candidates: Iterable[tuple[Address, IndexedCandidate]],
    ) -> None:
        self._rules = rules
        self._weighting = weighting
        ordered = sorted(candidates, key=lambda each: each[0])
        self._addresses = [address for address, _ in ordered]
        self._rows = [candidate for _, candidate in ordered]
        self._weights = [0] * len(ordered)
        # One byte a place: is it a candidate, and does it heal.
        self._offered = bytearray(len(ordered))
        self._heal = bytearray(len(ordered))
        # What the weights were settled by; None: they were not.
        self._largest: int | None = None
        self._time: int | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, address: Address, candidate: IndexedCandidate) -> None:
        """Take a node in, or change it."""
        place = bisect_left(self._addresses, address)
        if not self._is_at(place, address):
            self._addresses.insert(place, address)
            self._rows.insert(place, candidate)
            self._weights.insert(place, 0)
            self._offered.insert(place, 0)
            self._heal.insert(place, 0)
        self._rows[place] = candidate
        if self._largest is not None:
            self._appraise(place, self._largest)
            self._time = None

    def drop(self, address: Address) -> None:
        """Take a node out, if it is there."""
        place = bisect_left(self._addresses, address)
        if self._is_at(place, address):
            for column in (self._addresses, self._rows, self._weights, self._offered, self._heal):
                del column[place]

    def settle(self, time: int, largest: int) -> None:
        """Make the weights true at a block time, `largest` being the network's largest stake."""
        if largest != self._largest:
            self._appraise_all(largest)
            self._largest, self._time = largest, None
        if time != self._time:
            self._heal_until(time)
            self._time = time

    def offer(self, taken: AbstractSet[Address]) -> CandidateList | None:
        """Return all candidates but those taken, as settled; None: there is none."""
        offered = self._offered.copy()
        places = [bisect_left(self._addresses, address) for address in taken]
        hidden = [
            place
            for place, address in zip(places, taken, strict=True)
            if self._is_at(place, address)
        ]
        for place in hidden:
            offered[place] = 0
        if not any(offered):
            return None
        weights = self._weights.copy()
        for place in hidden:
            weights[place] = 0
        return CandidateList(self._addresses, weights, offered)

    def _is_at(self, place: int, address: Address) -> bool:
        return place < len(self._addresses) and self._addresses[place] == address

    def _appraise(self, place: int, largest: int) -> None:
        """Weigh a place that does not heal; note one that does."""
        row = self._rows[place]
        row.score = stake_score(row.stake, largest)
        self._heal[place] = row.heals
        self._offered[place] = row.is_offered
        self._weights[place] = self._settled_weight(row)

    def _appraise_all(self, largest: int) -> None:
        """Weigh every place anew; many stakes are equal."""
        scores: dict[int, int] = {}
        for row in self._rows:
            score = scores.get(row.stake)
            if score is None:
                score = scores[row.stake] = stake_score(row.stake, largest)
            row.score = score
        self._weights = [self._settled_weight(row) for row in self._rows]
        self._heal = bytearray(row.heals for row in self._rows)
        self._offered = bytearray(row.is_offered for row in self._rows)

    def _settled_weight(self, row: IndexedCandidate) -> int:
        """Return the weight of a candidate whose H is 1; 0 of all others."""
        if not row.is_offered:
            return 0
        return weight_of(row.boost, row.score, row.long_term, self._weighting)

    def _heal_until(self, time: int) -> None:
        rows, weights, offered = self._rows, self._weights, self._offered
        least, tau = self._weighting.weight_floor, self._rules.tau_seconds
        for place in compress(range(len(rows)), self._heal):
            row = rows[place]
            left = _decay(time - row.since, tau) if time > row.since else ONE
            # `recovered`, `times` and `weight_of` without their calls: here selection waits.
            reliability = row.base + ((UNIT - row.base) * (ONE - left) >> _ONE_BITS)
            if reliability < row.barred_below:
                weights[place] = offered[place] = 0
                continue
            qos = row.long_term * reliability // UNIT
            score = row.score
            both = score + qos
            weight = row.boost * score * qos // both // UNIT if both else 0
            weights[place] = max(least, weight)
            offered[place] = 1
