"""Runs a slow call in a daemon thread; the caller continues and collects the result later."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


def run_in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Start `work` in a daemon thread, and return a future with its result or exception.

    A process that exits does not wait for the thread; the operating system ends it.
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
    """At most one slow call at a time, started in one tick and collected in a later one.

    `take_finished_call` waits at most `wait_seconds` for the end of the call; None means no limit.
    """

    wait_seconds: float | None = None
    _future: Future[T] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a call was started and its result not yet collected."""
        return self._future is not None

    def start(self, work: Callable[[], T], name: str) -> None:
        """Start `work` in the background; no other call may be pending."""
        self._future = run_in_background(work, name)

    def take_finished_call(self) -> Future[T] | None:
        """Return the finished call and clear it, or None if there is no finished call."""
        if self._future is None or not wait([self._future], self.wait_seconds).done:
            return None
        finished, self._future = self._future, None
        return finished
