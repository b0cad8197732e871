"""The daemon dies at every commit, signature and send of a kickout; the node leaves once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.store.outbox.records import ACCUSE, EXECUTE_KICK
from tests.support.harness import OracleTestbed
from tests.support.sending.fuses import Crash, Deaths, Fuse, install_fuse
from tests.support.sending.journals import find_journal_gaps
from tests.support.sending.phases import PHASES, Phase, Stage, count_emitted_events
from tests.support.sending.stalls import reuse_store
from tests.support.txmgr.stores import NewStore

# Every point takes seconds on a shared machine.
pytestmark = pytest.mark.timeout(900)

KICKOUTS = (ACCUSE, EXECUTE_KICK)


@pytest.fixture
def stage(testbed: OracleTestbed, new_store: NewStore, tmp_path: Path) -> Iterator[Stage]:
    with reuse_store(new_store) as (emptied, _):
        yield Stage(testbed, emptied, tmp_path)


@pytest.mark.parametrize("kind", KICKOUTS)
def test_case_f01_kickout_is_completed_once_after_any_crash(
    stage: Stage, death_points: Deaths, kind: str
):
    phase = PHASES[kind]
    with stage.set_for(phase):
        passed = list_death_points(stage, phase)
        assert passed.count("after a commit") >= phase.commits
        assert passed.count("after a send") == 2
        assert passed.count("after signing a transaction") == 1
        for number, name in death_points.of(passed):
            assert_survives_death(stage, number, f"{name} {number}", kind)


def list_death_points(stage: Stage, phase: Phase) -> list[str]:
    """Return the points at which a phase can die, from a complete phase."""
    fuse = Fuse()
    with stage.harness("whole") as harness, install_fuse(harness, fuse):
        phase.play(harness)
    assert fuse.unstored == []
    return fuse.passed


def assert_survives_death(stage: Stage, number: int, where: str, kind: str) -> None:
    """Die at one point, and continue with another process.

    Assert that everything happened once.
    """
    phase = PHASES[kind]
    testbed = stage.testbed
    with stage.harness(str(number)) as harness:
        nonce = testbed.nonce
        with pytest.raises(Crash), install_fuse(harness, Fuse(number)):
            phase.play(harness)
        harness.restart()
        phase.play(harness)
        assert phase.is_so(harness), where
        assert count_emitted_events(testbed, phase.event) == 1, where
        (call,) = harness.intents(kind)
        assert (call.state.value, call.nonce) == ("final", nonce), where
        assert testbed.nonce == nonce + 1, where
        assert find_journal_gaps(harness) == [], where
