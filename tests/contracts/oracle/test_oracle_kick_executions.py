"""When a proposed kickout is executed, and how many of them."""

import pytest

from tests.contracts.oracle_driver import EVIDENCE, KICK_LIMITS, LIMITS, Oracle, full, node
from tests.contracts.oracle_kickouts import DELAY, GOOD, KICKED, ROUNDS, pending, ready, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

MAX_AGE = LIMITS["maxAgeSeconds"]
NODE = node(0).lower()


@pytest.fixture
def oracle(oracle: Oracle) -> Oracle:
    """Round 2 is in: node 0 is bad, 1 good enough, 2 not to be selected, 3 as at the start."""
    return worded(oracle)


# --- executing ---


def test_any_account_can_execute_a_ready_kick(oracle: Oracle):
    ready(oracle)
    receipt = oracle.execute(0)
    expected_event = {"node": node(0), "evidence": EVIDENCE, "target": oracle.network.address}
    assert receipt.only("KickExecuted") == expected_event
    assert receipt.only("KickedOut") == {"node": node(0), "evidence": EVIDENCE}
    assert not oracle.network.functions.isMember(node(0)).call()
    assert oracle.held(0) | {"readyAt": 0, "diesAt": 0} == {
        "indexPlusOne": 1,
        "kick": 2,
        "readyAt": 0,
        "diesAt": 0,
        "expelledUntil": 2**40 - 1,
        "round": 2 + ROUNDS,
        "config": 1,
    }
    assert (oracle.read("isExpelled", node(0)), pending(oracle)) == (True, False)


def test_contract_may_execute_kick(oracle: Oracle):
    ready(oracle)
    receipt = oracle.forwarded(oracle.contract.functions.executeKick(node(0)))
    assert receipt.names == KICKED


def test_kick_can_be_executed_only_once(oracle: Oracle):
    ready(oracle)
    oracle.execute(0)
    with pytest.raises(RevertedError, match=rf"NoKick\({NODE}\)"):
        oracle.execute(0)


def test_execution_without_proposal_is_rejected(oracle: Oracle):
    with pytest.raises(RevertedError, match=rf"NoKick\({NODE}\)"):
        oracle.execute(0)


def test_veto_delay_is_exact_to_the_second(oracle: Oracle):
    oracle.propose(0)
    proposed = oracle.chain.time
    for _ in range(ROUNDS):
        worded(oracle)
    with oracle.chain.undone():
        oracle.chain.at(proposed + DELAY - 1)
        with pytest.raises(RevertedError, match=rf"KickNotReady\({proposed + DELAY}, "):
            oracle.execute(0)
    oracle.chain.at(proposed + DELAY)
    assert oracle.execute(0).names == KICKED


def test_kick_cannot_be_executed_before_enough_newer_rounds(oracle: Oracle):
    oracle.propose(0)
    for _ in range(ROUNDS - 1):
        worded(oracle)
    oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match=rf"KickNotReady\(\d+, {2 + ROUNDS}\)"):
        oracle.execute(0)


def test_newer_rounds_are_counted_from_the_proposal(oracle: Oracle):
    call = oracle.signed_kick(0)
    for _ in range(ROUNDS):
        worded(oracle)
    oracle.send(call)
    oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match=rf"KickNotReady\(\d+, {2 + 2 * ROUNDS}\)"):
        oracle.execute(0)


def test_stale_scores_prevent_execution(oracle: Oracle):
    ready(oracle)
    pushed = oracle.head("pushedAt")
    with oracle.chain.undone():
        oracle.chain.at(pushed + MAX_AGE)
        assert oracle.execute(0).names == KICKED
    oracle.chain.at(pushed + MAX_AGE + 1)
    with pytest.raises(RevertedError, match=rf"StaleScores\({pushed}\)"):
        oracle.execute(0)
    worded(oracle)
    assert oracle.execute(0).names == KICKED


