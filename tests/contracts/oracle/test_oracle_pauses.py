"""The pauser stops the oracle for a bounded time, and the scores do not age in it."""

from typing import Any

import pytest

from tests.contracts.oracle_driver import LIMITS, START, Oracle, full, node
from tests.contracts.oracle_kickouts import WHY, ready, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

DAY = 86_400
MAX_AGE = LIMITS["maxAgeSeconds"]


def paused(oracle: Oracle, seconds: int) -> int:
    event = oracle.do("pauseFor", seconds, sender=oracle.pauser).only("PausedUntil")
    assert event == {"until": oracle.chain.time + seconds, "by": oracle.pauser}
    return int(event["until"])


def fresh_at(oracle: Oracle, time: int) -> bool:
    with oracle.chain.undone():
        oracle.chain.at(time)
        oracle.chain.mine()
        return bool(oracle.read("isFresh"))


# --- what it stops ---


def test_reports_are_rejected_until_the_pause_ends(oracle: Oracle):
    report = oracle.report((0, full()), deadline=oracle.chain.time + 3_600)
    until = paused(oracle, 3_000)
    with pytest.raises(RevertedError, match=rf"Paused\({until}\)"):
        oracle.push(report)
    oracle.chain.at(until)
    oracle.push(report)
    assert oracle.round == 2


def test_kicks_are_rejected_but_a_veto_is_accepted_during_a_pause(oracle: Oracle):
    worded(oracle)
    oracle.propose(0)
    call = oracle.signed_kick(2)
    until = paused(oracle, 3_600)
    does = oracle.contract.functions
    for refused in (call, does.executeKick(node(0)), does.retryKick(node(0))):
        with pytest.raises(RevertedError, match=rf"Paused\({until}\)"):
            oracle.send(refused)
    assert oracle.cancel(0, WHY).names == ["KickCancelled"]


def test_only_the_admin_can_resume_paused_kicks(oracle: Oracle):
    ready(worded(oracle))
    call = oracle.signed_kick(2)
    event = oracle.do("pauseKicks", sender=oracle.pauser).only("KicksPaused")
    assert event == {"paused": True, "by": oracle.pauser}
    for refused in (call, oracle.contract.functions.executeKick(node(0))):
        with pytest.raises(RevertedError, match="KicksRest"):
            oracle.send(refused)
    worded(oracle)

    event = oracle.do("resumeKicks", sender=oracle.admin).only("KicksPaused")
    assert event == {"paused": False, "by": oracle.admin}
    assert "KickExecuted" in oracle.execute(0).names


@pytest.mark.parametrize("call", [("pauseFor", 60), ("pauseKicks",)], ids=["all", "kickouts"])
@pytest.mark.parametrize("who", ["admin", "vetoer", "transmitter"])
def test_only_pauser_may_pause(oracle: Oracle, call: tuple[Any, ...], who: str):
    with pytest.raises(RevertedError, match="NotAllowed"):
        oracle.do(*call, sender=getattr(oracle, who))


# --- how long, and how often ---


@pytest.mark.parametrize("seconds", [0, 7 * DAY + 1])
def test_pause_length_out_of_range_is_rejected(oracle: Oracle, seconds: int):
    with pytest.raises(RevertedError, match=rf"PauseTooLong\({seconds}\)"):
        oracle.do("pauseFor", seconds, sender=oracle.pauser)


@pytest.mark.parametrize("length", [1, 600, 7 * DAY])
def test_pause_cool_down_equals_pause_length(oracle: Oracle, length: int):
    """A second of pausing spends a second, not the whole right."""
    until = paused(oracle, length)
    turn = until + length
    for time in {until - 1, until, turn - 1} - {until - length}:
        with oracle.chain.undone():
            oracle.chain.at(time)
            with pytest.raises(RevertedError, match=rf"PauseCoolDown\({turn}\)"):
                oracle.do("pauseFor", 1, sender=oracle.pauser)
    oracle.chain.at(turn)
    paused(oracle, 7 * DAY)


