"""The agenda of a simulation: scheduled actions in order of time.

Actions of the same second run in the order in which they were scheduled.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

_Action = Callable[..., None]


class Agenda:
    """The scheduled actions of a simulation; times are block times in seconds."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Action, tuple[Any, ...]]] = []
        self._count = 0

    def schedule(self, time: int, action: _Action, *arguments: Any) -> None:  # noqa: ANN401 - its own
        """Schedule a call of `action` with these arguments."""
        self._count += 1
        heappush(self._heap, (time, self._count, action, arguments))

    def iter_actions(self) -> Iterator[tuple[int, _Action, tuple[Any, ...]]]:
        """Yield all actions in order, including those that are scheduled during the iteration."""
        heap = self._heap
        while heap:
            time, _, action, arguments = heappop(heap)
            yield time, action, arguments
