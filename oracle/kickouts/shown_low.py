"""Finds the accepted rounds that showed an accused node below the kickout line."""

from collections.abc import Iterator, Sequence
from itertools import chain

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.kickout_evidence import (
    LaneObservation,
    count_newest_low_run,
    find_first_low_run,
    iter_lane_observations,
)
from oracle.domain.reports.lanes import NEVER_REPORTED, extract_lane, get_word_index
from oracle.domain.reports.report import ReportSettings
from oracle.store.database import UnitOfWork


def find_first_low_rounds(
    uow: UnitOfWork, interval: KickoutDue, index: int, settings: ReportSettings
) -> tuple[LaneObservation, ...]:
    """Return the first consecutive rounds since the opening that showed the node low.

    The result has `settings.kick_after_rounds` rounds, or fewer if not enough rounds have shown
    the node low yet. Later rounds do not change a complete result, because the evidence of every
    reporter contains it.
    """
    kick_line, required_rounds = settings.kick_line, settings.kick_after_rounds
    return find_first_low_run(_iter_lanes_since(uow, interval, index), kick_line, required_rounds)


def count_low_rounds(
    uow: UnitOfWork,
    interval: KickoutDue,
    index: int,
    newest_rounds: Sequence[RoundAccepted],
    kick_line: int,
) -> int:
    """Count the newest consecutive rounds that showed a node low while its interval was open.

    `newest_rounds` are the last `kick_after_rounds` accepted rounds, oldest first; no other rounds
    are counted. `kick_line` is a lane value: `ReportSettings.kick_line`.
    """
    rounds = [accepted for accepted in newest_rounds if accepted.as_of >= interval.opened_at.block]
    if not rounds:
        return 0
    lane_before = _load_lane_before(uow, rounds[0].round, index)
    return count_newest_low_run(
        list(iter_lane_observations(rounds, index, lane_before)), kick_line
    )


def _iter_lanes_since(
    uow: UnitOfWork, interval: KickoutDue, index: int
) -> Iterator[LaneObservation]:
    pages = _iter_pages(uow, get_word_index(index), interval.opened_at.block)
    first = next(pages, [])
    if not first:
        return
    lane = _load_lane_before(uow, first[0].round, index)
    for page in chain([first], pages):
        for shown in iter_lane_observations(page, index, lane):
            lane = shown.lane
            yield shown


def _iter_pages(uow: UnitOfWork, word_index: int, as_of: int) -> Iterator[list[RoundAccepted]]:
    after_round = 0
    while page := uow.rounds.list_accepted_since(word_index, as_of, after_round):
        yield page
        after_round = page[-1].round


def _load_lane_before(uow: UnitOfWork, round_number: int, index: int) -> int:
    """Return the lane before a round, from the last earlier round that wrote its word."""
    word_index = get_word_index(index)
    if not uow.rounds.get_words([word_index]):
        # The word was never written, so no round needs to be read.
        return NEVER_REPORTED
    while page := uow.rounds.list_accepted_up_to(word_index, round_number - 1):
        for accepted in page:
            for _, value in accepted.words:
                return extract_lane(value, index)
        round_number = page[-1].round
    return NEVER_REPORTED
