"""Nodes that fit one kind of task, with their weights side by side, for draws at C speed."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Set as AbstractSet
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.candidate_columns import CandidateColumns, IndexedCandidate
from oracle.systems.crynux.selection_weight import Weighting


class CandidateList(NamedTuple):
    """Places ascending by address, for `draw.picks`: the last two are the caller's to change."""

    addresses: list[Address]
    weights: "list[int] | array[int]"
    offered: bytearray


class CandidateIndex:
    """Candidates in columns, ascending by address; weights true at the last `settle`.

    Nodes that are busy, paused or excluded keep their place, with weight 0: most changes move
    nothing. Only nodes that heal have a weight that changes with time.
    """

    __slots__ = ("_addresses", "_columns")

    def __init__(
        self,
        rules: Rules,
        weighting: Weighting,
        candidates: Iterable[tuple[Address, IndexedCandidate]],
    ) -> None:
        ordered = sorted(candidates, key=lambda each: each[0])
        self._addresses = [address for address, _ in ordered]
        self._columns = CandidateColumns(rules, weighting, [row for _, row in ordered])

    def __len__(self) -> int:
        return len(self._addresses)

    def put(self, address: Address, candidate: IndexedCandidate) -> None:
        """Take a node in, or change it."""
        place = bisect_left(self._addresses, address)
        if self._is_at(place, address):
            self._columns.put(place, candidate)
        else:
            self._addresses.insert(place, address)
            self._columns.insert(place, candidate)

    def drop(self, address: Address) -> None:
        """Take a node out, if it is there."""
        place = bisect_left(self._addresses, address)
        if self._is_at(place, address):
            del self._addresses[place]
            self._columns.remove(place)

    def settle(self, time: int, largest: int) -> None:
        """Make the weights true at a block time, `largest` being the network's largest stake."""
        self._columns.settle(time, largest)

    def offer(self, taken: AbstractSet[Address]) -> CandidateList | None:
        """Return all candidates but those taken, as settled; None: there is none."""
        offered = self._columns.offered.copy()
        places = [bisect_left(self._addresses, address) for address in taken]
        hidden = [
            place
            for place, address in zip(places, taken, strict=True)
            if self._is_at(place, address)
        ]
        for place in hidden:
            offered[place] = 0
        if 1 not in offered:
            return None
        weights = self._columns.weights[:]
        for place in hidden:
            weights[place] = 0
        return CandidateList(self._addresses, weights, offered)

    def _is_at(self, place: int, address: Address) -> bool:
        return place < len(self._addresses) and self._addresses[place] == address
