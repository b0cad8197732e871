"""Signal handling of commands: a signal is noted, and its handler raises nothing.

An exception from a signal handler is raised in the middle of anything, for example in the callback
of a weak reference, where Python prints it and continues. Also, a handler runs on the main thread
only, which sleeps on if the kernel delivered the signal to another thread. Therefore the handlers
do nothing: Python writes the signal's number to a socket, a thread reads it there, and everything
that waits, waits for `StopSignal.event` (decision 0131).
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

# The exit code of a command that a signal ended is this plus the signal's number.
KILLED = 128
# Time from the first signal until the process is cut off, whatever still waits for an endpoint, a
# database or a disk. Shorter than the ten seconds that systemd (ops/systemd) and Docker wait
# before they kill.
STOP_SECONDS = 8.0

# No signal has this number; it ends the listener thread.
_OVER = 0


@dataclass(slots=True)
class StopSignal:
    """Set when a command is to end; `signal_number` is the signal that caused it, or None."""

    event: threading.Event = field(default_factory=threading.Event)
    number: int | None = None
    _is_over: bool = False

    @property
    def reason(self) -> str | None:
        """The name of the received signal, or None."""
        return None if self.number is None else signal.Signals(self.number).name

    @property
    def has_ended_unasked(self) -> bool:
        """Whether the command was ended without a signal."""
        return self._is_over and self.number is None

    def tell(self, number: int) -> None:
        """Note the signal, and set the event."""
        self.number = number
        self.end()

    def end(self) -> None:
        """Set the event permanently."""
        self._is_over = True
        self.event.set()

    def clear(self) -> None:
        """Clear the event, so that it can be waited for again, unless it was set permanently."""
        self.event.clear()
        # In this order, so that a signal that arrives now is not lost.
        if self._is_over:
            self.event.set()

    def check(self) -> None:
        """Exit if a signal was received; for code in the middle of its work.

        Raises:
            typer.Exit: with 128 plus the number of the signal.
        """
        if self.number is not None:
            raise typer.Exit(KILLED + self.number)


def until_told(work: Callable[[StopSignal], None]) -> None:
    """Run the work of a command; SIGTERM and SIGINT set its `StopSignal`.

    The work runs on a separate thread, so that a signal is handled whatever the work waits for. If
    the work has not ended STOP_SECONDS after the first signal, or a second signal arrives, the
    whole process ends at once, as if it were killed, with 128 plus the number of the signal.

    Raises:
        FatalError: the work ended without a signal and without an error; a supervisor that
            restarts
            failures must not take this for an orderly stop.
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
    """Pass these signals to `stop`, and restore the previous handlers on exit.

    `force_exit` is called with an exit code, from a thread, if stopping takes too long or another
    signal arrives; None: stopping may take any time.
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
    """Do nothing; with a Python handler the signal's number is written to the socket."""


def _hear(
    arrives: socket.socket,
    numbers: tuple[int, ...],
    stop: StopSignal,
    cut_off: Callable[[int], object] | None,
) -> None:
    """Note the first signal; cut off after a second signal or the timeout."""
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
    """Return the next of these signals, or the end marker; other handled signals are skipped.

    Raises TimeoutError: no signal arrived in time.
    """
    while True:
        (number,) = arrives.recv(1)
        if number == _OVER or number in numbers:
            return number