def test_unexecuted_kick_expires(oracle: Oracle):
    ready(oracle)
    dies = oracle.held(0)["diesAt"]
    oracle.chain.at(dies - 100)
    worded(oracle)
    with oracle.chain.undone():
        oracle.chain.at(dies)
        assert oracle.execute(0).names == KICKED
    oracle.chain.at(dies + 1)
    with pytest.raises(RevertedError, match=rf"KickDead\({dies}\)"):
        oracle.execute(0)
    assert not pending(oracle)


def test_recovered_node_is_not_kicked(oracle: Oracle):
    ready(oracle)
    worded(oracle, GOOD)
    with pytest.raises(RevertedError, match=rf"NotBelowThreshold\({GOOD}\)"):
        oracle.execute(0)
    # One bad round more, and it is low again: the proposal still lives.
    worded(oracle)
    assert oracle.execute(0).names == KICKED


def test_kick_that_would_leave_fewer_than_min_open_lanes_is_rejected(oracle: Oracle):
    ready(oracle)
    oracle.reported((0, full(*[1] * 16)), (1, full(1, 1, of=4)))
    with oracle.chain.undone(), pytest.raises(RevertedError, match=r"TooFewOpen\(2, 3\)"):
        oracle.execute(0)
    oracle.reported((1, full(1, of=4)))
    assert oracle.execute(0).names == KICKED


def test_node_that_quit_the_network_is_expelled_by_its_pending_kick(oracle: Oracle):
    """The target has nothing to do; who comes back weighs nothing."""
    ready(oracle)
    oracle.by_network("quit", node(0))
    assert oracle.execute(0).names == ["KickExecuted"]
    assert oracle.read("isExpelled", node(0))


# --- the bucket ---


def bucket_of(oracle: Oracle, capacity: int, per_frame: int, frame: int = 60) -> None:
    changes = {"bucketMost": capacity, "bucketPerFrame": per_frame, "bucketFrame": frame}
    kick_limits = tuple((KICK_LIMITS | changes).values())
    event = oracle.do("setKickLimits", kick_limits, sender=oracle.admin).only("KickLimitsSet")
    assert dict(event["limits"]) == oracle.named("kickLimits") == KICK_LIMITS | changes


def test_kicks_are_rejected_until_the_empty_bucket_is_refilled(oracle: Oracle):
    for who in (0, 2):
        oracle.propose(who)
    worded(oracle)
    oracle.propose(4)
    for _ in range(ROUNDS):
        worded(oracle)
    oracle.chain.later(DELAY)
    _, start = oracle.read("bucket")
    for who in (0, 2):
        oracle.execute(who)

    with pytest.raises(RevertedError, match=rf"BucketEmpty\({start + 3_600}\)"):
        oracle.execute(4)
    oracle.chain.at(start + 3_600)
    assert oracle.execute(4).names == KICKED
    assert oracle.read("bucket") == [0, start + 3_600]


def test_bucket_is_not_refilled_beyond_its_size(oracle: Oracle):
    _, start = oracle.read("bucket")
    oracle.chain.at(start + 100 * 3_600 + 5)
    oracle.chain.mine()
    assert oracle.read("bucket") == [2, start + 100 * 3_600]


def test_shrinking_the_bucket_discards_the_excess(oracle: Oracle):
    bucket_of(oracle, 1, 0)
    assert oracle.read("bucket") == [1, oracle.chain.time]


def test_enlarging_the_bucket_does_not_fill_it(oracle: Oracle):
    bucket_of(oracle, 9, 1)
    assert oracle.read("bucket")[0] == 2


def test_refill_before_a_settings_change_is_kept(oracle: Oracle):
    bucket_of(oracle, 9, 1)
    oracle.chain.later(180)
    bucket_of(oracle, 9, 0)
    assert oracle.read("bucket")[0] == 2 + 3


@pytest.mark.parametrize("flow", [(0, 1), (0, 0)])
def test_error_for_a_bucket_that_is_never_refilled_has_refill_time_zero(
    oracle: Oracle, flow: tuple[int, int]
):
    ready(oracle)
    bucket_of(oracle, *flow)
    with pytest.raises(RevertedError, match=r"BucketEmpty\(0\)"):
        oracle.execute(0)
