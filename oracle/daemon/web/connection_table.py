"""Limits the connections that wait for a complete request, and chooses which one is closed first.

A new connection is always accepted; at a limit, the connection that waits longest is closed. A
client that sends a request at once is therefore served, however many others hold their connections
open (decision 0178). This module uses no socket and no clock.
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

    def __init__(self, max_connections: int, max_per_address: int) -> None:
        """Create an empty table; both limits are at least one."""
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._connections: dict[T, _OpenConnection] = {}
        self._connections_by_network: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, connection: T) -> bool:
        return connection in self._connections

    def add_connection(self, connection: T, network: str, now: float) -> tuple[T, Surplus] | None:
        """Add a connection; return the connection removed to make room, if any, and why."""
        surplus = self._find_surplus(network)
        if surplus is not None:
            self.remove_connection(surplus[0])
        self._connections[connection] = _OpenConnection(network, now)
        self._connections_by_network.setdefault(network, {})[connection] = None
        return surplus

    def remove_connection(self, connection: T) -> bool:
        """Remove a connection; return whether it was in the table."""
        open_connection = self._connections.pop(connection, None)
        if open_connection is None:
            return False
        network_connections = self._connections_by_network[open_connection.network]
        del network_connections[connection]
        if not network_connections:
            del self._connections_by_network[open_connection.network]
        return True

    def remove_expired(self, cutoff: float) -> list[T]:
        """Remove and return all connections that arrived at this time or before."""
        expired = []
        for connection, open_connection in self._connections.items():
            if open_connection.since > cutoff:
                break
            expired.append(connection)
        return self._remove_all(expired)

    def remove_oldest_half(self) -> list[T]:
        """Remove and return the half of the connections that arrived first, rounded up."""
        half_count = (len(self._connections) + 1) // 2
        return self._remove_all(
            [
                connection
                for connection, _ in zip(self._connections, range(half_count), strict=False)
            ]
        )

    def _find_surplus(self, network: str) -> tuple[T, Surplus] | None:
        network_connections = self._connections_by_network.get(network, {})
        is_full = len(self._connections) >= self._max_connections
        # In a full table, a network that holds its share gets no place of another network.
        has_its_share = len(network_connections) * len(self._connections_by_network) >= len(
            self._connections
        )
        if len(network_connections) >= self._max_per_address or (
            is_full and network_connections and has_its_share
        ):
            return next(iter(network_connections)), "address"
        return (next(iter(self._connections)), "total") if is_full else None

    def _remove_all(self, connections: list[T]) -> list[T]:
        for connection in connections:
            self.remove_connection(connection)
        return connections

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._connections))
