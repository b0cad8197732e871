"""A node's task scores and membership time in its current window.

A tally never goes back, so an event whose block time is before the current window counts in the
current window. See docs/explanation/legacy.md#scores.
"""

from typing import NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.state import Membership, Node

_DAY_SECONDS = 86_400
# The Gregorian calendar repeats after 400 years. They have this many months and this many days.
_CYCLE_MONTHS, _CYCLE_DAYS = 4_800, 146_097
# Years begin on 1 March here, so that the leap day is the last day of its year. January 1970 is
# therefore the eleventh month of 1969.
_MONTHS_BEFORE_EPOCH = 1_969 * 12 + 10
_DAYS_BEFORE_EPOCH = 719_468


def compute_window_number(time: int, legacy_rules: LegacyRules) -> int:
    """Return the number of the window that contains a block time in seconds."""
    if legacy_rules.window_seconds is not None:
        return time // legacy_rules.window_seconds
    day_number = time // _DAY_SECONDS
    # The estimate is off by at most one month, because months differ in length by at most three
    # days.
    month_number = day_number * _CYCLE_MONTHS // _CYCLE_DAYS
    while _compute_first_day_of_month(month_number) > day_number:
        month_number -= 1
    while _compute_first_day_of_month(month_number + 1) <= day_number:
        month_number += 1
    return month_number


def compute_window_start(window: int, legacy_rules: LegacyRules) -> int:
    """Return the block time, in seconds, at which a window begins."""
    if legacy_rules.window_seconds is not None:
        return window * legacy_rules.window_seconds
    return _compute_first_day_of_month(window) * _DAY_SECONDS


def _compute_first_day_of_month(month: int) -> int:
    """Return the first day of a month, in days since 1970-01-01.

    Month 0 is January 1970.
    """
    year, month_index = divmod(month + _MONTHS_BEFORE_EPOCH, 12)
    days_before_year = 365 * year + year // 4 - year // 100 + year // 400
    # From March on, the lengths of months follow the pattern 31, 30, 31, 30, 31 days.
    return days_before_year + (153 * month_index + 2) // 5 - _DAYS_BEFORE_EPOCH


class WindowTally(NamedTuple):
    """The sums over a node's current window, as of one time.

    `total` is the sum of the node's task scores, and `tasks` their number. `online_seconds` is the
    node's membership time in the window, including pauses.
    """

    window: int
    total: int
    tasks: int
    online_seconds: int

    @property
    def node_score(self) -> int | None:
        """Return the mean task score in units of 10^-18, or None without scores."""
        return self.total * UNIT // self.tasks if self.tasks else None

    def justifies_kickout(self, legacy_rules: LegacyRules) -> bool:
        """Return whether the tasks are numerous and their mean low enough for a kickout."""
        has_enough_tasks = self.tasks >= legacy_rules.kickout_tasks
        return has_enough_tasks and self.total * UNIT < legacy_rules.kickout_below * self.tasks


def compute_window_tally(node: Node, time: int, legacy_rules: LegacyRules) -> WindowTally:
    """Return the node's tally for the window that contains `time`.

    If the node's current window is later than `time`, the tally of the current window is returned.
    """
    window = compute_window_number(time, legacy_rules)
    online_since = node.online_since
    if window <= node.window:
        online_seconds = node.online_seconds + (
            0 if online_since is None else max(0, time - online_since)
        )
        return WindowTally(node.window, node.window_sum, node.window_count, online_seconds)
    return WindowTally(
        window,
        0,
        0,
        0 if online_since is None else time - compute_window_start(window, legacy_rules),
    )


def get_stored_window_tally(node: Node) -> WindowTally:
    """Return the tally stored in the node's row.

    The stored tally is as of the node's last event.
    """
    return WindowTally(node.window, node.window_sum, node.window_count, node.online_seconds)


def advance_window(node: Node, time: int, legacy_rules: LegacyRules) -> None:
    """Start a new window if `time` is past the end of the node's current window."""
    window = compute_window_number(time, legacy_rules)
    if window <= node.window:
        return
    node.window = window
    node.window_sum = node.window_count = node.online_seconds = 0
    if node.online_since is not None:
        node.online_since = compute_window_start(window, legacy_rules)


def add_score(node: Node, score: int, time: int, legacy_rules: LegacyRules) -> None:
    """Add a task score to the window in which the task ended."""
    advance_window(node, time, legacy_rules)
    node.window_sum += score
    node.window_count += 1


def update_online_clock(node: Node, time: int, legacy_rules: LegacyRules) -> None:
    """Start the online clock of a new member, or stop that of a node that left."""
    advance_window(node, time, legacy_rules)
    if node.membership is Membership.MEMBER:
        node.online_since = max(time, compute_window_start(node.window, legacy_rules))
    elif node.online_since is not None:
        node.online_seconds += max(0, time - node.online_since)
        node.online_since = None
