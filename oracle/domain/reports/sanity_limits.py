"""Checks whether a report is plausible; one that changes too much at once waits for an operator.

The checks see no nodes, only the lanes of members, before and after. See
docs/explanation/reports.md#when-to-publish.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED

# A median of fewer periods is meaningless; of fewer tasks, it may halve by chance.
_LEAST_PERIODS = 5
_LEAST_TASKS = 100


@dataclass(frozen=True, slots=True)
class Sanity:
    """The limits of a plausible report. Shares are fractions of the members, 0 to 1; 1 disables.

    `changed_by`: steps of 0.0001 of QoS beyond which a lane counts as changed. `kick_share`: of
    members that fall under the kickout line or become unselectable. `events_share`: of the median
    activity of the last `periods` periods; 0 disables. Networks with fewer members than
    `min_members` pass, because there a single node is a large share.
    """

    changed_share: float = 0.5
    changed_by: int = 2500
    kick_share: float = 0.25
    events_share: float = 0.5
    periods: int = 30
    least_members: int = 20


class Move(NamedTuple):
    """One member's lane: the current one, and that of the report."""

    before: int
    after: int


class Activity(NamedTuple):
    """The activity of a network in a period: tasks of nodes that ended, and their nodes.

    An outsider can raise neither without paying for tasks, nor the second above the members.
    """

    tasks: int
    nodes: int


def count_large_changes(moves: Sequence[Move], sanity: Sanity) -> int:
    """Count the lanes that change by more than `changed_by`; a first report is no change."""
    return sum(
        one.before != NEVER_REPORTED and abs(one.after - one.before) > sanity.changed_by
        for one in moves
    )


def count_newly_low(moves: Sequence[Move], kick_line: int) -> int:
    """Count the lanes that would fall under the line, or become unselectable.

    `kick_line` is a lane: `ReportSettings.kick_line`.
    """
    return sum(one.before >= kick_line > one.after for one in moves) + sum(
        # Lanes already under the line may still become unselectable.
        LOWEST_SCORE <= one.before < kick_line and one.after < LOWEST_SCORE
        for one in moves
    )


def excess_change_reason(
    moves: Sequence[Move], members: int, kick_line: int, sanity: Sanity
) -> str | None:
    """Return which share of the members changes too much at once, or None.

    `moves`: members whose lane differs; `members`: how many there are.
    """
    if members < sanity.least_members:
        return None
    changed = count_large_changes(moves, sanity)
    if changed > sanity.changed_share * members:
        return (
            f"{changed} of {members} members would change by more than {sanity.changed_by} steps, "
            f"above sanity_changed_share {sanity.changed_share}"
        )
    low = count_newly_low(moves, kick_line)
    if low > sanity.kick_share * members:
        return (
            f"{low} of {members} members would fall under the kickout line or become "
            f"unselectable, above sanity_kick_share {sanity.kick_share}"
        )
    return None


def quiet_period_reason(
    now: Activity, before: Sequence[Activity], members: int, sanity: Sanity
) -> str | None:
    """Return why a period is likely to miss events, or None if it is not.

    A period is compared with the median of those before and with the last one, whichever had less,
    so that a network that stays quiet is held only once.
    """
    if members < sanity.least_members or len(before) < _LEAST_PERIODS:
        return None
    tasks = statistics.median(period.tasks for period in before)
    if tasks < _LEAST_TASKS:
        return None
    tasks = min(tasks, before[-1].tasks)
    nodes = min(statistics.median(period.nodes for period in before), before[-1].nodes)
    is_usual = now.tasks >= sanity.events_share * tasks or now.nodes >= sanity.events_share * nodes
    if is_usual:
        return None
    return (
        f"{now.tasks} tasks of {now.nodes} nodes ended, where {tasks:g} of {nodes:g} are usual: "
        f"below sanity_events_share {sanity.events_share}"
    )
