"""Finds accepted rounds that showed a lane below the kickout line.

See docs/explanation/reports.md#low-rounds.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.domain.reports.lanes import NEVER_REPORTED, extract_lane, get_word_index


class LaneObservation(NamedTuple):
    """The value of a lane after a round that was computed at `as_of` and accepted in `block`."""

    round: int
    block: int
    as_of: int
    digest: Hash
    lane: int


def iter_lane_observations(
    rounds: Iterable[RoundAccepted], index: int, initial_lane: int
) -> Iterator[LaneObservation]:
    """Yield the value of the lane with this index after each round, in order.

    A round that does not include the lane's word leaves the lane unchanged. `initial_lane` is the
    lane before the first round.
    """
    lane, word_index = initial_lane, get_word_index(index)
    for accepted_round in rounds:
        for number, value in accepted_round.words:
            if number == word_index:
                lane = extract_lane(value, index)
        yield LaneObservation(
            accepted_round.round,
            accepted_round.at.block,
            accepted_round.as_of,
            accepted_round.digest,
            lane,
        )


def is_low(lane: int, line: int) -> bool:
    """Return whether the contract counts a lane as low; `line` is `ReportSettings.kick_line`."""
    return lane != NEVER_REPORTED and lane < line


def find_first_low_run(
    observations: Iterable[LaneObservation], line: int, count: int
) -> tuple[LaneObservation, ...]:
    """Return the first `count` consecutive low rounds, or the last run if none is that long."""
    run: list[LaneObservation] = []
    for observation in observations:
        run = [*run, observation] if is_low(observation.lane, line) else []
        if len(run) == count:
            break
    return tuple(run)


def count_newest_low_run(observations: Sequence[LaneObservation], line: int) -> int:
    """Count the consecutive low rounds at the end of the observations."""
    count = 0
    for observation in reversed(observations):
        if not is_low(observation.lane, line):
            break
        count += 1
    return count
