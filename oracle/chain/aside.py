"""Does one slow thing in a thread of its own: whoever asked goes on, and looks for it later."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T], name: str) -> Future[T]:
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
