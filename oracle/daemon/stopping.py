"""How a command hears that it is to end: a signal is noted, and nothing is raised by it.

What a signal's handler raises comes up in the middle of anything: in a weak reference's callback,
where Python prints it and goes on. And a handler runs on the main thread alone, which sleeps on
where the kernel gave the signal to another one. So the handlers do nothing: Python writes the
signal's number to a socket wherever it arrives, a thread reads it there, and everything that
waits, waits for `StopSignal.event` (decision 0131).
"""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import typer

from oracle.errors import FatalError
from oracle.rpc.background import in_background

# What a shell adds to the number of the signal that ended a command.
KILLED = 128
# From the first signal on; whatever still waits then, for an endpoint, a database, a disk, is cut
# off. Below what systemd (ops/systemd) and Docker wait before they kill: ten seconds.
STOP_SECONDS = 8.0

# No signal has this number: the block is over.
_OVER = 0


@dataclass(slots=True)
class StopSignal:
    """Set when a command is to end; `number` is the signal that said so, None: none did."""

    event: threading.Event = field(default_factory=threading.Event)
    number: int | None = None
    _is_over: bool = False

    @property
    def reason(self) -> str | None:
        """The name of the signal; None: none came."""
        return None if self.number is None else signal.Signals(self.number).name

    @property
    def has_ended_unasked(self) -> bool:
        """Whether it was ended, and no signal came."""
        return self._is_over and self.number is None

    def tell(self, number: int) -> None:
        """Note the signal, and end what waits for the event."""
        self.number = number
        self.end()

    def end(self) -> None:
        """End what waits for the event, for good."""
        self._is_over = True
        self.event.set()

    def clear(self) -> None:
        """Let the event be waited for once more; what ended for good stays so."""
        self.event.clear()
        # In this order, so that a signal that comes now is not forgotten.
        if self._is_over:
            self.event.set()

    def check(self) -> None:
        """Leave, where a signal came: for who is in the middle of something.

        Raises:
            typer.Exit: 128 and the number of the signal.
        """
        if self.number is not None:
            raise typer.Exit(KILLED + self.number)


def until_told(work: Callable[[StopSignal], None]) -> None:
    """Do the work of a command; SIGTERM and SIGINT tell its `StopSignal`.

    It is done on a thread of its own, so that a signal is heard whatever it waits for. Where it
    has not ended STOP_SECONDS after the first signal, or a second one comes, the whole process
    ends at once, as if it were killed, with 128 and the number of the signal.

    Raises:
        FatalError: the work was ended by itself, without a signal and without a reason: a
            supervisor that restarts failures must not take this for a wish.
    """
    stop = StopSignal()
    with listening(stop, cut_off=os._exit):
        in_background(lambda: work(stop), "command").result()
    if stop.has_ended_unasked:
        raise FatalError("the process ended without a signal; the log says what happened before")


@contextmanager
def listening(
    stop: StopSignal,
    numbers: tuple[int, ...] = (signal.SIGTERM, signal.SIGINT),
    cut_off: Callable[[int], object] | None = None,
) -> Iterator[None]:
    """Let these signals tell `stop`; what they did before comes back afterwards.

    `cut_off` is called with an exit code, from a thread, where it takes too long or another one
    comes; None: it may take as long as it takes.
    """
    arrives, told = socket.socketpair()
    told.setblocking(False)
    hearing = threading.Thread(
        target=_hear, args=(arrives, numbers, stop, cut_off), name="signals", daemon=True
    )
    with arrives, told:
        earlier = signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, _ignore) for number in numbers}
        hearing.start()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(earlier)
            told.setblocking(True)
            told.send(bytes([_OVER]))
            hearing.join()


def _ignore(_number: int, _frame: object) -> None:
    """Be a handler, so that Python takes the signal up: its number is in the socket by now."""


def _hear(
    arrives: socket.socket,
    numbers: tuple[int, ...],
    stop: StopSignal,
    cut_off: Callable[[int], object] | None,
) -> None:
    """Tell the first signal; whatever follows, or nothing in time, cuts off."""
    first = _next(arrives, numbers)
    if first == _OVER:
        return
    stop.tell(first)
    if cut_off is None:
        while _next(arrives, numbers) != _OVER:
            pass
        return
    arrives.settimeout(STOP_SECONDS)
    try:
        following = _next(arrives, numbers)
    except TimeoutError:
        following = first
    if following != _OVER:
        cut_off(KILLED + following)


def _next(arrives: socket.socket, numbers: tuple[int, ...]) -> int:
    """Wait for one of these signals, or for the end; others with a handler are written there too.

    Raises TimeoutError: nothing came.
    """
    while True:
        (number,) = arrives.recv(1)
        if number == _OVER or number in numbers:
            return number
