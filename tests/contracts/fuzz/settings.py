"""Limits by lot: those that can be set, at their edges more often than not."""

from random import Random

from tests.contracts.fuzz.limits import DAY, FOR_EVER, HOUR, NO_FLOORS, KickLimits, Limits


def limits(chosen: Random, farthest: int) -> Limits:
    return Limits(
        max_words=chosen.choice((1, 3, 10, 10)),
        max_new=chosen.choice((0, 1, 3, 9, 9)),
        min_interval=chosen.choice((0, 1, 10)),
        anchor_window=chosen.choice((2, 60, 256, farthest, farthest)),
        max_age=chosen.choice((1, 600, DAY, DAY)),
        kick_below=chosen.choice((0, 2_000, 6_000, 10_000)),
        veto_delay=chosen.choice((0, 1, 60)),
        kick_rounds=chosen.choice((0, 1, 2)),
        kick_window=chosen.choice((1, DAY, DAY, 7 * DAY)),
        max_kicks=chosen.choice((0, 1, 3, 9, 9)),
        min_open=chosen.choice((0, 2, 12, 25)),
        fall_share=chosen.choice((0, 1_000, 10_000)),
        big_fall=chosen.choice((0, 1, 2_500, 2_500, 10_000)),
    )


def floors(chosen: Random, first: Limits) -> Limits:
    """None at all, or the first limits' own in some fields."""
    bound = chosen.sample(first._fields, chosen.choice((0, 0, 2)))
    return NO_FLOORS._replace(**{name: getattr(first, name) for name in bound})


def tighter(chosen: Random, before: Limits) -> Limits:
    """One field moved, mostly the tight way, to an edge or by one."""
    name = chosen.choice(before._fields)
    old = getattr(before, name)
    if name == "anchor_window":
        value = chosen.choice((old, old, old - 1))
    elif name in {"min_interval", "veto_delay", "kick_rounds", "min_open"}:
        edge = {"min_interval": HOUR, "veto_delay": 7 * DAY}.get(name, old + 1)
        value = chosen.choice((old + 1, old + 1, edge, edge + 1, old - 1))
    else:
        edge = 2 * HOUR if name == "max_age" else 1
        value = chosen.choice((old - 1, old - 1, edge, edge - 1, old + 1))
    # The smallest field has a byte.
    return before._replace(**{name: min(max(value, 0), 255 if name == "max_kicks" else 2**24)})


def kick_limits(chosen: Random) -> KickLimits:
    return KickLimits(
        gas=chosen.choice((50_000, 100_000, 200_000)),
        cool_down=chosen.choice((FOR_EVER, FOR_EVER, 600, 0)),
        most=chosen.choice((0, 1, 9, 9)),
        per_frame=chosen.choice((0, 1, 2)),
        frame=chosen.choice((1, 600, 600)),
    )
