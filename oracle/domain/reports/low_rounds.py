"""Finds accepted rounds that showed a lane under the kickout line.

See docs/explanation/reports.md#low-rounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import NEVER_REPORTED, lane_in, word_of


class Shown(NamedTuple):
    """The value of a lane after a round was accepted in `block`; `as_of`: the report's block."""

    round: int
    block: int
    as_of: int
    digest: Hash
    lane: int


def lane_after_each_round(
    rounds: Iterable[RoundAccepted], index: int, before: int
) -> Iterator[Shown]:
    """Yield the value of the lane `index` after each round, in order.

    A round without its word does not change it. `initial_lane`: the lane before the first round.
    """
    lane, word = before, word_of(index)
    for one in rounds:
        for number, value in one.words:
            if number == word:
                lane = lane_in(value, index)
        yield Shown(one.round, one.at.block, one.as_of, one.digest, lane)


def is_low(lane: int, line: int) -> bool:
    """Return whether the contract counts a lane as low; `line` is `ReportSettings.kick_line`."""
    return lane != NEVER_REPORTED and lane < line


def first_low_run(seen: Iterable[Shown], line: int, count: int) -> tuple[Shown, ...]:
    """Return the first `count` low rounds in a row, or the last run if none is as long."""
    run: list[Shown] = []
    for one in seen:
        run = [*run, one] if is_low(one.lane, line) else []
        if len(run) == count:
            break
    return tuple(run)


def newest_low_run_length(seen: Sequence[Shown], line: int) -> int:
    """Count the low rounds in a row up to the last one."""
    count = 0
    for one in reversed(seen):
        if not is_low(one.lane, line):
            break
        count += 1
    return count
