"""The leader stalls at every commit, signature and send, while a successor takes over.

While the leader stalls, its lease expires; a standby takes the lease and works until the effect is
final. Then the leader continues where it stalled: it must exit, and change nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.store.database import Store
from oracle.store.lease_repository import LeaseRepository
from oracle.store.outbox.records import PUSH
from tests.support.harness import Harness, OracleTestbed
from tests.support.sending.fuses import install_fuse
from tests.support.sending.journals import find_journal_gaps
from tests.support.sending.phases import PHASES, Phase, Stage, count_emitted_events
from tests.support.sending.stalls import (
    Stall,
    Succession,
    Watch,
    dump_rows,
    is_sqlite,
    reuse_store,
    shorten_timeouts,
)
from tests.support.txmgr.stores import NewStore

# Every point takes a second or more on a shared machine.
pytestmark = pytest.mark.timeout(1800)

WRITE, BEFORE, AFTER = "before a write", "before a commit", "after a commit"
SEND = "before a send"


@dataclass(frozen=True)
class Stand(Stage):
    """A stage whose database has a second store."""

    second: Store


@contextmanager
def open_stand(testbed: OracleTestbed, new_store: NewStore, folder: Path) -> Iterator[Stand]:
    with shorten_timeouts(), reuse_store(new_store) as (emptied, second):
        yield Stand(testbed, emptied, folder, second)


@pytest.fixture
def stage(testbed: OracleTestbed, new_store: NewStore, tmp_path: Path) -> Iterator[Stand]:
    with open_stand(testbed, new_store, tmp_path) as opened_stand:
        yield opened_stand


@pytest.fixture
def sqlite_stage(
    testbed: OracleTestbed, new_sqlite_store: NewStore, tmp_path: Path
) -> Iterator[Stand]:
    with open_stand(testbed, new_sqlite_store, tmp_path) as opened_stand:
        yield opened_stand


@pytest.mark.parametrize("kind", PHASES)
def test_case_f41_successor_of_a_stalled_leader_sends_once(
    stage: Stand, kind: str, *, bounded: bool
):
    phase = PHASES[kind]
    with stage.set_for(phase):
        passed, is_waiting = list_stall_points(stage, phase)
        assert passed.count(AFTER) >= phase.commits
        assert passed.count(SEND) == passed.count("after a send") == 2
        assert "after signing a transaction" in passed
        stop_numbers = (
            list_first_numbers(passed)
            if bounded
            else select_stall_numbers(passed, kind, is_waiting=is_waiting)
        )
        for number in stop_numbers:
            with stage.harness(str(number)) as harness:
                stop = Stop(passed, number, is_waiting=is_waiting)
                assert_survives_stall(harness, stage.second, kind, stop)


def test_nonce_prevents_a_second_push_without_lease_fencing(
    sqlite_stage: Stand, monkeypatch: pytest.MonkeyPatch
):
    stage = sqlite_stage
    phase = PHASES[PUSH]
    with stage.set_for(phase):
        passed, _ = list_stall_points(stage, phase)
        monkeypatch.setattr(LeaseRepository, "lock_held_lease", lambda *_: None)
        monkeypatch.setattr(LeaseRepository, "verify_lease_by_write", lambda *_: None)
        late = 0
        for number, name in enumerate(passed):
            if name not in {WRITE, SEND, "after signing a transaction"}:
                continue
            with stage.harness(str(number)) as harness:
                where = f"{name} {number}"
                nonce = harness.testbed.nonce
                with closing(Succession(harness, stage.second, phase.play)) as succession:
                    stall = succession.stalled(number)
                    late += len(stall.late)
                    assert harness.testbed.nonce == nonce + 1, where
                    assert count_emitted_events(harness.testbed, phase.event) == 1, where
                    assert len(set(stall.sent)) == 1, where
        # Its own late transactions were sent, too.
        assert late > 0


@dataclass(frozen=True)
class Stop:
    """A point of a complete run, and whether other writers can continue from this point."""

    passed: Sequence[str]
    number: int
    is_waiting: bool

    @property
    def name(self) -> str:
        return self.passed[self.number]

    @property
    def is_inside(self) -> bool:
        """Whether the point is inside a write."""
        return self.name == BEFORE

    @property
    def may_send(self) -> bool:
        """Whether the leader has verified its lease and only has to send."""
        if self.is_inside and not self.is_waiting:
            return False
        points_ahead = self.passed[self.number + self.is_inside :]
        return next((name for name in points_ahead if name in {BEFORE, SEND}), BEFORE) == SEND


def list_stall_points(stage: Stage, phase: Phase) -> tuple[list[str], bool]:
    """Return the points of a complete phase, and whether writers wait for each other."""
    watch = Watch()
    with stage.harness("whole") as harness, install_fuse(harness, watch):
        phase.play(harness)
    return watch.passed, is_sqlite(harness.store)


def select_stall_numbers(passed: Sequence[str], kind: str, *, is_waiting: bool) -> list[int]:
    """Return the numbers of the points to stall at, in order.

    On SQLite these are all points, except those inside a write (`is_waiting`): other writers wait
    for the stalled one, and take over at the next point. PostgreSQL differs only in ending such a
    write, so these are all points inside the writes of a push, and otherwise the first point of
    each name.
    """
    inside = {number for number, name in enumerate(passed) if name == BEFORE}
    if is_waiting:
        return sorted({*range(len(passed))} - {number + 1 for number in inside})
    first = list_first_numbers(passed)
    return sorted({*first} | inside) if kind is PUSH else first


def list_first_numbers(passed: Sequence[str]) -> list[int]:
    """Return the number of the first point of each name, in order."""
    return sorted({passed.index(name) for name in passed})


def assert_survives_stall(harness: Harness, second: Store, kind: str, stop: Stop) -> None:
    """Stall at one point; assert that everything happens once, and nothing after the takeover."""
    phase = PHASES[kind]
    testbed = harness.testbed
    where = f"{stop.name} {stop.number}"
    nonce = testbed.nonce
    with closing(Succession(harness, second, phase.play)) as succession:
        stall = succession.stalled(stop.number)
        heir = succession.heir
        assert heir is not None, where
        assert_leader_replaced(harness, succession, stall, stop)
        assert testbed.nonce == nonce + 1, where
        assert count_emitted_events(testbed, phase.event) == 1, where
        # An overtaken leader sent at most its current transaction, and wrote nothing more.
        assert stop.may_send or stall.late == [], where
        assert dump_rows(heir.store) == succession.rows, where

        assert phase.is_so(heir), where
        (call,) = heir.intents(kind)
        assert (call.state.value, call.nonce) == ("final", nonce), where
        assert stall.unstored == [], where
        assert len(set(stall.sent)) == 1, where
        assert find_journal_gaps(heir) == [], where


def assert_leader_replaced(
    harness: Harness, succession: Succession, stall: Stall, stop: Stop
) -> None:
    """Assert that the leader stalled at the point, was replaced, and exited for this reason."""
    where = f"{stop.name} {stop.number}"
    heir = succession.heir
    waits = stop.is_inside and stop.is_waiting
    assert stall.stood == [stop.name, *([AFTER] if waits else [])], where
    assert heir is not None, where
    assert heir.epoch == harness.epoch + 1, where
    assert "taken over the lease" in str(succession.ended), where
    # Inside a write: With SQLite other writers wait for the stalled one; with PostgreSQL they
    # terminate it.
    assert (succession.kept_out > 0) == stop.is_inside, where
    assert (succession.met != []) == (stop.is_inside and not stop.is_waiting), where
