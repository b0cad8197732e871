"""When a proposed kickout is executed, and how many of them."""

import pytest

from tests.contracts.oracle_driver import EVIDENCE, LIMITS, Oracle, node
from tests.contracts.oracle_kickouts import DELAY, GOOD, ROUNDS, ready, worded
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

MAX_AGE = LIMITS["maxAgeSeconds"]


@pytest.fixture
def oracle(oracle: Oracle) -> Oracle:
    """One round is in: node 0 is bad, 1 good enough, 2 not to be selected, 3 unknown."""
    return worded(oracle)


# --- executing ---


def test_anyone_executes_a_kickout_that_is_ready(oracle: Oracle):
    ready(oracle)
    receipt = oracle.execute(0)
    expected = {"index": 0, "node": node(0), "round": 1 + ROUNDS, "evidence": EVIDENCE}
    assert receipt.only("KickExecuted") == expected
    assert receipt.only("KickedOut") == {"node": node(0), "evidence": EVIDENCE}
    assert not oracle.network.functions.isMember(node(0)).call()


def test_a_contract_may_execute(oracle: Oracle):
    ready(oracle)
    receipt = oracle.forwarded(oracle.contract.functions.executeKick(0))
    assert receipt.names == ["KickExecuted", "KickedOut"]


def test_a_kickout_is_executed_once(oracle: Oracle):
    ready(oracle)
    oracle.execute(0)
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        oracle.execute(0)


def test_what_was_not_proposed_is_not_executed(oracle: Oracle):
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        oracle.execute(0)


def test_the_veto_delay_is_kept_to_the_second(oracle: Oracle):
    oracle.propose(0)
    proposed = oracle.chain.time
    for _ in range(ROUNDS):
        worded(oracle)
    with oracle.chain.undone():
        oracle.chain.at(proposed + DELAY - 1)
        with pytest.raises(RevertedError, match=rf"KickNotReady\({proposed + DELAY}, "):
            oracle.execute(0)
    oracle.chain.at(proposed + DELAY)
    assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]


def test_the_newer_rounds_are_waited_for_too(oracle: Oracle):
    oracle.propose(0)
    for _ in range(ROUNDS - 1):
        worded(oracle)
    oracle.chain.later(DELAY)
    with pytest.raises(RevertedError, match=rf"KickNotReady\(\d+, {1 + ROUNDS}\)"):
        oracle.execute(0)


def test_an_oracle_that_has_stopped_kicks_nobody_out(oracle: Oracle):
    ready(oracle)
    pushed = oracle.read("head")[2]
    with oracle.chain.undone():
        oracle.chain.at(pushed + MAX_AGE)
        assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]
    oracle.chain.at(pushed + MAX_AGE + 1)
    with pytest.raises(RevertedError, match=rf"StaleScores\({pushed}\)"):
        oracle.execute(0)
    worded(oracle)
    assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]


def test_a_kickout_that_nobody_executes_dies(oracle: Oracle):
    ready(oracle)
    dies = oracle.read("kickOf", 0)[1]
    oracle.chain.at(dies - 100)
    worded(oracle)
    with oracle.chain.undone():
        oracle.chain.at(dies)
        assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]
    oracle.chain.at(dies + 1)
    with pytest.raises(RevertedError, match=rf"KickDead\({dies}\)"):
        oracle.execute(0)


def test_a_dead_kickout_makes_room_for_a_new_one(oracle: Oracle):
    ready(oracle)
    oracle.chain.at(oracle.read("kickOf", 0)[1] + 1)
    oracle.chain.mine()
    receipt = oracle.propose(0, evidence=b"\x07" * 32)
    assert receipt.names == ["KickCancelled", "KickProposed"]
    assert receipt.only("KickCancelled")["why"] == b"too late".ljust(32, b"\0")


def test_a_node_that_has_recovered_stays(oracle: Oracle):
    ready(oracle)
    worded(oracle, GOOD)
    with pytest.raises(RevertedError, match=rf"NotBelowThreshold\({GOOD}\)"):
        oracle.execute(0)


