"""Nodes that could be given a task now, kept from block to block, and whether one fits.

The cost of a block grows with the changed nodes, for each requirement of a waiting task.
"""

from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, field

from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.systems.crynux.requirements import (
    Out,
    Requirement,
    misfit_reason,
    unavailability_reason,
)
from oracle.systems.crynux.selection_weight import Weighting

# Beyond this many searches all are cleared, so that invented requirements cannot fill the memory.
_LOOKS = 4096
# Rows that are no longer free and may stay in the list of nodes that became free.
_STALE = 64


@dataclass(slots=True)
class _SearchState:
    """The progress of the search for one requirement.

    `matches`: free nodes that fit, as far as the search got; some may have changed since.
    `seen_count`: how many of the nodes that became free were checked.
    """

    counted: frozenset[str]
    found: dict[Address, Node] = field(default_factory=dict)
    seen: int = 0


class FreeNodes:
    """The free nodes, by immutable rows: each change of a node is a new row.

    Times are block times in seconds.
    """

    __slots__ = ("_came", "_excluded", "_free", "_looks", "_rules", "_time", "_weighting")

    def __init__(self, rules: Rules, weighting: Weighting) -> None:
        self._rules = rules
        self._weighting = weighting
        self._time = 0
        self._free: dict[Address, Node] = {}
        # Neither busy nor paused, but excluded for low reliability at `_time`.
        self._excluded: dict[Address, Node] = {}
        # Rows in the order in which they became free; some may no longer be.
        self._came: list[Node] = []
        self._looks: dict[Requirement, _SearchState] = {}

    @property
    def nodes(self) -> Mapping[Address, Node]:
        """Return the free nodes, as of the last `advance_to`."""
        return self._free

    def idle(self) -> Iterator[Node]:
        """Yield the nodes that are neither busy nor paused, whatever their reliability."""
        yield from self._free.values()
        yield from self._excluded.values()

    def put(self, node: Node) -> None:
        """Apply a node's current row."""
        self.drop(node.address)
        out = unavailability_reason(node, self._time, self._rules)
        if out is None:
            self._free[node.address] = node
            self._came.append(node)
        elif out is Out.EXCLUDED:
            self._excluded[node.address] = node

    def drop(self, address: Address) -> None:
        """Remove a node, if it is known."""
        self._free.pop(address, None)
        self._excluded.pop(address, None)

    def settle(self, time: int) -> None:
        """Heal reliability up to a block time; it falls if time goes back."""
        back = time < self._time
        self._time = time
        for node in [*self.idle()] if back else [*self._excluded.values()]:
            if back or not is_excluded(node, time, self._rules):
                self.put(node)
        if len(self._came) > 2 * len(self._free) + _STALE or len(self._looks) > _LOOKS:
            self._came = [*self._free.values()]
            self._looks.clear()

    def has_fitting(self, wanted: Requirement, taken: AbstractSet[Address]) -> bool:
        """Return whether a free node fits that is not reserved, as of the last `advance_to`."""
        look = self._looks.get(wanted)
        if look is None:
            look = self._looks[wanted] = _SearchState(self._weighting.counted(wanted.models))
        return self._is_found(look, taken) or self._find_fitting(look, wanted, taken)

    def _is_found(self, look: _SearchState, taken: AbstractSet[Address]) -> bool:
        """Return whether an earlier match is still free and not reserved; remove stale matches."""
        gone, found = [], False
        for address, node in look.found.items():
            if self._free.get(address) is not node:
                gone.append(address)
            elif address not in taken:
                found = True
                break
        for address in gone:
            del look.found[address]
        return found

    def _find_fitting(
        self, look: _SearchState, wanted: Requirement, taken: AbstractSet[Address]
    ) -> bool:
        """Return whether a node that became free since fits; stop the search at the first match."""
        for place in range(look.seen, len(self._came)):
            node, look.seen = self._came[place], place + 1
            address = node.address
            if self._free.get(address) is node and self._fits(node, wanted, look.counted):
                look.found[address] = node
                if address not in taken:
                    return True
        return False

    def _fits(self, node: Node, wanted: Requirement, counted: frozenset[str]) -> bool:
        has_models = self._weighting.fallback or counted.issubset(node.models)
        return has_models and misfit_reason(node, wanted) is None
