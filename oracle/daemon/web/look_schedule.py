"""When a connection is looked at again: soon, and then each time after twice as long.

So what a slow client costs does not depend on how often it sends: a dozen looks in its whole time,
without a place in the selector. Knows no sockets and no clock.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

_FIRST_SECONDS = 0.004
# The last wait is 4 s, and is repeated.
_WAITS = tuple(_FIRST_SECONDS * 2**time for time in range(11))


class LookSchedule(Generic[T]):
    """Who is looked at when; all that wait equally long stand in one queue, by their time."""

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
