"""The order of a round's leaves by address, for tests that make leaves themselves."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from oracle.domain.ids import Address


def compute_next_addresses(nodes: Iterable[Address]) -> Mapping[Address, Address]:
    """Return the next higher address of each address; the lowest follows the highest."""
    ascending = sorted(nodes)
    return dict(zip(ascending, [*ascending[1:], *ascending[:1]], strict=True))


def find_predecessor(sorted_addresses: Sequence[Address], address: Address) -> Address:
    """Return the address whose leaf proves that `address`, which has no leaf, is absent.

    `sorted_addresses` are the addresses of all leaves, at least one, in ascending order.
    """
    return sorted_addresses[bisect_left(sorted_addresses, address) - 1]
