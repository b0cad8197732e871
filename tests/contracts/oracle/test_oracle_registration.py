"""Indexes are given by reports: to whom, whose they were, and what is refused."""

import pytest

from tests.contracts.oracle_driver import START, ZERO, Oracle, deployed, full, node
from tests.contracts.oracle_kickouts import DELAY, KICKED, ROUNDS, WHY, pending, ready, worded
from tests.contracts.oracle_signing import data, word
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

A, B, C = node(100), node(101), node(102)
# The second word with so many of its lanes given, the first of them 16 to 19.
FIVE, SIX = full(of=5), full(of=6)


@pytest.fixture
def closed(oracle: Oracle) -> Oracle:
    """Rounds ago, node 2's lane was closed."""
    oracle.reported((0, full(l2=1)))
    oracle.chain.later(10)
    oracle.chain.mine()
    return oracle


# --- appending ---


def test_new_node_gets_the_next_index_and_its_first_score(oracle: Oracle):
    receipt = oracle.reported((1, FIVE), fresh=[A])
    assert receipt.names == ["NodeRegistered", "RoundAccepted"]
    assert receipt.only("NodeRegistered") == {"index": 20, "node": A}
    assert (oracle.read("indexOf", A), oracle.lane(20)) == (20, START)
    assert (oracle.head("nodeCount"), oracle.head("openCount")) == (21, 21)


def test_new_nodes_are_numbered_in_report_order(oracle: Oracle):
    oracle.reported((1, SIX), fresh=[B, A])
    assert [oracle.read("indexOf", who) for who in (B, A)] == [20, 21]


def test_first_round_assigns_first_index(chain: Chain):
    oracle = deployed(chain)
    oracle.reported((0, word(1)), fresh=[A])
    assert (oracle.read("indexOf", A), oracle.head("openCount"), oracle.round) == (0, 0, 1)


@pytest.mark.parametrize(
    ("fresh", "who"), [([node(3)], node(3)), ([A, A], A), ([ZERO], ZERO), ([A, ZERO], ZERO)]
)
def test_duplicate_or_zero_address_registration_is_rejected(
    oracle: Oracle, fresh: list[str], who: str
):
    report = oracle.report((1, full(of=4 + len(fresh))), fresh=fresh)
    with pytest.raises(RevertedError, match=rf"AlreadyRegistered\({who.lower()}\)"):
        oracle.push(report)


@pytest.mark.parametrize(
    ("words", "unscored"),
    [([(0, full())], 20), ([(1, FIVE)], 21), ([(1, full(of=4) | word(l5=7))], 20)],
    ids=["in no word", "the second", "the first"],
)
def test_new_node_without_score_is_rejected(
    oracle: Oracle, words: list[tuple[int, int]], unscored: int
):
    with pytest.raises(RevertedError, match=rf"NoScore\({unscored}\)"):
        oracle.push(oracle.report(*words, fresh=[A, B]))


def test_new_nodes_may_span_several_words(chain: Chain):
    oracle = deployed(chain)
    oracle.registered(33)
    assert [oracle.lane(index) for index in (0, 15, 16, 32, 33)] == [START] * 4 + [0]
    assert oracle.read("indexOf", node(32)) == 32


def test_more_registrations_than_the_limit_are_rejected(closed: Oracle):
    closed.limited(maxNewNodes=2)
    takers = [(C, node(2))]
    report = closed.report((1, SIX), fresh=[A, B], reused=takers)
    with pytest.raises(RevertedError, match=rf"BadLength\({len(report.data)}\)"):
        closed.push(report)
    closed.push(closed.report((1, FIVE), fresh=[A], reused=takers))
    assert closed.head("nodeCount") == 21


@pytest.mark.parametrize("size", [4, 23, 24, 43, 44])
def test_truncated_addresses_are_rejected(oracle: Oracle, size: int):
    report_data = data((1, SIX), fresh=[A, B])
    with pytest.raises(RevertedError, match=rf"BadLength\({size}\)"):
        oracle.push(oracle.report(data=report_data[:size]))


def test_registration_reverts_when_all_indexes_are_taken(oracle: Oracle):
    """16,777,215 nodes are too many for a test: the head's slot is written by hand."""
    chain, here = oracle.chain, oracle.contract.address
    last, place = 2**24 - 1, 32 + 3 * 40 + 24  # bits of the fields before nodeCount
    slot = int(chain.rpc("eth_getStorageAt", here, "0x0", "latest"), 16)
    slot = slot & ~(last << place) | last << place
    chain.rpc("anvil_setStorageAt", here, "0x0", f"0x{slot:064x}")
    assert oracle.head("nodeCount") == last
    with pytest.raises(RevertedError, match="IndexSpaceFull"):
        oracle.push(oracle.report((2**20 - 1, word(5)), fresh=[A]))


# --- reusing ---


def test_index_of_a_closed_lane_can_be_reused_by_another_node(closed: Oracle):
    receipt = closed.reported((0, full(l2=7_000)), reused=[(A, node(2))])
    assert receipt.names == ["NodeReleased", "NodeRegistered", "RoundAccepted"]
    assert receipt.only("NodeReleased") == {"index": 2, "node": node(2)}
    assert receipt.only("NodeRegistered") == {"index": 2, "node": A}
    assert (closed.read("indexOf", A), closed.head("nodeCount")) == (2, 20)
    assert closed.score(A) == (True, True, 6_998)
    # Who had it is as new as anybody.
    assert closed.score(2) == (False, True, 0)


