"""The registrations of a round: nodes that take a used index of the contract, or get a new one.

See docs/explanation/reports.md#registration.
"""

from typing import NamedTuple

from oracle.domain.ids import Address


class Reuse(NamedTuple):
    """A change of an index: `new_node` takes that of `old_node`, whose lane is "do not select"."""

    fresh: Address
    old: Address


class Registrations(NamedTuple):
    """The nodes that a round registers: `reused` indexes first, then the next ones in order."""

    reused: tuple[Reuse, ...] = ()
    appended: tuple[Address, ...] = ()

    @property
    def fresh(self) -> tuple[Address, ...]:
        """The nodes that get an index, in the order in which the contract assigns them."""
        return (*(pair.fresh for pair in self.reused), *self.appended)

    def placed(self, index_of: dict[Address, int], node_count: int) -> dict[int, Address]:
        """Return the node of each assigned index, in the contract's order.

        Args:
            index_by_node: the index of each node that has one.
            node_count: how many indexes were assigned before.

        Raises:
            ValueError: `old_node` has no index, or a node to register already has one.
        """
        given: dict[int, Address] = {}
        # Only the changes of indexes, so that the index of up to a million nodes is not copied.
        moved: dict[Address, int | None] = {}

        def index_now(node: Address) -> int | None:
            return moved[node] if node in moved else index_of.get(node)

        for fresh, old in self.reused:
            index = index_now(old)
            if index is None or index_now(fresh) is not None:
                raise ValueError(f"{fresh} cannot take the index of {old}")
            moved[old], moved[fresh] = None, index
            given[index] = fresh
        for index, fresh in enumerate(self.appended, start=node_count):
            if index_now(fresh) is not None:
                raise ValueError(f"{fresh} has an index already")
            moved[fresh] = index
            given[index] = fresh
        return given


NO_REGISTRATIONS = Registrations()
