"""Limits of kickouts in the contract's order of fields, and which limits are valid."""

from typing import NamedTuple

HOUR, DAY = 3_600, 86_400
FOR_EVER = 2**40 - 1


class KickLimits(NamedTuple):
    """In the contract's order."""

    gas: int
    cool_down: int
    most: int
    per_frame: int
    frame: int

    def can_work(self) -> bool:
        return self.frame != 0 and 50_000 <= self.gas <= 15_000_000

    def refilled(self, left: int, since: int, now: int) -> tuple[int, int]:
        """Return the current content of the bucket, and the start of its interval."""
        frames = (now - since) // self.frame
        return min(left + frames * self.per_frame, self.most), since + frames * self.frame