def test_a_node_that_has_left_is_not_kicked_out(oracle: Oracle):
    ready(oracle)
    oracle.by_network("quit", node(0))
    with pytest.raises(RevertedError, match=r"NotMember\(0\)"):
        oracle.execute(0)


def test_a_network_that_would_starve_keeps_its_nodes(oracle: Oracle):
    ready(oracle)
    for number in range(3, 20):
        oracle.by_network("quit", node(number))
    with pytest.raises(RevertedError, match=r"TooFewMembers\(3, 3\)"):
        oracle.execute(0)
    oracle.by_network("join", node(3))
    assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]


def test_a_network_that_refuses_keeps_the_kickout_alive(oracle: Oracle):
    ready(oracle)
    oracle.by_network("setRefuses", True)
    oracle.chain.contract("testing/PlainNetwork", oracle.network.address)
    with pytest.raises(RevertedError, match="Refused"):
        oracle.execute(0)
    assert oracle.read("bucket")[1] == 2
    oracle.by_network("setRefuses", False)
    assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]


@pytest.mark.parametrize("share", [50, 70, 80, 90, 95, 98])
def test_a_caller_who_gives_too_little_gas_cannot_burn_a_kickout(oracle: Oracle, share: int):
    ready(oracle)
    call = oracle.contract.functions.executeKick(0)
    with oracle.chain.undone():
        enough = oracle.execute(0).gas
    request = oracle.chain.request(call) | {"gas": hex(enough * share // 100)}
    (sent,) = oracle.chain.together(request)
    raw = oracle.chain.rpc("eth_getTransactionReceipt", sent)
    assert raw["status"] == "0x0"
    assert oracle.read("kickOf", 0)[3]
    assert oracle.execute(0).names == ["KickExecuted", "KickedOut"]


# --- the bucket ---


def test_so_many_kickouts_and_no_more_until_the_bucket_refills(oracle: Oracle):
    for index in (0, 2):
        oracle.propose(index)
    worded(oracle)
    oracle.propose(4)
    for _ in range(ROUNDS):
        worded(oracle)
    oracle.chain.later(DELAY)
    start = oracle.read("bucket")[4]
    for index in (0, 2):
        oracle.execute(index)

    with pytest.raises(RevertedError, match=rf"BucketEmpty\({start + 3_600}\)"):
        oracle.execute(4)
    oracle.chain.at(start + 3_600)
    assert oracle.execute(4).names == ["KickExecuted", "KickedOut"]
    assert oracle.read("bucket") == (2, 0, 1, 3_600, start + 3_600)


def test_the_bucket_holds_no_more_than_its_size(oracle: Oracle):
    start = oracle.read("bucket")[4]
    oracle.chain.at(start + 100 * 3_600 + 5)
    oracle.chain.mine()
    assert oracle.read("bucket") == (2, 2, 1, 3_600, start + 100 * 3_600)


def test_a_smaller_bucket_spills(oracle: Oracle):
    oracle.do("setBucket", 1, 0, 60, sender=oracle.admin)
    assert oracle.read("bucket") == (1, 1, 0, 60, oracle.chain.time)


def test_a_larger_bucket_does_not_come_filled(oracle: Oracle):
    said = oracle.do("setBucket", 9, 1, 60, sender=oracle.admin).only("BucketSet")
    assert said == {"most": 9, "perFrame": 1, "frame": 60}
    assert oracle.read("bucket")[:2] == (9, 2)


def test_what_flowed_in_before_a_new_setting_stays(oracle: Oracle):
    oracle.do("setBucket", 9, 1, 60, sender=oracle.admin)
    oracle.chain.later(180)
    oracle.do("setBucket", 9, 0, 60, sender=oracle.admin)
    assert oracle.read("bucket")[:2] == (9, 2 + 3)


@pytest.mark.parametrize("flow", [(0, 1), (0, 0)])
def test_an_empty_bucket_that_never_fills_says_so(oracle: Oracle, flow: tuple[int, int]):
    ready(oracle)
    oracle.do("setBucket", *flow, 60, sender=oracle.admin)
    with pytest.raises(RevertedError, match=r"BucketEmpty\(0\)"):
        oracle.execute(0)
