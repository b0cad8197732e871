"""Accepts connections in place of asyncio, and keeps each one until its request is complete.

asyncio accepts connections without a limit, and if file descriptors run out, it logs a traceback
for each connection in its backlog (decision 0178). A connection that waits in this module needs a
descriptor and its received bytes, but no thread, task, parser or place in the selector. It is
checked about a dozen times in total, even if it sends single bytes.

A new connection is always accepted. At a limit, the connection that has waited longest is closed.
Therefore a client that sends a request at once is served, even if many others keep their
connections open.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, Literal, TypeVar

from oracle.daemon.config.listener_section import ListenerSection
from oracle.daemon.web.listener import get_max_pending_connections
from oracle.daemon.web.rate_limit import get_client_network
from oracle.telemetry.service_metrics import RefusalReason

_FIRST_SECONDS = 0.004
# Waits before the checks of a connection, in seconds. The last wait (4 s) repeats.
_WAIT_SECONDS = tuple(_FIRST_SECONDS * 2**exponent for exponent in range(11))
# Maximum number of connections that one iteration of the loop accepts, and maximum number that it
# checks.
_MAX_PER_TICK = 64
# The maximum size of the request line and headers; this module does not read bodies.
MAX_HEAD_BYTES = 16 * 1024
_HEAD_END = b"\r\n\r\n"
# No connections are accepted for this long after the process ran out of file descriptors.
_PAUSE_SECONDS = 0.25
_RESOURCE_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

T = TypeVar("T")

# A connection is closed because there are too many from its network, or too many in total.
Surplus = Literal["address", "total"]


class ConnectionTable(Generic[T]):
    """Waiting connections in order of arrival, grouped by client network."""

    def __init__(self, max_connections: int, max_per_address: int) -> None:
        """Create an empty table; both limits must be at least one."""
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        # The client network of each connection, and the time of its arrival.
        self._connections: dict[T, tuple[str, float]] = {}
        self._connections_by_network: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, connection: T) -> bool:
        return connection in self._connections

    def add_connection(self, connection: T, network: str, now: float) -> tuple[T, Surplus] | None:
        """Add a connection, and return any connection evicted in its place, with the reason.

        The result is None if no connection had to be evicted.
        """
        surplus_connection = self._find_surplus_connection(network)
        if surplus_connection is not None:
            self.remove_connection(surplus_connection[0])
        self._connections[connection] = (network, now)
        self._connections_by_network.setdefault(network, {})[connection] = None
        return surplus_connection

    def remove_connection(self, connection: T) -> bool:
        """Remove a connection, and return whether it was in the table."""
        open_connection = self._connections.pop(connection, None)
        if open_connection is None:
            return False
        network, _ = open_connection
        network_connections = self._connections_by_network[network]
        del network_connections[connection]
        if not network_connections:
            del self._connections_by_network[network]
        return True

    def remove_expired_connections(self, cutoff: float) -> list[T]:
        """Remove and return all connections that arrived by this time."""
        expired_connections = []
        for connection, (_, added_at) in self._connections.items():
            if added_at > cutoff:
                break
            expired_connections.append(connection)
        return self._remove_connections(expired_connections)

    def remove_oldest_half(self) -> list[T]:
        """Remove and return the older half of the connections, rounded up."""
        half_count = (len(self._connections) + 1) // 2
        return self._remove_connections(
            [
                connection
                for connection, _ in zip(self._connections, range(half_count), strict=False)
            ]
        )

    def _find_surplus_connection(self, network: str) -> tuple[T, Surplus] | None:
        network_connections = self._connections_by_network.get(network, {})
        is_full = len(self._connections) >= self._max_connections
        # If the table is full and this network holds at least an average number of connections, it
        # loses one of its own, so that it displaces no other network.
        has_average_share = len(network_connections) * len(self._connections_by_network) >= len(
            self._connections
        )
        if len(network_connections) >= self._max_per_address or (
            is_full and network_connections and has_average_share
        ):
            return next(iter(network_connections)), "address"
        return (next(iter(self._connections)), "total") if is_full else None

    def _remove_connections(self, connections: list[T]) -> list[T]:
        for connection in connections:
            self.remove_connection(connection)
        return connections

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._connections))


class RecheckSchedule(Generic[T]):
    """Schedules checks of waiting connections, soon at first and then at doubling intervals.

    A slow client therefore causes only about a dozen checks, even if it sends single bytes.
    Connections with equal waits share one queue, which is ordered by time.
    """

    def __init__(self) -> None:
        self._queues: tuple[deque[tuple[float, T]], ...] = tuple(deque() for _ in _WAIT_SECONDS)

    def add_connection(self, connection: T, now: float, check_count: int) -> None:
        """Schedule the next check of a connection.

        `check_count` is the number of its checks so far.
        """
        queue_index = min(check_count, len(_WAIT_SECONDS) - 1)
        self._queues[queue_index].append((now + _WAIT_SECONDS[queue_index], connection))

    def take_due_connections(self, now: float, max_count: int) -> list[T]:
        """Remove and return up to `max_count` due connections."""
        due_connections: list[T] = []
        for queue in self._queues:
            while queue and queue[0][0] <= now and len(due_connections) < max_count:
                due_connections.append(queue.popleft()[1])
        return due_connections

    def get_next_check_time(self) -> float | None:
        """Return when the next connection is due for a check, or None if none is scheduled."""
        return min((queue[0][0] for queue in self._queues if queue), default=None)


class PendingConnection:
    """A waiting connection: `head` holds its received bytes, `drop` closes it silently."""

    __slots__ = ("address", "check_count", "drop", "head", "is_watched", "sock")

    def __init__(self, sock: socket.socket, address: str) -> None:
        """Store the socket and the client network, to which the limits apply.

        The network is given as `address`.
        """
        self.sock = sock
        self.address = address
        self.head = bytearray()
        # True while the connection is being checked, and the number of checks so far.
        self.is_watched = True
        self.check_count = 0
        self.drop: Callable[[], None] = sock.close


class Acceptor:
    """Accepts the connections of one listening socket; used only in the server's event loop.

    `hand_over` is called with a connection whose request is complete. If `is_tls` is true, it is
    called at the first byte, and the connection still counts as waiting until
    `mark_request_complete` is called.
    """

    def __init__(
        self,
        listening_socket: socket.socket,
        section: ListenerSection,
        hand_over: Callable[[PendingConnection], None],
        on_refused: Callable[[RefusalReason, str], None],
        *,
        is_tls: bool = False,
    ) -> None:
        self._listening_socket = listening_socket
        self._header_seconds = section.header_timeout_seconds
        self._hand_over = hand_over
        self._on_refused = on_refused
        self._is_tls = is_tls
        self._pending_connections = ConnectionTable[PendingConnection](
            get_max_pending_connections(section), section.max_connections_per_address
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._schedule = RecheckSchedule[PendingConnection]()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start_accepting(self) -> None:
        """Start accepting connections; must be called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._resume_accepting()
        self._drop_slow_connections()

    def stop_accepting(self) -> None:
        """Stop accepting connections, and close all pending connections."""
        for timer in self._timers.values():
            timer.cancel()
        self._running_loop.remove_reader(self._listening_socket)
        for connection in self._pending_connections:
            self._drop_connection(connection)

    def remove_pending_connection(self, connection: PendingConnection) -> None:
        """Remove a connection that has closed or whose request is complete."""
        self._pending_connections.remove_connection(connection)

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError("acceptor: not started; call start_accepting first")
        return self._loop

    def _resume_accepting(self) -> None:
        self._running_loop.add_reader(self._listening_socket, self._accept_connections)

    def _accept_connections(self) -> None:
        for _ in range(_MAX_PER_TICK):
            try:
                sock, address = self._listening_socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._pause_accepting(error)
                return
            sock.setblocking(False)
            connection = PendingConnection(sock, get_client_network(address[0]))
            # Most clients have already sent their request, so it is read immediately.
            if self._is_tls or not self._read_request_head(connection):
                self._add_pending_connection(connection)

    def _pause_accepting(self, error: OSError) -> None:
        """Pause accepting after an error, and free file descriptors if they ran out.

        Without a pause, the event loop would call the acceptor again at once, because the
        listening socket stays readable.
        """
        if error.errno in _RESOURCE_ERRORS:
            self._on_refused("descriptors", "")
            for connection in self._pending_connections.remove_oldest_half():
                self._drop_connection(connection)
        self._running_loop.remove_reader(self._listening_socket)
        self._timers["resume"] = self._running_loop.call_later(
            _PAUSE_SECONDS, self._resume_accepting
        )

    def _add_pending_connection(self, connection: PendingConnection) -> None:
        now = self._running_loop.time()
        closed_connection_and_reason = self._pending_connections.add_connection(
            connection, connection.address, now
        )
        if closed_connection_and_reason is not None:
            closed_connection, reason = closed_connection_and_reason
            self._drop_connection(closed_connection)
            self._on_refused(reason, closed_connection.address)
        self._schedule.add_connection(connection, now, 0)
        if "check" not in self._timers:
            self._schedule_next_check()

    def _check_due_connections(self) -> None:
        loop = self._running_loop
        for connection in self._schedule.take_due_connections(loop.time(), _MAX_PER_TICK):
            if connection.is_watched and not self._try_finish_connection(connection):
                connection.check_count += 1
                self._schedule.add_connection(connection, loop.time(), connection.check_count)
        self._schedule_next_check()

    def _schedule_next_check(self) -> None:
        self._timers.pop("check", None)
        next_time = self._schedule.get_next_check_time()
        if next_time is not None:
            self._timers["check"] = self._running_loop.call_at(
                next_time, self._check_due_connections
            )

    def _try_finish_connection(self, connection: PendingConnection) -> bool:
        """Read the received bytes, and return whether the connection is handed over or dropped."""
        if not self._is_tls:
            is_finished = self._read_request_head(connection)
            if is_finished:
                self._pending_connections.remove_connection(connection)
            return is_finished
        # A TLS handshake is not a request, so even after its first byte the connection still
        # counts as waiting.
        try:
            connection.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._pending_connections.remove_connection(connection)
            self._drop_connection(connection)
            return True
        connection.is_watched = False
        self._hand_over(connection)
        return True

    def _read_request_head(self, connection: PendingConnection) -> bool:
        """Read the request head, and return whether the connection is handed over or dropped."""
        head = connection.head
        try:
            received_bytes = connection.sock.recv(MAX_HEAD_BYTES + 1 - len(head))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            received_bytes = b""
        search_start = max(0, len(head) - len(_HEAD_END))
        head += received_bytes
        if head.find(_HEAD_END, search_start) >= 0:
            connection.is_watched = False
            self._hand_over(connection)
        elif not received_bytes:
            self._drop_connection(connection)
        elif len(head) > MAX_HEAD_BYTES:
            self._drop_connection(connection)
            self._on_refused("large", connection.address)
        else:
            return False
        return True

    def _drop_slow_connections(self) -> None:
        loop = self._running_loop
        for connection in self._pending_connections.remove_expired_connections(
            loop.time() - self._header_seconds
        ):
            self._drop_connection(connection)
            self._on_refused("slow", connection.address)
        interval_seconds = min(1.0, self._header_seconds / 4)
        self._timers["slow"] = loop.call_later(interval_seconds, self._drop_slow_connections)

    def _drop_connection(self, connection: PendingConnection) -> None:
        connection.is_watched = False
        connection.drop()
