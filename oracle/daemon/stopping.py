"""Records the signals that a command receives, so that signal handlers never raise.

An exception from a signal handler can be raised at any point, for example in the callback of a
weak reference, where Python only prints it and continues. A handler also runs on the main thread
only, which is not woken if the kernel delivers the signal to another thread. Therefore the
handlers do nothing. Instead, Python writes the number of the signal to a socket, from which a
thread reads it. All code that waits, waits for `StopSignal.event` (decision 0131).
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
from oracle.rpc.background import run_in_background

# A command ended by a signal exits with this number plus the signal's number.
SIGNAL_EXIT_BASE = 128
# The process is killed this many seconds after the first signal, even if it still waits for an
# endpoint, a database or a disk. systemd (ops/systemd) and Docker kill it after ten seconds.
STOP_SECONDS = 8.0

# This number ends the thread that reads signals. No signal has this number.
_STOP_LISTENING = 0


@dataclass(slots=True)
class StopSignal:
    """Records that a command must end.

    `signal_number` is the signal that caused it, or None.
    """

    event: threading.Event = field(default_factory=threading.Event)
    signal_number: int | None = None
    _is_final: bool = False

    @property
    def reason(self) -> str | None:
        """The name of the received signal, or None."""
        return None if self.signal_number is None else signal.Signals(self.signal_number).name

    @property
    def has_ended_without_signal(self) -> bool:
        """Whether the command ended without a signal."""
        return self._is_final and self.signal_number is None

    def record_signal(self, signal_number: int) -> None:
        """Record a received signal, and set the stop event."""
        self.signal_number = signal_number
        self.request_stop()

    def request_stop(self) -> None:
        """Set the stop event so that it cannot be cleared."""
        self._is_final = True
        self.event.set()

    def clear_stop_event(self) -> None:
        """Clear the stop event, so that code can wait again, unless it was set permanently."""
        self.event.clear()
        # The event was cleared before this check, so that a signal arriving now is not lost.
        if self._is_final:
            self.event.set()

    def exit_if_signalled(self) -> None:
        """Exit if a signal was received; callable at any point in a command.

        Raises:
            typer.Exit: a signal was received; the exit code is 128 plus the signal's number.
        """
        if self.signal_number is not None:
            raise typer.Exit(SIGNAL_EXIT_BASE + self.signal_number)


def run_until_signalled(work: Callable[[StopSignal], None]) -> None:
    """Run the work of a command, and set its `StopSignal` on SIGTERM or SIGINT.

    The work runs on a separate thread, so that a signal is handled even while the work waits. The
    whole process is ended by force if the work has not ended STOP_SECONDS after the first signal,
    or if a second signal arrives. The exit code is then 128 plus the number of the signal.

    Raises:
        FatalError: the work ended without a signal and without an error; a supervisor that
            restarts failures must not take this for an orderly stop.
    """
    stop = StopSignal()
    with listen_for_signals(stop, force_exit=os._exit):
        run_in_background(lambda: work(stop), "command").result()
    if stop.has_ended_without_signal:
        raise FatalError("the process ended without a signal; see the log for the cause")


@contextmanager
def listen_for_signals(
    stop: StopSignal,
    signal_numbers: tuple[int, ...] = (signal.SIGTERM, signal.SIGINT),
    force_exit: Callable[[int], object] | None = None,
) -> Iterator[None]:
    """Pass these signals to `stop`, and restore the previous handlers on exit.

    `force_exit` is called with an exit code, from a thread, if the stop takes too long or another
    signal arrives. If it is None, the stop may take any time.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    listener = threading.Thread(
        target=_handle_signals,
        args=(receiver, signal_numbers, stop, force_exit),
        name="signals",
        daemon=True,
    )
    with receiver, sender:
        previous_fd = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        previous_handlers = {
            signal_number: signal.signal(signal_number, _ignore_signal)
            for signal_number in signal_numbers
        }
        listener.start()
        try:
            yield
        finally:
            for signal_number, handler in previous_handlers.items():
                signal.signal(signal_number, handler)
            signal.set_wakeup_fd(previous_fd)
            sender.setblocking(True)
            sender.send(bytes([_STOP_LISTENING]))
            listener.join()


def _ignore_signal(_number: int, _frame: object) -> None:
    """Do nothing; Python writes a signal to the wakeup socket only if a handler is set."""


def _handle_signals(
    receiver: socket.socket,
    signal_numbers: tuple[int, ...],
    stop: StopSignal,
    force_exit: Callable[[int], object] | None,
) -> None:
    """Record the first signal, and force the exit after a second signal or a timeout."""
    first_signal = _receive_next_signal(receiver, signal_numbers)
    if first_signal == _STOP_LISTENING:
        return
    stop.record_signal(first_signal)
    if force_exit is None:
        while _receive_next_signal(receiver, signal_numbers) != _STOP_LISTENING:
            pass
        return
    receiver.settimeout(STOP_SECONDS)
    try:
        next_signal = _receive_next_signal(receiver, signal_numbers)
    except TimeoutError:
        next_signal = first_signal
    if next_signal != _STOP_LISTENING:
        force_exit(SIGNAL_EXIT_BASE + next_signal)


def _receive_next_signal(receiver: socket.socket, signal_numbers: tuple[int, ...]) -> int:
    """Wait for the next of these signals or the end marker, and return it.

    Raises:
        TimeoutError: no signal arrived in time.
    """
    while True:
        (signal_number,) = receiver.recv(1)
        if signal_number == _STOP_LISTENING or signal_number in signal_numbers:
            return signal_number
