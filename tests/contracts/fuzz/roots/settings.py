"""Draws valid limits and constructor arguments, preferring the edges of their ranges."""

from random import Random
from typing import Any

from tests.contracts.fuzz.limits import DAY, FOR_EVER, KickLimits
from tests.contracts.fuzz.roots.limits import MINIMA, NO_FLOORS, RootLimits


def draw_limits(chosen: Random, lag: int, farthest: int) -> RootLimits:
    min_interval = chosen.choice((0, 1, 10))
    return RootLimits(
        min_interval=min_interval,
        anchor_window=chosen.choice((2, 60, 256, farthest, farthest)),
        max_age=max(chosen.choice((1, 600, DAY, DAY, 30 * DAY)), (lag + 1) * min_interval),
        kick_below=chosen.choice((0, 2_000, 10_000, 10_000)),
        veto_delay=chosen.choice((0, 1, 60)),
        kick_rounds=chosen.choice((0, 1, 2)),
        min_open=chosen.choice((0, 2, 8, 30)),
    )


def draw_floors(chosen: Random, first: RootLimits) -> RootLimits:
    """Draw no floors at all, or those of the first limits in some fields."""
    bound = chosen.sample(first._fields, chosen.choice((0, 0, 2)))
    return NO_FLOORS._replace(**{name: getattr(first, name) for name in bound})


def draw_end(chosen: Random, lag: int, farthest: int) -> RootLimits:
    """Return the limits beyond which the pauser cannot tighten."""
    min_interval = chosen.choice((0, 30, 600))
    max_age = chosen.choice((300, 3_600, DAY))
    return RootLimits(
        min_interval=min_interval,
        anchor_window=farthest,
        max_age=max(max_age, (lag + 1) * min_interval),
        kick_below=chosen.choice((0, 1_000, 2_000)),
        veto_delay=chosen.choice((0, 120, DAY)),
        kick_rounds=chosen.choice((0, 2, 4)),
        min_open=chosen.choice((0, 8, 20)),
    )


def draw_tighter(chosen: Random, before: RootLimits, end: RootLimits) -> RootLimits:
    """Draw limits with one field changed, mostly tighter, to its end or by one."""
    name = chosen.choice(before._fields)
    old = getattr(before, name)
    edge = getattr(end, name)
    if name == "anchor_window":
        value = chosen.choice((old, old - 1, old + 1))
    else:
        tighter = 1 if name in MINIMA else -1
        value = chosen.choice((old + tighter, old + tighter, edge, edge + tighter, old - tighter))
    return before._replace(**{name: min(max(value, 0), 65_535)})


def draw_wrong_limits(chosen: Random, limits: RootLimits, lag: int, farthest: int) -> RootLimits:
    """Return the limits with one field outside of its range."""
    wrong = (
        {"anchor_window": 1},
        {"anchor_window": farthest + 1},
        {"max_age": 0},
        {"max_age": 30 * DAY + 1},
        {"kick_below": 10_001},
        {"min_interval": limits.max_age // (lag + 1) + 1},
    )
    return limits._replace(**chosen.choice(wrong))


def draw_kick_limits(chosen: Random) -> KickLimits:
    return KickLimits(
        gas=chosen.choice((50_000, 100_000, 200_000)),
        cool_down=chosen.choice((FOR_EVER, 600, 600, 0)),
        most=chosen.choice((0, 1, 9, 9)),
        per_frame=chosen.choice((0, 1, 2)),
        frame=chosen.choice((1, 600, 600)),
    )


def draw_kick_floors(chosen: Random, first: KickLimits) -> KickLimits:
    """Return floors of kickouts, of which some fields are the first limits' own."""
    loosest = KickLimits(0, FOR_EVER, 65_535, 65_535, 1)
    bound = chosen.sample(("cool_down", "most", "per_frame", "frame"), chosen.choice((0, 0, 1)))
    return loosest._replace(**{name: getattr(first, name) for name in bound})


def draw_wrong_kick_limits(chosen: Random, limits: KickLimits) -> KickLimits:
    wrong: tuple[dict[str, Any], ...] = ({"frame": 0}, {"gas": 49_999}, {"gas": 15_000_001})
    return limits._replace(**chosen.choice(wrong))
