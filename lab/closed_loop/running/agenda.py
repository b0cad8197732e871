"""What is to happen when: moments in order of time, and of one second in the order noted."""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any

_Deed = Callable[..., None]


class Agenda:
    """Deeds of a simulation by block time, in seconds."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, _Deed, tuple[Any, ...]]] = []
        self._count = 0

    def add(self, time: int, deed: _Deed, *arguments: Any) -> None:  # noqa: ANN401 - its own
        """Note that `deed` is to be done at `time`."""
        self._count += 1
        heappush(self._heap, (time, self._count, deed, arguments))

    def each(self) -> Iterator[tuple[int, _Deed, tuple[Any, ...]]]:
        """Yield everything in order, what is noted meanwhile included."""
        heap = self._heap
        while heap:
            time, _, deed, arguments = heappop(heap)
            yield time, deed, arguments
