"""Reporters with the same chain select the same report, and never two that can both land."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hypothesis import given, strategies as st

from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.round_schedule import (
    ReportHeader,
    ScheduleMoment,
    compute_submission_window,
    find_scheduled_report,
)
from tests.support.examples import examples

PERIOD, TTL, BLOCK_SECONDS = 60, 300, 12
SETTINGS = ReportSettings(period_seconds=PERIOD, heartbeat_seconds=600, ttl_seconds=TTL)
LENGTH = compute_submission_window(SETTINGS)
PERIODS = 4 * LENGTH


class Chain(NamedTuple):
    """Whether the report of each period is due, and after which periods a round was accepted."""

    is_due: Sequence[bool]
    accepted: frozenset[int]
    window: int

    def cut(self, period: int) -> ReportHeader:
        """Return the report as of a period's last block;
        rounds are accepted in its first blocks.
        """
        head = self.head(period)
        time = period * PERIOD + PERIOD - 1
        return ReportHeader(
            period=period,
            as_of=time // BLOCK_SECONDS,
            as_of_time=time,
            head_round=head,
            prev=Hash(f"0x{head:064x}"),
            deadline=time + TTL,
            root=Hash(f"0x{period:064x}"),
            is_due=self.is_due[period],
        )

    def head(self, period: int) -> int:
        return sum(accepted_period <= period for accepted_period in self.accepted)

    def moment(self, time: int) -> ScheduleMoment:
        head = self.head(time // PERIOD)
        number = time // BLOCK_SECONDS
        return ScheduleMoment(number, time, head, Hash(f"0x{head:064x}"), self.window)


CHAINS = st.builds(
    Chain,
    st.lists(st.booleans(), min_size=PERIODS, max_size=PERIODS),
    st.frozensets(st.integers(1, PERIODS - 1), max_size=4),
    st.sampled_from([8, 20, 200]),
)
# The period from which a reporter has every report, and the times of its ticks.
LOOKS = st.tuples(
    st.integers(0, PERIODS - LENGTH),
    st.sets(st.integers(0, PERIODS * PERIOD - 1), min_size=1, max_size=30),
)


def list_signed_reports(
    chain: Chain, complete_from: int, moments: Sequence[int]
) -> dict[int, ReportHeader]:
    """Return the reports that a reporter signs, by the time of the tick."""
    signed: dict[int, ReportHeader] = {}
    for time in moments:
        moment = chain.moment(time)
        # The available reports: every period that is over, from the first complete one
        # on.
        cuts = [chain.cut(period) for period in range(complete_from, time // PERIOD)]
        turn = find_scheduled_report(cuts, complete_from, moment, SETTINGS)
        if turn is not None:
            signed[time] = turn
    return signed


@examples(20)
@given(CHAINS, LOOKS, LOOKS)
def test_reporters_with_a_complete_window_sign_the_same_report(
    chain, first_reporter, second_reporter
):
    firsts = []
    for complete_from, moments in (first_reporter, second_reporter):
        by_turn: dict[tuple[int, int], set[ReportHeader]] = {}
        for cut in list_signed_reports(chain, complete_from, sorted(moments)).values():
            slot_start = cut.period // LENGTH * LENGTH
            if slot_start >= max(first_reporter[0], second_reporter[0]):
                by_turn.setdefault((cut.head_round, cut.period // LENGTH), set()).add(cut)
        firsts.append(by_turn)

    for turn in firsts[0].keys() & firsts[1].keys():
        both = sorted(firsts[0][turn] | firsts[1][turn])
        # There may be several only if each had left the window before the next one was
        # cut.
        assert all(
            later.as_of >= earlier.as_of + chain.window for earlier, later in pairwise(both)
        )


@examples(20)
@given(CHAINS, LOOKS)
def test_second_report_is_signed_only_after_the_first_expires(chain, reporter):
    complete_from, moments = reporter
    signed = list_signed_reports(chain, complete_from, sorted(moments))
    for time, cut in signed.items():
        earlier = {
            earlier_cut for at, earlier_cut in signed.items() if at < time and earlier_cut != cut
        }
        assert all(chain.moment(time).is_report_expired(earlier_cut) for earlier_cut in earlier)


@examples(20)
@given(CHAINS, st.integers(0, PERIODS * PERIOD - 1))
def test_signed_report_is_due_and_not_expired(chain, time):
    turn = list_signed_reports(chain, 0, [time]).get(time)

    assert turn is None or (turn.is_due and not chain.moment(time).is_report_expired(turn))


def test_reporter_that_missed_the_window_start_waits_for_the_next_one():
    chain = Chain([True] * PERIODS, frozenset(), 200)
    middle = LENGTH + 2
    time = (middle + 2) * PERIOD

    assert list_signed_reports(chain, 0, [time])[time].period == LENGTH
    assert list_signed_reports(chain, middle, [time]) == {}
    later = (2 * LENGTH + 1) * PERIOD
    assert list_signed_reports(chain, middle, [later])[later].period == 2 * LENGTH


def test_accepted_round_counts_as_the_start_of_the_submission_window():
    accepted = LENGTH + 3
    chain = Chain([True] * PERIODS, frozenset({accepted}), 200)
    time = (accepted + 1) * PERIOD

    assert list_signed_reports(chain, accepted - 1, [time])[time].period == accepted
    assert list_signed_reports(chain, accepted, [time]) == {}
