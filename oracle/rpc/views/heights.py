"""Remembers for the length of a turn that an endpoint had come to a block."""

from collections.abc import Callable

# A turn of ours looks many times; an endpoint that stands still, or another node behind its
# address, is seen in the next one.
_TURN_SECONDS = 1.0


class HighestBlocks:
    """The block that was asked about last, where it was there; `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._shown: tuple[int, float] | None = None

    def is_known(self, block: int) -> bool:
        """Tell whether this very block was there a moment ago."""
        if self._shown is None or self._shown[0] != block:
            return False
        return self._clock() - self._shown[1] < _TURN_SECONDS

    def note(self, block: int) -> None:
        """Note that it is there now."""
        self._shown = (block, self._clock())

    def forget(self) -> None:
        """Ask again: behind the address there may be another node."""
        self._shown = None
