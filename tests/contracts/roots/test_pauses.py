"""The pauser stops the oracle for a bounded time, in which the scores do not age."""

import pytest

from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import LIMITS, RootsOracle
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

DAY = 86_400
MAX_AGE = LIMITS["maxAgeSeconds"]
ROOT = bytes.fromhex("51" * 32)


def pause(oracle: RootsOracle, seconds: int) -> int:
    event = oracle.do("pauseFor", seconds, sender=oracle.pauser).only("PausedUntil")
    assert event == {"until": oracle.chain.time + seconds, "by": oracle.pauser}
    return int(event["until"])


def is_fresh_at(oracle: RootsOracle, time: int) -> bool:
    with oracle.chain.undone():
        oracle.chain.at(time)
        oracle.chain.mine()
        return bool(oracle.read("isFresh"))


def test_reports_are_rejected_until_the_pause_ends(roots: RootsOracle):
    roots.chain.later(LIMITS["minInterval"])
    roots.chain.mine(2)
    report = roots.report(ROOT)
    until = pause(roots, 3_000)
    with pytest.raises(RevertedError, match=rf"Paused\({until}\)"):
        roots.push(report)
    roots.chain.at(until)
    roots.push(report)
    assert roots.round == 2


@pytest.mark.parametrize("seconds", [0, 7 * DAY + 1])
def test_pause_length_out_of_range_is_rejected(roots: RootsOracle, seconds: int):
    with pytest.raises(RevertedError, match=rf"PauseTooLong\({seconds}\)"):
        roots.do("pauseFor", seconds, sender=roots.pauser)


@pytest.mark.parametrize("length", [1, 600, 7 * DAY])
def test_cooldown_is_as_long_as_the_pause(roots: RootsOracle, length: int):
    until = pause(roots, length)
    turn = until + length
    for time in {until - 1, until, turn - 1} - {until - length}:
        with roots.chain.undone():
            roots.chain.at(time)
            with pytest.raises(RevertedError, match=rf"PauseCoolDown\({turn}\)"):
                roots.do("pauseFor", 1, sender=roots.pauser)
    roots.chain.at(turn)
    pause(roots, 7 * DAY)


def test_cooldown_also_applies_to_a_new_pauser(roots: RootsOracle):
    until = pause(roots, 600)
    heir = roots.chain.accounts[8]
    roots.do("setPauser", heir, sender=roots.admin)
    with pytest.raises(RevertedError, match=rf"PauseCoolDown\({until + 600}\)"):
        roots.do("pauseFor", 1, sender=heir)


def test_early_resume_shortens_the_cooldown(roots: RootsOracle):
    begun = pause(roots, DAY) - DAY
    roots.chain.at(begun + 600)
    event = roots.do("resume", sender=roots.admin).only("PausedUntil")
    assert event == {"until": begun + 600, "by": roots.admin}
    assert (roots.read("pauseSeconds"), roots.head("heldSeconds")) == (600, 600)
    with pytest.raises(RevertedError, match=rf"PauseCoolDown\({begun + 1_200}\)"):
        roots.do("pauseFor", 1, sender=roots.pauser)
    with pytest.raises(RevertedError, match="NotPaused"):
        roots.do("resume", sender=roots.admin)
    roots.chain.at(begun + 1_200)
    pause(roots, 1)


def test_pause_extends_max_age_of_fresh_scores(roots: RootsOracle):
    pushed = roots.head("pushedAt")
    pause(roots, 7 * DAY)
    last = pushed + MAX_AGE + 7 * DAY
    assert (is_fresh_at(roots, last), is_fresh_at(roots, last + 1)) == (True, False)


@pytest.mark.parametrize(("late", "holds"), [(0, True), (1, False)], ids=["last second", "after"])
def test_pause_does_not_revive_stale_scores(roots: RootsOracle, late: int, *, holds: bool):
    roots.chain.at(roots.head("pushedAt") + MAX_AGE + late)
    until = pause(roots, DAY)
    assert roots.head("heldSeconds") == (DAY if holds else 0)
    assert is_fresh_at(roots, until) == holds
    roots.chain.at(until - 600)
    roots.do("resume", sender=roots.admin)
    assert roots.head("heldSeconds") == (DAY - 600 if holds else 0)


def test_held_seconds_accumulate_until_the_next_round(roots: RootsOracle):
    for _ in range(3):
        roots.chain.at(pause(roots, 100) + 100)
    roots.chain.mine()
    assert roots.head("heldSeconds") == 300
    roots.push_leaves(make_leaves(NODES))
    assert roots.head("heldSeconds") == 0


def test_resume_with_stale_scores_keeps_earlier_held_seconds(roots: RootsOracle):
    end = pause(roots, 600)
    roots.chain.at(end + MAX_AGE + 700)
    pause(roots, 600)
    roots.do("resume", sender=roots.admin)
    assert roots.head("heldSeconds") == 600


def test_roots_are_readable_during_pause(roots: RootsOracle):
    pause(roots, DAY)
    assert bytes(roots.read("rootOf", 1)) == roots.last_round.root
    assert roots.read("isFresh")
