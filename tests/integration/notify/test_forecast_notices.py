"""Notices of near kickouts: when they are sent, and when they are not repeated."""

from collections.abc import Iterator

import pytest

from oracle.notify.notice_collector import NoticeCollector
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History

Forecasts = list[tuple[str, object]]


class Owner:
    """Indexes a history part by part, and collects the notices of forecasts about its nodes."""

    def __init__(self, indexed: IndexedHistory) -> None:
        self.history = History().joins("A")
        self._indexed = indexed
        self._collector = NoticeCollector(CRYNUX)
        self._folded = 0
        self.collect()

    def collect(self) -> Forecasts:
        """Index the new events; return all notices of forecasts so far."""
        events = self.history.events
        self._indexed.index(events[self._folded :], self.history.block, self.history.time)
        self._folded = len(events)
        with self._indexed.store.transaction() as uow:
            self._collector.collect_notices(uow, is_at_head=True)
            notices = uow.notices.list_after(0, 1_000)
        return [
            (notice.kind, notice.body.get("scores"))
            for notice in notices
            if notice.kind in {"kickout_near", "kickout_far"}
        ]

    def collect_after(self, *scores: int) -> Forecasts:
        """Let A get these scores in a new block; return all notices of forecasts so far."""
        self.history.after(60).scores("A", *scores)
        return self.collect()

    def restart(self) -> None:
        self._collector = NoticeCollector(CRYNUX)


@pytest.fixture
def owner(new_sqlite_store) -> Iterator[Owner]:
    with new_sqlite_store() as store:
        yield Owner(IndexedHistory(store))


@pytest.fixture
def near_owner(owner: Owner) -> Owner:
    """Let A get the notice that a kickout is near."""
    owner.collect_after(*[10] * 12)
    owner.collect_after(*[0] * 26)
    assert owner.collect_after(0) == [("kickout_near", 14)]
    return owner


def test_forecast_between_the_two_thresholds_sends_no_notice(near_owner: Owner):
    # Due in 16 tasks, and in 15 and 14 again: never far.
    for score in (10, 10, 10, 0, 0):
        assert near_owner.collect_after(score) == [("kickout_near", 14)]
    assert near_owner.collect_after(*[10] * 10)[1:] == [("kickout_far", None)]


@pytest.mark.parametrize("restarts", [0, 1])
def test_node_that_rejoins_gets_a_new_forecast_notice(near_owner: Owner, restarts: int):
    near_owner.history.after(60).starts("last", "A")
    near_owner.history.quits("A")
    assert near_owner.collect() == [("kickout_near", 14)]
    if restarts:
        near_owner.restart()

    near_owner.history.after(60).submits("last").closes("late", "last").succeeds("last")
    assert near_owner.collect() == [("kickout_near", 14)]

    near_owner.history.after(60).joins("A")
    assert near_owner.collect_after(0)[1:] == [("kickout_near", 13)]


def test_paused_node_gets_no_second_forecast_notice(near_owner: Owner):
    near_owner.history.after(60).pauses("A").after(60).resumes("A")
    assert near_owner.collect_after(0) == [("kickout_near", 14)]


def test_near_kickout_that_is_averted_within_a_backlog_sends_no_notice(owner: Owner):
    owner.collect_after(*[10] * 12)
    owner.history.after(60).scores("A", *[0] * 27)
    # Far again two transactions of the collector later.
    owner.history.after(60, blocks=5_000).scores("A", *[10] * 20)
    assert owner.collect() == []
