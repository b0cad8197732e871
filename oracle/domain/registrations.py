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
        holders = dict(index_of)
        given: dict[int, Address] = {}
        for fresh, old in self.reused:
            if old not in holders or fresh in holders:
                raise ValueError(f"{fresh} cannot take the index of {old}")
            index = holders.pop(old)
            holders[fresh] = index
            given[index] = fresh
        for place, fresh in enumerate(self.appended):
            if fresh in holders:
                raise ValueError(f"{fresh} has an index already")
            holders[fresh] = node_count + place
            given[node_count + place] = fresh
        return given


NO_REGISTRATIONS = Registrations()
