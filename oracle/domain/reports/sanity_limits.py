"""Is a report believable? What would change too much at once waits for a human.

It knows no node: it is handed the lanes of members, before and after.
See docs/explanation/reports.md#when-to-publish.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED

# A median of fewer periods says nothing; and of fewer events, chance alone may halve it.
_LEAST_PERIODS = 5
_LEAST_EVENTS = 100


@dataclass(frozen=True, slots=True)
class Sanity:
    """Where it closes. Shares are fractions of the members, 0 to 1; 1 never closes.

    `changed_by`: steps of 0.0001 of QoS beyond which a lane counts as changed. `kick_share`: of
    members that fall under the kickout line or become unselectable. `events_share`: of the median
    of the last `periods` periods' events; 0 never closes. Networks with fewer members than
    `least_members` pass: there a single node is a large share.
    """

    changed_share: float = 0.5
    changed_by: int = 2500
    kick_share: float = 0.25
    events_share: float = 0.5
    periods: int = 30
    least_members: int = 20


class Move(NamedTuple):
    """One member's lane: as it stands, and as the report would have it."""

    before: int
    after: int


class EventCounts(NamedTuple):
    """Events of a period, and of the periods before it; `excused`: a count that a human passed."""

    now: int
    before: Sequence[int]
    excused: int | None = None


def changed_too_far(moves: Sequence[Move], sanity: Sanity) -> int:
    """Count the lanes that move by more than `changed_by`; a first word is no change."""
    return sum(
        one.before != NEVER_REPORTED and abs(one.after - one.before) > sanity.changed_by
        for one in moves
    )


def newly_low(moves: Sequence[Move], kick_line: int) -> int:
    """Count the lanes that were good and would be under the line, or not selectable.

    `kick_line` is a lane: `Bands.kick_below`.
    """
    return sum(one.before >= kick_line > one.after for one in moves) + sum(
        # Those under the line already may still become unselectable.
        LOWEST_SCORE <= one.before < kick_line and one.after < LOWEST_SCORE
        for one in moves
    )


def why_too_much(
    moves: Sequence[Move], members: int, kick_line: int, sanity: Sanity
) -> str | None:
    """Tell which share of the members changes too much at once; None: none does.

    `moves`: members whose lane differs; `members`: how many there are.
    """
    if members < sanity.least_members:
        return None
    changed = changed_too_far(moves, sanity)
    if changed > sanity.changed_share * members:
        return (
            f"{changed} of {members} members would change by more than {sanity.changed_by} steps, "
            f"above sanity_changed_share {sanity.changed_share}"
        )
    low = newly_low(moves, kick_line)
    if low > sanity.kick_share * members:
        return (
            f"{low} of {members} members would fall under the kickout line or become "
            f"unselectable, above sanity_kick_share {sanity.kick_share}"
        )
    return None


def why_too_quiet(counted: EventCounts, members: int, sanity: Sanity) -> str | None:
    """Tell whether a period has so few events that the rest is likely to be missing; None: no."""
    if members < sanity.least_members or len(counted.before) < _LEAST_PERIODS:
        return None
    usual = statistics.median(counted.before)
    if usual < _LEAST_EVENTS:
        return None
    if counted.excused is not None:
        usual = min(usual, counted.excused)
    if counted.now >= sanity.events_share * usual:
        return None
    return (
        f"{counted.now} events, where {usual:g} are usual: below sanity_events_share "
        f"{sanity.events_share}"
    )
