"""Does one slow thing in a thread of its own: whoever asked goes on, and looks for it later."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Start `work`; what it returns or raises is the future's.

    The thread is the operating system's to end: whoever stops does not wait for it.
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
    """One slow thing at a time, asked for in one turn and looked for in later ones.

    `wait_seconds` is how many seconds a look waits for it; None: until it is there.
    """

    wait_seconds: float | None = None
    _future: Future[T] | None = None

    @property
    def is_out(self) -> bool:
        """Whether it was begun, and nobody has taken what came of it."""
        return self._future is not None

    def begin(self, work: Callable[[], T], name: str) -> None:
        """Start `work`; nothing else may be under way."""
        self._future = in_background(work, name)

    def take(self) -> Future[T] | None:
        """Return what has ended, once; None: it has not yet, or nothing was begun."""
        if self._future is None or not wait([self._future], self.wait_seconds).done:
            return None
        ended, self._future = self._future, None
        return ended
