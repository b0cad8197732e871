"""The agenda of a simulation: actions ordered by time, and within a second by insertion."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

_Action = Callable[..., None]


class Agenda:
    """Actions of a simulation by block time, in seconds."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Action, tuple[Any, ...]]] = []
        self._count = 0

    def schedule(self, time: int, action: _Action, *arguments: Any) -> None:  # noqa: ANN401 - its own
        """Schedule an action at a time."""
        self._count += 1
        heappush(self._heap, (time, self._count, action, arguments))

    def iter_actions(self) -> Iterator[tuple[int, _Action, tuple[Any, ...]]]:
        """Yield all actions in order, including those scheduled meanwhile."""
        heap = self._heap
        while heap:
            time, _, action, arguments = heappop(heap)
            yield time, action, arguments
