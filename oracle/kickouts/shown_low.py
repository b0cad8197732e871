"""Reads which accepted rounds showed an accused node under the kickout line."""

from collections.abc import Iterator, Sequence
from itertools import chain

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.lanes import NEVER_REPORTED, lane_in, word_of
from oracle.domain.reports.low_rounds import (
    Shown,
    first_low_run,
    lane_after_each_round,
    newest_low_run_length,
)
from oracle.domain.reports.report import ReportSettings
from oracle.store.database import UnitOfWork


def first_low(
    uow: UnitOfWork, interval: KickoutDue, index: int, settings: ReportSettings
) -> tuple[Shown, ...]:
    """Return the first rounds in a row, of blocks since the interval opened, that showed it low.

    They are `settings.kick_after_rounds`, fewer where there were not as many yet. What comes later
    does not change them: they are what every reporter's evidence names.
    """
    line, count = settings.kick_line, settings.kick_after_rounds
    return first_low_run(_since(uow, interval, index), line, count)


def count_low_rounds(
    uow: UnitOfWork, interval: KickoutDue, index: int, newest: Sequence[RoundAccepted], line: int
) -> int:
    """Count the newest rounds in a row that showed a node low while its interval was open.

    `newest`: the last `kick_after_rounds` accepted rounds, oldest first; no others are counted.
    `line` is a lane: `ReportSettings.kick_line`.
    """
    rounds = [accepted for accepted in newest if accepted.as_of >= interval.opened_at.block]
    if not rounds:
        return 0
    before = _lane_before(uow, rounds[0].round, index)
    return newest_low_run_length(list(lane_after_each_round(rounds, index, before)), line)


def _since(uow: UnitOfWork, interval: KickoutDue, index: int) -> Iterator[Shown]:
    pages = _pages(uow, word_of(index), interval.opened_at.block)
    first = next(pages, [])
    if not first:
        return
    lane = _lane_before(uow, first[0].round, index)
    for page in chain([first], pages):
        for one in lane_after_each_round(page, index, lane):
            lane = one.lane
            yield one


def _pages(uow: UnitOfWork, word: int, as_of: int) -> Iterator[list[RoundAccepted]]:
    after = 0
    while page := uow.rounds.since(word, as_of, after):
        yield page
        after = page[-1].round


def _lane_before(uow: UnitOfWork, number: int, index: int) -> int:
    """Return what the lane held before round `number`: what the last round with its word said."""
    word = word_of(index)
    if not uow.rounds.words([word]):
        # Never written: no round needs to be looked at for it.
        return NEVER_REPORTED
    while page := uow.rounds.until(word, number - 1):
        for one in page:
            for _, value in one.words:
                return lane_in(value, index)
        number = page[-1].round
    return NEVER_REPORTED