def test_index_of_an_open_lane_cannot_be_reused(oracle: Oracle):
    for lane in (START, 2):
        oracle.reported((0, full(l2=lane)))
        report = oracle.report((0, full(l2=9)), reused=[(A, node(2))])
        with oracle.chain.undone():
            oracle.chain.later(10)
            with pytest.raises(RevertedError, match=rf"NotReleasable\({node(2).lower()}\)"):
                oracle.push(report)


def test_lane_closed_in_the_same_round_cannot_be_reused(oracle: Oracle):
    with pytest.raises(RevertedError, match="NotReleasable"):
        oracle.push(oracle.report((0, full(l2=1)), reused=[(A, node(2))]))


@pytest.mark.parametrize("old", [A, ZERO])
def test_index_of_an_unregistered_node_cannot_be_reused(closed: Oracle, old: str):
    with pytest.raises(RevertedError, match=rf"NotReleasable\({old.lower()}\)"):
        closed.push(closed.report((0, full(l2=9)), reused=[(B, old)]))


def test_reused_index_without_a_score_stays_closed(closed: Oracle):
    """It is closed until a report says otherwise: nobody inherits a score."""
    closed.reported((1, full(of=4)), reused=[(A, node(2))])
    assert closed.score(A) == (True, False, 0)


def test_reusing_an_index_twice_in_one_report_is_rejected(closed: Oracle):
    with pytest.raises(RevertedError, match="NotReleasable"):
        closed.push(closed.report((0, full(l2=9)), reused=[(A, node(2)), (B, node(2))]))


def test_registering_an_address_twice_in_one_report_is_rejected(closed: Oracle):
    report = closed.report((0, full(l2=9)), (1, FIVE), fresh=[A], reused=[(A, node(2))])
    with pytest.raises(RevertedError, match=rf"AlreadyRegistered\({A.lower()}\)"):
        closed.push(report)


def test_node_may_reuse_its_own_index(closed: Oracle):
    """It is released first, and then it is fresh: the lane and the index are as they were."""
    closed.reported((0, full(l2=9)), reused=[(node(2), node(2))])
    assert (closed.read("indexOf", node(2)), closed.lane(2)) == (2, 9)


def test_node_that_lost_its_index_can_register_again(closed: Oracle):
    closed.reported((0, full(l2=9)), reused=[(A, node(2))])
    closed.reported((1, FIVE), fresh=[node(2)])
    assert closed.read("indexOf", node(2)) == 20


# --- reusing, and kickouts ---


def test_index_of_a_node_with_a_pending_kick_cannot_be_reused(oracle: Oracle):
    worded(oracle)
    oracle.propose(2)
    report = oracle.report((0, full(l2=9)), reused=[(A, node(2))])
    with oracle.chain.undone():
        oracle.chain.later(10)
        with pytest.raises(RevertedError, match=rf"NotReleasable\({node(2).lower()}\)"):
            oracle.push(report)
    oracle.cancel(2, WHY)
    oracle.reported((0, full(l2=9, l1=9)), reused=[(A, node(2))])
    assert oracle.read("indexOf", A) == 2


def test_index_can_be_reused_after_kick_expiry_and_the_kick_is_not_revived(oracle: Oracle):
    worded(oracle)
    oracle.propose(2)
    oracle.do("setRules", b"\x02" * 32, sender=oracle.admin)
    oracle.reported((0, full(l2=9, l1=9)), reused=[(A, node(2))])
    assert not pending(oracle, 2)
    assert oracle.held(2)["kick"] == 0
    with pytest.raises(RevertedError, match="NoKick"):
        oracle.execute(2)


def test_expelled_node_stays_expelled_after_losing_index(oracle: Oracle):
    worded(oracle)
    ready(oracle)
    assert oracle.execute(0).names == KICKED
    oracle.reported((0, full(1)))
    oracle.reported((0, full(8_000)), reused=[(A, node(0))])
    assert (oracle.read("weightOf", A), oracle.read("weightOf", node(0))) == (7_999, 0)
    # Not even a new index, or a good score, brings it back.
    oracle.reported((1, full(l4=10_002, of=5)), fresh=[node(0)])
    assert (oracle.read("weightOf", node(0)), oracle.read("isSelectable", node(0))) == (0, False)


def test_kick_belongs_to_the_node_address_not_to_its_index(oracle: Oracle):
    """The proposal of an address that has given its index up reaches nobody."""
    worded(oracle, 1)
    late = oracle.signed_kick(0)
    oracle.reported((0, full(2, l2=1)), reused=[(A, node(0))])
    with pytest.raises(RevertedError, match=rf"NotRegistered\({node(0).lower()}\)"):
        oracle.send(late)
    oracle.propose(A)
    for _ in range(ROUNDS):
        oracle.reported((0, full(2, l2=1)))
    oracle.chain.later(DELAY)
    assert oracle.execute(A).only("KickExecuted")["node"] == A
