"""Counts of the task ends of the last minutes, by creator and node.

Each count is updated when an end enters or leaves the window, so that a test for an incident reads
numbers only.
"""

from oracle.domain.ids import Address

# Creator and node of a task; None for an unknown creator.
EndKey = tuple[Address | None, Address]


class EndTotals:
    """The task ends of one creator, or of all creators.

    `pair_by_node` maps a node to its ends and timeouts. `failed_nodes` is the number of nodes
    with a timeout. `healthy_nodes` is the number of those that answered a task of another
    creator; it is not counted for all creators together.
    """

    __slots__ = (
        "_max_ends",
        "ends",
        "failed_nodes",
        "healthy_nodes",
        "pair_by_node",
        "timeouts",
    )

    def __init__(self) -> None:
        self.ends = self.timeouts = self.failed_nodes = self.healthy_nodes = 0
        self.pair_by_node: dict[Address, list[int]] = {}
        # None if the maximum must be computed again, because a node with the maximum lost an end.
        self._max_ends: int | None = 0

    @property
    def max_ends(self) -> int:
        """The maximum number of ends per node."""
        if self._max_ends is None:
            self._max_ends = max((ends for ends, _ in self.pair_by_node.values()), default=0)
        return self._max_ends

    def add(self, node: Address, ends: int, timeouts: int) -> None:
        """Add ends of a node, or remove them if the numbers are negative."""
        pair = self.pair_by_node.get(node)
        if pair is None:
            pair = self.pair_by_node[node] = [0, 0]
        ends_before, timeouts_before = pair
        ends_after = ends_before + ends
        timeouts_after = timeouts_before + timeouts
        self.ends += ends
        if ends_after:
            pair[0], pair[1] = ends_after, timeouts_after
        else:
            del self.pair_by_node[node]
        if timeouts:
            self.timeouts += timeouts
            self.failed_nodes += (timeouts_after > 0) - (timeouts_before > 0)
        if self._max_ends is not None:
            if ends_after > self._max_ends:
                self._max_ends = ends_after
            elif ends < 0 and ends_before == self._max_ends:
                self._max_ends = None

    def has_answered(self, node: Address) -> bool:
        """Return whether the node answered a task."""
        pair = self.pair_by_node.get(node)
        return pair is not None and pair[0] > pair[1]


class EndWindow:
    """The task ends of a window, by creator and together."""

    def __init__(self) -> None:
        self.all_ends = EndTotals()
        self.ends_by_creator: dict[Address | None, EndTotals] = {}
        # The creators whose tasks a node failed, and the number of those that it answered.
        self._failed_creators: dict[Address, set[Address | None]] = {}
        self._answered_creators: dict[Address, int] = {}

    def add(self, key: EndKey, ends: int, timeouts: int) -> None:
        """Add ends of a node to the window, or remove them if the numbers are negative."""
        creator, node = key
        failed_creators = self._failed_creators.get(node)
        if failed_creators is not None:
            self._adjust_healthy_node_counts(node, failed_creators, -1)
        totals = self.ends_by_creator.get(creator)
        if totals is None:
            totals = self.ends_by_creator[creator] = EndTotals()
        had_answered = totals.has_answered(node)
        totals.add(node, ends, timeouts)
        self.all_ends.add(node, ends, timeouts)
        has_answered = totals.has_answered(node)
        if has_answered is not had_answered:
            count = self._answered_creators.get(node, 0) + (1 if has_answered else -1)
            self._answered_creators[node] = count
            if not count:
                del self._answered_creators[node]
        if timeouts:
            self._update_failed_creators(creator, node, totals)
        failed_creators = self._failed_creators.get(node)
        if failed_creators is not None:
            self._adjust_healthy_node_counts(node, failed_creators, 1)
        if not totals.ends:
            del self.ends_by_creator[creator]

    def _update_failed_creators(
        self, creator: Address | None, node: Address, totals: EndTotals
    ) -> None:
        failed_creators = self._failed_creators.setdefault(node, set())
        pair = totals.pair_by_node.get(node)
        if pair is not None and pair[1]:
            failed_creators.add(creator)
        else:
            failed_creators.discard(creator)
        if not failed_creators:
            del self._failed_creators[node]

    def _adjust_healthy_node_counts(
        self, node: Address, failed_creators: set[Address | None], step: int
    ) -> None:
        """Add `step` to `healthy_nodes` of each creator for whom the node is healthy.

        A node counts as healthy for a creator if it answered a task of another creator.
        """
        answered = self._answered_creators.get(node, 0)
        for creator in failed_creators:
            totals = self.ends_by_creator[creator]
            if answered > totals.has_answered(node):
                totals.healthy_nodes += step

    def count_failed_outside_worst_creator(self) -> int:
        """Count the nodes with a timeout in a task of any creator but the worst one.

        The worst creator is the creator with the most timeouts.
        """
        largest = max(
            self.ends_by_creator, key=lambda key: (self.ends_by_creator[key].timeouts, key or "")
        )
        pair_by_node = self.all_ends.pair_by_node
        only_largest = sum(
            0 < timeouts == pair_by_node[node][1]
            for node, (_, timeouts) in self.ends_by_creator[largest].pair_by_node.items()
        )
        return self.all_ends.failed_nodes - only_largest

    def count_failing_creators(self) -> int:
        """Count the creators with a timeout."""
        return sum(totals.timeouts > 0 for totals in self.ends_by_creator.values())
