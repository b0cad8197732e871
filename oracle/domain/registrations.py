"""The registrations of a round: nodes that get a reused or a new index of the contract.

See docs/explanation/reports.md#registration.
"""

from typing import NamedTuple

from oracle.domain.ids import Address


class IndexReuse(NamedTuple):
    """A reused index: `new_node` replaces `old_node`, whose lane is "do not select"."""

    new_node: Address
    old_node: Address


class Registrations(NamedTuple):
    """The nodes that a round registers, first at `reused` indexes, then at new ones in order."""

    reused: tuple[IndexReuse, ...] = ()
    appended: tuple[Address, ...] = ()

    @property
    def new_nodes(self) -> tuple[Address, ...]:
        """The nodes that get an index, in the order in which the contract assigns them."""
        return (*(pair.new_node for pair in self.reused), *self.appended)

    def assign_indexes(
        self, index_by_node: dict[Address, int], node_count: int
    ) -> dict[int, Address]:
        """Return the node of each assigned index, in the contract's order.

        Args:
            index_by_node: the index of each node that has one.
            node_count: the number of indexes that were assigned before.

        Raises:
            ValueError: an `old_node` has no index, or a node to register already has one.
        """
        node_by_index: dict[int, Address] = {}
        # Only the changed entries, so that a mapping of up to a million nodes is not copied.
        changed_indexes: dict[Address, int | None] = {}

        def get_current_index(node: Address) -> int | None:
            return changed_indexes[node] if node in changed_indexes else index_by_node.get(node)

        for new_node, old_node in self.reused:
            index = get_current_index(old_node)
            if index is None or get_current_index(new_node) is not None:
                raise ValueError(f"{new_node} cannot take the index of {old_node}")
            changed_indexes[old_node], changed_indexes[new_node] = None, index
            node_by_index[index] = new_node
        for index, new_node in enumerate(self.appended, start=node_count):
            if get_current_index(new_node) is not None:
                raise ValueError(f"{new_node} has an index already")
            changed_indexes[new_node] = index
            node_by_index[index] = new_node
        return node_by_index


NO_REGISTRATIONS = Registrations()
