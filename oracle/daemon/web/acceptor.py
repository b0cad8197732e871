"""Takes connections in the place of asyncio's accept, and holds them until their request is whole.

Until then it has a descriptor and what it sent so far: no thread, no task, no parser, no place in
the selector; it is looked at a dozen times in all, however often it sends a byte.
asyncio's own accept takes as many as there are, and where descriptors are short it writes as many
tracebacks a second as its backlog is long (decision 0178).
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
# The last wait is 4 s, and is repeated.
_WAITS = tuple(_FIRST_SECONDS * 2**time for time in range(11))


class LookSchedule(Generic[T]):
    """When each waiting connection is checked again: soon, then after twice as long each time.

    The cost of a slow client therefore does not depend on how often it sends: about a dozen checks
    in its whole time. Connections that wait equally long share one queue, ordered by time.
    """

    def __init__(self) -> None:
        self._queues: tuple[deque[tuple[float, T]], ...] = tuple(deque() for _ in _WAITS)

    def add(self, one: T, now: float, looks: int) -> None:
        """Look at it again; `looks`: how often that was done since it came."""
        place = min(looks, len(_WAITS) - 1)
        self._queues[place].append((now + _WAITS[place], one))

    def due(self, now: float, most: int) -> list[T]:
        """Take out and return those whose time has come, at most so many."""
        found: list[T] = []
        for queue in self._queues:
            while queue and queue[0][0] <= now and len(found) < most:
                found.append(queue.popleft()[1])
        return found

    def next_at(self) -> float | None:
        """Return when somebody is to be looked at; None: nobody is."""
        return min((queue[0][0] for queue in self._queues if queue), default=None)


# Taken, or looked at, in one turn of the loop.
_IN_ONE_TURN = 64
# Request line and headers; what follows is not read here.
MOST_HEAD_BYTES = 16 * 1024
_END = b"\r\n\r\n"
# How long nothing is taken where no descriptor is left.
_REST_SECONDS = 0.25
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class PendingConnection:
    """One that waits; `head` is what it sent, `drop` lets it go without an answer."""

    __slots__ = ("address", "drop", "head", "is_watched", "looks", "sock")

    def __init__(self, sock: socket.socket, address: str) -> None:
        """`address`: who counts as one with it."""
        self.sock = sock
        self.address = address
        self.head = bytearray()
        # Whether it is looked at again, and how often it was.
        self.is_watched = True
        self.looks = 0
        self.drop: Callable[[], None] = sock.close


class Acceptor:
    """One listening socket; lives in the server's loop and is touched by nothing else.

    `hand_over` gets a connection with its whole request. Where `is_tls` it gets it with its first
    byte: it goes on waiting, until `whole` says that its request has come.
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
        """Begin to take connections; called in the loop."""
        self._loop = asyncio.get_running_loop()
        self._listen()
        self._look_for_slow()

    def close(self) -> None:
        """Take no more, and let go who waits."""
        for timer in self._timers.values():
            timer.cancel()
        self._the_loop.remove_reader(self._listening)
        for connection in self._pending:
            self._let_go(connection)

    def whole(self, connection: PendingConnection) -> None:
        """Note that its request has come, or that it is gone: it waits no longer."""
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
            # Whoever means it has sent its request already: it never waits at all.
            if self._is_tls or not self._read(connection):
                self._wait_for(connection)

    def _rest(self, error: OSError) -> None:
        """Give descriptors back, and try again a little later: the socket stays readable."""
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
        """Look at those whose time has come."""
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
        """Read what came; True: nothing more is read here."""
        if not self._is_tls:
            is_whole = self._read(connection)
            if is_whole:
                self._pending.remove(connection)
            return is_whole
        # Where a byte came it goes on waiting: that is a handshake, and no request yet.
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
        """Read what came; True: it waits no longer, whatever became of it."""
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
