"""Limits of an oracle of roots in the contract's order of fields, and which are valid."""

from typing import NamedTuple, Self

from tests.contracts.fuzz.limits import DAY, KickLimits


class RootLimits(NamedTuple):
    """In the contract's order."""

    min_interval: int
    anchor_window: int
    max_age: int
    kick_below: int
    veto_delay: int
    kick_rounds: int
    min_open: int

    def can_work(self, lag: int, farthest: int) -> bool:
        """Return whether every limit is in range, and a root can be used before it is stale."""
        return (
            2 <= self.anchor_window <= farthest
            and 1 <= self.max_age <= 30 * DAY
            and (lag + 1) * self.min_interval <= self.max_age
            and self.kick_below <= 10_000
        )

    def is_within(self, bounds: Self) -> bool:
        """Return whether no field is looser than the bound;
        the anchor window has no tighter side.
        """
        is_above = all(getattr(self, name) >= getattr(bounds, name) for name in MINIMA)
        return is_above and all(getattr(self, name) <= getattr(bounds, name) for name in MAXIMA)

    def is_tightening(self, before: Self, end: Self) -> bool:
        """Return whether the pauser may set the limits: nothing is looser,
        and changes stay within `end`.
        """
        changed = [name for name in self._fields if getattr(self, name) != getattr(before, name)]
        return (
            self.is_within(before)
            and "anchor_window" not in changed
            and all(
                getattr(self, name) <= getattr(end, name) for name in changed if name in MINIMA
            )
            and all(
                getattr(self, name) >= getattr(end, name) for name in changed if name in MAXIMA
            )
        )


# A tighter limit of the first kind is higher, of the second kind lower.
MINIMA = ("min_interval", "veto_delay", "kick_rounds", "min_open")
MAXIMA = ("max_age", "kick_below")

NO_FLOORS = RootLimits(0, 0, 2**24 - 1, 65_535, 0, 0, 0)


def can_set_kick_limits(limits: KickLimits, floors: KickLimits) -> bool:
    """Return whether the limits of kickouts are in range and within the floors."""
    return (
        limits.can_work()
        and limits.cool_down <= floors.cool_down
        and limits.most <= floors.most
        and limits.per_frame <= floors.per_frame
        and limits.frame >= floors.frame
    )
