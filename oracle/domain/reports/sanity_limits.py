"""Checks whether a report is plausible.

A report with too many changes waits for an operator. The checks use only the lanes of members
before and after the report. See docs/explanation/reports.md#when-to-publish.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED

# A median of fewer periods means little, and a smaller number of tasks can halve by chance.
_MIN_PERIODS = 5
_MIN_TASKS = 100


@dataclass(frozen=True, slots=True)
class SanityLimits:
    """The limits within which a report is plausible.

    Shares are fractions of the members from 0 to 1, where 1 disables the check. A lane counts as
    changed if it changes by more than `changed_by` steps of 0.0001. `kick_share` limits the
    members that fall below the kickout line or become unselectable. `events_share` is a fraction
    of the median activity of the last `periods` periods, where 0 disables the check. Networks with
    fewer members than `min_members` pass, because a single node is a large share of them.
    """

    changed_share: float = 0.5
    changed_by: int = 2500
    kick_share: float = 0.25
    events_share: float = 0.5
    periods: int = 30
    min_members: int = 20


class Activity(NamedTuple):
    """The activity in a network during a period.

    `tasks` is the number of ended tasks that had a node, and `nodes` the number of their nodes. An
    outsider can raise neither number without paying for tasks, nor raise `nodes` above the number
    of members.
    """

    tasks: int
    nodes: int


def count_large_lane_changes(lane_changes: Sequence[tuple[int, int]], limits: SanityLimits) -> int:
    """Count the nodes whose lane changes by more than `changed_by`.

    New nodes are not counted.
    """
    return sum(
        old_lane != NEVER_REPORTED and abs(new_lane - old_lane) > limits.changed_by
        for old_lane, new_lane in lane_changes
    )


def count_newly_low_lanes(lane_changes: Sequence[tuple[int, int]], kick_line: int) -> int:
    """Count the lanes that newly fall below the kickout line or become unselectable.

    `kick_line` is a lane: `ReportSettings.kick_line`.
    """
    return sum(old_lane >= kick_line > new_lane for old_lane, new_lane in lane_changes) + sum(
        # Lanes already below the line can still become unselectable.
        LOWEST_SCORE <= old_lane < kick_line and new_lane < LOWEST_SCORE
        for old_lane, new_lane in lane_changes
    )


def find_excessive_change_reason(
    lane_changes: Sequence[tuple[int, int]],
    member_count: int,
    kick_line: int,
    limits: SanityLimits,
) -> str | None:
    """Return a reason if too many members change at once, otherwise None.

    The limit is a share of the members. `lane_changes` has a pair for each of the `member_count`
    members whose lane differs: the current lane, and the lane in the report.
    """
    if member_count < limits.min_members:
        return None
    changed_count = count_large_lane_changes(lane_changes, limits)
    if changed_count > limits.changed_share * member_count:
        return (
            f"{changed_count} of {member_count} members would change by more than "
            f"{limits.changed_by} steps, above sanity_changed_share {limits.changed_share}"
        )
    newly_low_count = count_newly_low_lanes(lane_changes, kick_line)
    if newly_low_count > limits.kick_share * member_count:
        return (
            f"{newly_low_count} of {member_count} members would drop below the kickout line or "
            f"become unselectable, above sanity_kick_share {limits.kick_share}"
        )
    return None


def find_quiet_period_reason(
    activity: Activity,
    previous_periods: Sequence[Activity],
    member_count: int,
    limits: SanityLimits,
) -> str | None:
    """Return a reason if events of a period are probably missing, otherwise None.

    The period is compared with the median of the previous periods or with the last period,
    whichever is lower, so that the reports of a network that stays quiet are held only once.
    """
    if member_count < limits.min_members or len(previous_periods) < _MIN_PERIODS:
        return None
    usual_task_count = statistics.median(period.tasks for period in previous_periods)
    if usual_task_count < _MIN_TASKS:
        return None
    usual_task_count = min(usual_task_count, previous_periods[-1].tasks)
    usual_node_count = min(
        statistics.median(period.nodes for period in previous_periods), previous_periods[-1].nodes
    )
    is_active_enough = (
        activity.tasks >= limits.events_share * usual_task_count
        or activity.nodes >= limits.events_share * usual_node_count
    )
    if is_active_enough:
        return None
    return (
        f"only {activity.tasks} tasks of {activity.nodes} nodes ended (usually "
        f"{usual_task_count:g} tasks of {usual_node_count:g} nodes), below sanity_events_share "
        f"{limits.events_share}"
    )
