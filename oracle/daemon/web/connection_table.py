"""Connections that wait for a complete request: how many may wait, and which is closed first.

A new connection is always accepted; at a limit, the connection that waits longest is closed. A
client that sends a request at once is therefore served, however many others hold their connections
open (decision 0178). Independent of sockets and clocks.
"""

from collections.abc import Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")

# Why a connection is closed: too many of its network, or too many in total.
Surplus = Literal["address", "total"]


class _OpenConnection(NamedTuple):
    network: str
    since: float


class ConnectionTable(Generic[T]):
    """Waiting connections in the order of arrival, grouped by client network."""

    def __init__(self, most: int, most_per_address: int) -> None:
        """Create an empty table; both limits are at least one."""
        self._most = most
        self._most_per_address = most_per_address
        self._all: dict[T, _OpenConnection] = {}
        self._of: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, one: T) -> bool:
        return one in self._all

    def add(self, one: T, network: str, now: float) -> tuple[T, Surplus] | None:
        """Add a connection; return the connection removed to make room, if any, and why."""
        gone = self._surplus(network)
        if gone is not None:
            self.remove(gone[0])
        self._all[one] = _OpenConnection(network, now)
        self._of.setdefault(network, {})[one] = None
        return gone

    def remove(self, one: T) -> bool:
        """Remove a connection; return whether it was in the table."""
        place = self._all.pop(one, None)
        if place is None:
            return False
        others = self._of[place.network]
        del others[one]
        if not others:
            del self._of[place.network]
        return True

    def expired(self, since: float) -> list[T]:
        """Remove and return all connections that arrived at this time or before."""
        late = []
        for one, place in self._all.items():
            if place.since > since:
                break
            late.append(one)
        return self._removed(late)

    def oldest_half(self) -> list[T]:
        """Remove and return the half of the connections that arrived first, rounded up."""
        half = (len(self._all) + 1) // 2
        return self._removed([one for one, _ in zip(self._all, range(half), strict=False)])

    def _surplus(self, network: str) -> tuple[T, Surplus] | None:
        mine = self._of.get(network, {})
        is_full = len(self._all) >= self._most
        # In a full table, a network that has its share takes no place from others.
        has_its_share = len(mine) * len(self._of) >= len(self._all)
        if len(mine) >= self._most_per_address or (is_full and mine and has_its_share):
            return next(iter(mine)), "address"
        return (next(iter(self._all)), "total") if is_full else None

    def _removed(self, them: list[T]) -> list[T]:
        for one in them:
            self.remove(one)
        return them

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._all))
