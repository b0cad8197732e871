"""Accepts connections instead of asyncio, and holds them until their request is complete.

Until then a connection has a descriptor and its received bytes: no thread, no task, no parser, no
place in the selector. It is checked about a dozen times in all, however often it sends a byte.
asyncio's own accept has no limit, and if descriptors run out it logs as many tracebacks a second
as its backlog is long (decision 0178).
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from oracle.daemon.web.connection_table import ConnectionTable
from oracle.daemon.web.listener import ListenerLimits
from oracle.daemon.web.rate_limit import network_of
from oracle.telemetry.http_metrics import Reason

T = TypeVar("T")

_FIRST_SECONDS = 0.004
# The last wait of 4 s is repeated.
_WAITS = tuple(_FIRST_SECONDS * 2**time for time in range(11))


class LookSchedule(Generic[T]):
    """When each waiting connection is checked again: soon, then after twice as long each time.

    The cost of a slow client therefore does not depend on how often it sends: about a dozen checks
    in its whole time. Connections that wait equally long share one queue, ordered by time.
    """

    def __init__(self) -> None:
        self._queues: tuple[deque[tuple[float, T]], ...] = tuple(deque() for _ in _WAITS)

    def add(self, one: T, now: float, looks: int) -> None:
        """Schedule the next check; `check_count` is the number of checks so far."""
        place = min(looks, len(_WAITS) - 1)
        self._queues[place].append((now + _WAITS[place], one))

    def due(self, now: float, most: int) -> list[T]:
        """Remove and return the connections that are due, at most this many."""
        found: list[T] = []
        for queue in self._queues:
            while queue and queue[0][0] <= now and len(found) < most:
                found.append(queue.popleft()[1])
        return found

    def next_at(self) -> float | None:
        """Return when the next connection is due, or None if none waits."""
        return min((queue[0][0] for queue in self._queues if queue), default=None)


# Connections accepted, or checked, in one iteration of the loop.
_IN_ONE_TURN = 64
# The limit of request line and headers; the body is not read here.
MOST_HEAD_BYTES = 16 * 1024
_END = b"\r\n\r\n"
# How long no connection is accepted after the descriptors ran out.
_REST_SECONDS = 0.25
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class PendingConnection:
    """A waiting connection; `head` is what it has sent, `drop` closes it without a response."""

    __slots__ = ("address", "drop", "head", "is_watched", "looks", "sock")

    def __init__(self, sock: socket.socket, address: str) -> None:
        """Store the socket; `address` is the client network for the limits."""
        self.sock = sock
        self.address = address
        self.head = bytearray()
        # Whether the connection is still checked, and how often it was checked.
        self.is_watched = True
        self.looks = 0
        self.drop: Callable[[], None] = sock.close


class Acceptor:
    """One listening socket; lives in the server's loop and is used from nowhere else.

    `hand_over` receives a connection with its complete request. With `is_tls` it receives the
    connection at its first byte, and the connection goes on waiting until `mark_complete`.
    """

    def __init__(
        self,
        listening: socket.socket,
        limits: ListenerLimits,
        hand_over: Callable[[PendingConnection], None],
        refused: Callable[[Reason, str], None],
        *,
        is_tls: bool = False,
    ) -> None:
        self._listening = listening
        self._header_seconds = limits.header_timeout_seconds
        self._hand_over = hand_over
        self._refused = refused
        self._is_tls = is_tls
        self._pending = ConnectionTable[PendingConnection](limits.waiting, limits.per_address)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._schedule = LookSchedule[PendingConnection]()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def open(self) -> None:
        """Start to accept connections; must be called in the loop."""
        self._loop = asyncio.get_running_loop()
        self._listen()
        self._look_for_slow()

    def close(self) -> None:
        """Accept no more connections, and close the waiting ones."""
        for timer in self._timers.values():
            timer.cancel()
        self._the_loop.remove_reader(self._listening)
        for connection in self._pending:
            self._let_go(connection)

    def whole(self, connection: PendingConnection) -> None:
        """Stop waiting for a connection whose request is complete, or which is closed."""
        self._pending.remove(connection)

    @property
    def _the_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError("open() comes first")
        return self._loop

    def _listen(self) -> None:
        self._the_loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_IN_ONE_TURN):
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._rest(error)
                return
            sock.setblocking(False)
            connection = PendingConnection(sock, network_of(address[0]))
            # An honest client has usually sent its request already and never waits.
            if self._is_tls or not self._read(connection):
                self._wait_for(connection)

    def _rest(self, error: OSError) -> None:
        """Free descriptors, and accept again a little later: the socket stays readable."""
        if error.errno in _OUT_OF_RESOURCES:
            self._refused("descriptors", "")
            for connection in self._pending.oldest_half():
                self._let_go(connection)
        self._the_loop.remove_reader(self._listening)
        self._timers["rest"] = self._the_loop.call_later(_REST_SECONDS, self._listen)

    def _wait_for(self, connection: PendingConnection) -> None:
        now = self._the_loop.time()
        gone = self._pending.add(connection, connection.address, now)
        if gone is not None:
            oldest, reason = gone
            self._let_go(oldest)
            self._refused(reason, oldest.address)
        self._schedule.add(connection, now, 0)
        if "look" not in self._timers:
            self._look_again()

    def _look(self) -> None:
        """Check the connections that are due."""
        loop = self._the_loop
        for connection in self._schedule.due(loop.time(), _IN_ONE_TURN):
            if connection.is_watched and not self._has_ended(connection):
                connection.looks += 1
                self._schedule.add(connection, loop.time(), connection.looks)
        self._look_again()

    def _look_again(self) -> None:
        self._timers.pop("look", None)
        at = self._schedule.next_at()
        if at is not None:
            self._timers["look"] = self._the_loop.call_at(at, self._look)

    def _has_ended(self, connection: PendingConnection) -> bool:
        """Read the received bytes; return whether the connection needs no further check."""
        if not self._is_tls:
            is_whole = self._read(connection)
            if is_whole:
                self._pending.remove(connection)
            return is_whole
        # After the first byte the connection goes on waiting: a handshake is no request yet.
        try:
            connection.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self._pending.remove(connection)
            self._let_go(connection)
            return True
        connection.is_watched = False
        self._hand_over(connection)
        return True

    def _read(self, connection: PendingConnection) -> bool:
        """Read the received bytes; return whether the connection no longer waits."""
        head = connection.head
        try:
            part = connection.sock.recv(MOST_HEAD_BYTES + 1 - len(head))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            part = b""
        seen = max(0, len(head) - len(_END))
        head += part
        if head.find(_END, seen) >= 0:
            connection.is_watched = False
            self._hand_over(connection)
        elif not part:
            self._let_go(connection)
        elif len(head) > MOST_HEAD_BYTES:
            self._let_go(connection)
            self._refused("large", connection.address)
        else:
            return False
        return True

    def _look_for_slow(self) -> None:
        loop = self._the_loop
        for connection in self._pending.expired(loop.time() - self._header_seconds):
            self._let_go(connection)
            self._refused("slow", connection.address)
        every = min(1.0, self._header_seconds / 4)
        self._timers["slow"] = loop.call_later(every, self._look_for_slow)

    def _let_go(self, connection: PendingConnection) -> None:
        connection.is_watched = False
        connection.drop()
