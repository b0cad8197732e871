"""Runs a slow call in a daemon thread, so that the caller can get the result later."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


def run_in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Run `work` in a daemon thread, and return a future with its result or exception.

    The process does not wait for the thread when it exits.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # whoever takes the result raises it
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future


@dataclass(slots=True)
class BackgroundCall(Generic[T]):
    """Runs at most one slow call at a time.

    One tick starts the call, and a later tick takes the result. `take_finished_call` waits at most
    `wait_seconds` for the end of the call, or without a limit if it is None.
    """

    wait_seconds: float | None = None
    _future: Future[T] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a call was started and its result not taken yet."""
        return self._future is not None

    def start(self, work: Callable[[], T], name: str) -> None:
        """Start `work` in the background.

        No other call may be pending.
        """
        self._future = run_in_background(work, name)

    def take_finished_call(self) -> Future[T] | None:
        """Return the finished call and clear it, or return None if it is still running.

        The result is also None if there is no call.
        """
        if self._future is None or not wait([self._future], self.wait_seconds).done:
            return None
        finished_future, self._future = self._future, None
        return finished_future
