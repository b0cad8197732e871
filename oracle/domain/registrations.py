"""Whom a round registers: who takes a used index of the oracle contract, and who gets a new one.

See docs/explanation/reports.md#registration.
"""

from typing import NamedTuple

from oracle.domain.ids import Address


class Reuse(NamedTuple):
    """An index changes hands: `fresh` takes that of `old`, whose lane says "do not select"."""

    fresh: Address
    old: Address


class Registrations(NamedTuple):
    """The nodes that a round registers: `reused` indexes first, then the next ones in order."""

    reused: tuple[Reuse, ...] = ()
    appended: tuple[Address, ...] = ()

    @property
    def fresh(self) -> tuple[Address, ...]:
        """The nodes that get an index, in the order in which the contract gives them."""
        return (*(pair.fresh for pair in self.reused), *self.appended)

    def placed(self, index_of: dict[Address, int], node_count: int) -> dict[int, Address]:
        """Return index to node, as the contract gives them in this order.

        Args:
            index_of: the index of each node that has one.
            node_count: how many indexes were given before.

        Raises:
            ValueError: `old` has no index, or a node that is to get one has one already.
        """
        given: dict[int, Address] = {}
        # What becomes of those who are named here; a million others are not copied for them.
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
