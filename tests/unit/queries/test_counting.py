"""Counting rows for the metrics does not delay the scheduler."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.domain.coverage import IngestScope
from oracle.errors import TransientError
from oracle.queries import stats
from oracle.queries.stats import StatisticsCollector
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.scripted_reader import Unread

PATIENCE_SECONDS = 60
FOLDER: Any = SimpleNamespace(rules=CRYNUX, scope=IngestScope((), ()), reader=Unread())


class SlowStore:
    """An empty database whose reads wait for the test, and take two seconds of the clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.began = list[float]()
        self.may_read = threading.Event()
        self.was_read = threading.Event()

    @contextmanager
    def read_transaction(self):
        self.began.append(self.clock())
        assert self.may_read.wait(PATIENCE_SECONDS)
        nothing = SimpleNamespace(get=lambda: None)
        yield SimpleNamespace(cursor=nothing, identity=nothing)
        if len(self.began) % 2 == 0:
            self.clock.advance(2)
            self.was_read.set()


def counting(store: Any, clock: VirtualClock) -> StatisticsCollector:
    return StatisticsCollector(store, FOLDER, clock)


def test_statistics_job_does_not_wait_for_slow_query(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stats, "_FIRST_WAIT_SECONDS", 0.0)
    store = SlowStore()
    count = counting(store, store.clock)
    # A caller that waited for the count would wait forever.
    assert [count.collect_statistics(None) for _ in range(3)] == [None] * 3
    store.may_read.set()
    assert store.was_read.wait(PATIENCE_SECONDS)
    assert len(store.began) == 2


def test_slow_statistics_query_runs_less_often(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stats, "_FIRST_WAIT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(stats, "_WAIT_SECONDS", PATIENCE_SECONDS)
    store = SlowStore()
    store.may_read.set()
    count = counting(store, store.clock)
    began = store.clock()
    for _ in range(12):
        count.collect_statistics(None)
        store.clock.advance(10)
    # Two seconds, and twenty times as many without the count; each reads twice.
    assert [at - began for at in store.began[::2]] == [0, 42, 84]


def test_unreadable_database_fails_statistics_job():
    class Broken:
        def read_transaction(self):
            raise TransientError("locked")

    clock = VirtualClock()
    with pytest.raises(TransientError, match="locked"):
        counting(Broken(), clock).collect_statistics(None)
