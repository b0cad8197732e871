"""Tracks the free nodes from block to block, and checks whether any of them fits.

The cost of a block grows with the number of changed nodes times the number of different
requirements of waiting tasks.
"""

from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, field

from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.systems.crynux.crynux_policy import Weighting
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    Requirement,
    find_misfit_reason,
    find_unavailability_reason,
)

# Maximum number of searches. If there are more, all of them are dropped, so that made-up
# requirements cannot exhaust the memory.
_MAX_SEARCHES = 4096
# The list of freed nodes is rebuilt if its length exceeds twice the number of free nodes plus this
# number.
_MAX_STALE_ROWS = 64


@dataclass(slots=True)
class _SearchState:
    """The progress of the search for nodes that fit a requirement.

    `matches` holds the fitting free nodes that were found, some of which may have changed since.
    `seen_count` is how many of the nodes that became free were checked.
    """

    counted_models: frozenset[str]
    matches: dict[Address, Node] = field(default_factory=dict)
    seen_count: int = 0


class FreeNodes:
    """The nodes that are free.

    Rows of nodes are immutable, so each change of a node is a new row. Times are block times in
    seconds.
    """

    __slots__ = (
        "_excluded_nodes",
        "_free_nodes",
        "_freed_rows",
        "_rules",
        "_search_by_requirement",
        "_time",
        "_weighting",
    )

    def __init__(self, rules: Rules, weighting: Weighting) -> None:
        self._rules = rules
        self._weighting = weighting
        self._time = 0
        self._free_nodes: dict[Address, Node] = {}
        # Nodes that are excluded for low reliability at `_time`, and are neither busy nor paused.
        self._excluded_nodes: dict[Address, Node] = {}
        # Rows are in the order in which the nodes became free. Some of these nodes may no longer
        # be free.
        self._freed_rows: list[Node] = []
        self._search_by_requirement: dict[Requirement, _SearchState] = {}

    @property
    def nodes(self) -> Mapping[Address, Node]:
        """The free nodes as of the last `advance_to`."""
        return self._free_nodes

    def iter_idle_nodes(self) -> Iterator[Node]:
        """Yield the nodes that are neither busy nor paused, whatever their reliability is."""
        yield from self._free_nodes.values()
        yield from self._excluded_nodes.values()

    def update_node(self, node: Node) -> None:
        """Store the current row of a node."""
        self.remove_node(node.address)
        reason = find_unavailability_reason(node, self._time, self._rules)
        if reason is None:
            self._free_nodes[node.address] = node
            self._freed_rows.append(node)
        elif reason is IneligibilityReason.EXCLUDED:
            self._excluded_nodes[node.address] = node

    def remove_node(self, address: Address) -> None:
        """Remove a node if it is known."""
        self._free_nodes.pop(address, None)
        self._excluded_nodes.pop(address, None)

    def advance_to(self, time: int) -> None:
        """Update which nodes are excluded at a block time.

        The time may be earlier than before.
        """
        is_earlier = time < self._time
        self._time = time
        for node in [*self.iter_idle_nodes()] if is_earlier else [*self._excluded_nodes.values()]:
            if is_earlier or not is_excluded(node, time, self._rules):
                self.update_node(node)
        if (
            len(self._freed_rows) > 2 * len(self._free_nodes) + _MAX_STALE_ROWS
            or len(self._search_by_requirement) > _MAX_SEARCHES
        ):
            self._freed_rows = [*self._free_nodes.values()]
            self._search_by_requirement.clear()

    def has_matching_node(self, requirement: Requirement, reserved: AbstractSet[Address]) -> bool:
        """Return whether a free node that is not reserved fits the requirement.

        Nodes are as of the last `advance_to`.
        """
        search = self._search_by_requirement.get(requirement)
        if search is None:
            search = self._search_by_requirement[requirement] = _SearchState(
                self._weighting.select_counted_models(requirement.models)
            )
        return self._has_cached_match(search, reserved) or self._has_new_match(
            search, requirement, reserved
        )

    def _has_cached_match(self, search: _SearchState, reserved: AbstractSet[Address]) -> bool:
        """Return whether an earlier match is still free and not reserved.

        Outdated matches are dropped.
        """
        stale_addresses, has_match = [], False
        for address, node in search.matches.items():
            if self._free_nodes.get(address) is not node:
                stale_addresses.append(address)
            elif address not in reserved:
                has_match = True
                break
        for address in stale_addresses:
            del search.matches[address]
        return has_match

    def _has_new_match(
        self, search: _SearchState, requirement: Requirement, reserved: AbstractSet[Address]
    ) -> bool:
        """Return whether one of the nodes that became free since the last search fits.

        The search stops at the first match.
        """
        for index in range(search.seen_count, len(self._freed_rows)):
            node = self._freed_rows[index]
            search.seen_count = index + 1
            address = node.address
            if self._free_nodes.get(address) is node and self._meets_requirement(
                node, requirement, search.counted_models
            ):
                search.matches[address] = node
                if address not in reserved:
                    return True
        return False

    def _meets_requirement(
        self, node: Node, requirement: Requirement, counted_models: frozenset[str]
    ) -> bool:
        has_models = self._weighting.fallback or counted_models.issubset(node.models)
        return has_models and find_misfit_reason(node, requirement) is None