def test_resume_ends_the_pause_early_and_shortens_its_cool_down(oracle: Oracle):
    report = oracle.report((0, full()))
    begun = paused(oracle, DAY) - DAY
    oracle.chain.at(begun + 600)
    event = oracle.do("resume", sender=oracle.admin).only("PausedUntil")
    assert event == {"until": begun + 600, "by": oracle.admin}
    assert (oracle.read("pauseSeconds"), oracle.head("heldSeconds")) == (600, 600)
    with pytest.raises(RevertedError, match=rf"PauseCoolDown\({begun + 1_200}\)"):
        oracle.do("pauseFor", 1, sender=oracle.pauser)
    oracle.push(report)
    assert oracle.round == 2
    oracle.chain.at(begun + 1_200)
    paused(oracle, 1)


def test_resume_without_pause_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match="NotPaused"):
        oracle.do("resume", sender=oracle.admin)
    until = paused(oracle, 60)
    oracle.chain.at(until)
    with pytest.raises(RevertedError, match="NotPaused"):
        oracle.do("resume", sender=oracle.admin)


# --- scores in a pause ---


def test_pause_extends_the_freshness_of_scores(oracle: Oracle):
    oracle.reported((0, full(1)))
    pushed = oracle.head("pushedAt")
    paused(oracle, 7 * DAY)
    last = pushed + MAX_AGE + 7 * DAY
    assert (fresh_at(oracle, last), fresh_at(oracle, last + 1)) == (True, False)
    oracle.chain.at(last)
    oracle.chain.mine()
    assert not oracle.read("isSelectable", node(0))


@pytest.mark.parametrize(("late", "holds"), [(0, True), (1, False)], ids=["last second", "after"])
def test_pause_does_not_revive_stale_scores(oracle: Oracle, late: int, *, holds: bool):
    """One second before, and one after: dead scores stay dead."""
    oracle.reported((0, full(1)))
    stale = oracle.head("pushedAt") + MAX_AGE
    oracle.chain.at(stale + late)
    until = paused(oracle, DAY)
    assert oracle.head("heldSeconds") == (DAY if holds else 0)
    assert oracle.read("isFresh") == holds
    assert fresh_at(oracle, until) == holds
    oracle.chain.at(until - 600)
    oracle.do("resume", sender=oracle.admin)
    assert oracle.head("heldSeconds") == (DAY - 600 if holds else 0)


def test_resume_of_pause_begun_after_expiry_keeps_earlier_held_seconds(oracle: Oracle):
    """The first pause held its seconds; the second, begun too late, resumes and leaves them."""
    end = paused(oracle, 600)
    oracle.chain.at(end + MAX_AGE + 700)
    paused(oracle, 600)
    oracle.do("resume", sender=oracle.admin)
    assert oracle.head("heldSeconds") == 600


def test_held_seconds_accumulate_over_pauses_until_the_next_round(oracle: Oracle):
    for _ in range(3):
        oracle.chain.at(paused(oracle, 100) + 100)
    oracle.chain.mine()
    assert oracle.head("heldSeconds") == 300
    oracle.reported((0, full()))
    assert oracle.head("heldSeconds") == 0


def test_scores_and_weights_can_be_read_during_a_pause(oracle: Oracle):
    paused(oracle, DAY)
    assert oracle.score(0) == (True, True, START - 2)
    assert oracle.read("weightOf", node(99)) == 5_000


def test_pause_cool_down_also_applies_to_a_new_pauser(oracle: Oracle):
    until = paused(oracle, 600)
    heir = oracle.chain.accounts[8]
    oracle.do("setPauser", heir, sender=oracle.admin)
    with pytest.raises(RevertedError, match=rf"PauseCoolDown\({until + 600}\)"):
        oracle.do("pauseFor", 1, sender=heir)
