"""What bounds an oracle's calls, in the contract's order of fields; and which bounds can be."""

from typing import NamedTuple

HOUR, DAY = 3_600, 86_400
FOR_EVER = 2**40 - 1


class Limits(NamedTuple):
    """In the contract's order."""

    max_words: int
    max_new: int
    min_interval: int
    anchor_window: int
    max_age: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    kick_window: int
    max_kicks: int
    min_open: int
    fall_share: int
    big_fall: int

    def can_work(self, farthest: int) -> bool:
        return (
            1 <= self.max_words <= 2_047
            and 2 <= self.anchor_window <= farthest
            and 1 <= self.max_age <= 30 * DAY
            and self.kick_window >= 1
            and max(self.kick_below, self.fall_share, self.big_fall) <= 10_000
        )

    def is_within(self, bounds: "Limits") -> bool:
        """No field gives more room than the other's; the anchor window has no tight side."""
        tight = all(getattr(self, name) >= getattr(bounds, name) for name in _AT_LEAST)
        return tight and all(getattr(self, name) <= getattr(bounds, name) for name in _AT_MOST)

    def is_tightening(self, before: "Limits") -> bool:
        """The pauser may set it at once."""
        return (
            self.is_within(before)
            and self.anchor_window == before.anchor_window
            and self.min_interval <= max(before.min_interval, HOUR)
            and self.veto_delay <= max(before.veto_delay, 7 * DAY)
            and self.max_age >= min(before.max_age, 2 * HOUR)
        )


_AT_LEAST = ("min_interval", "veto_delay", "kick_rounds", "min_open")
_AT_MOST = tuple(name for name in Limits._fields if name not in {*_AT_LEAST, "anchor_window"})

# The greatest of what may be set at most, the least of what may be set at least.
NO_FLOORS = Limits(
    *(
        0 if name in _AT_LEAST else 255 if name == "max_kicks" else 65_535
        for name in Limits._fields
    )
)._replace(max_age=2**24 - 1, kick_window=2**24 - 1)


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
        """What is in the bucket now, and since when this frame runs."""
        frames = (now - since) // self.frame
        return min(left + frames * self.per_frame, self.most), since + frames * self.frame
