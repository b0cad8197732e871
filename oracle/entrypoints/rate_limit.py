"""How much the HTTP door gives away: so many answers a second, so many at the same time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TokenBucket:
    """Lets through `per_second` on average and `most` at once; any thread may ask."""

    def __init__(self, per_second: float, most: int, clock: Callable[[], float]) -> None:
        """`clock` tells seconds and never goes back."""
        self._per_second = per_second
        self._most = most
        self._clock = clock
        self._left = float(most)
        self._at = clock()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Take a token; False: there is none left now."""
        with self._lock:
            now = self._clock()
            self._left = min(self._most, self._left + (now - self._at) * self._per_second)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class Seats:
    """As many as may wait for the database at once: others find a thread that answers them."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Sit down for the time of the `with`; False: every seat is taken."""
        if not self._free.acquire(blocking=False):
            yield False
            return
        try:
            yield True
        finally:
            self._free.release()
