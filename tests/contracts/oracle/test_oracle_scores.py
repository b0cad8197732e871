"""What consumers read, and how nodes come by their indexes."""

import pytest

from tests.contracts.oracle_driver import LIMITS, ZERO, Oracle, node, word
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

OUTSIDER = node(999)
MAX_AGE = LIMITS["maxAgeSeconds"]


# --- scores ---


@pytest.mark.parametrize(
    ("lane", "score"),
    [
        (0, (False, True, 0)),
        (1, (True, False, 0)),
        (2, (True, True, 0)),
        (3, (True, True, 1)),
        (5_002, (True, True, 5_000)),
        (10_002, (True, True, 10_000)),
    ],
    ids=["no report yet", "do not select", "0", "0.0001", "0.5", "1.0"],
)
def test_a_lane_is_read_as_known_selectable_and_qos(
    oracle: Oracle, lane: int, score: tuple[bool, bool, int]
):
    oracle.reported((1, word(7, lane, 7)))
    assert oracle.score(node(17)) == score
    assert oracle.read("isSelectable", node(17)) == score[1]


def test_a_new_node_before_its_first_report_is_selectable(oracle: Oracle):
    oracle.reported((0, word(1)))
    oracle.by_network("join", OUTSIDER)
    assert oracle.score(OUTSIDER) == (False, True, 0)


def test_an_address_that_never_joined_is_not_selectable(oracle: Oracle):
    oracle.reported((0, word(5)))
    assert oracle.read("scoreOf", OUTSIDER) == [False, False, 0, 1, 0]
    assert not oracle.read("isSelectable", OUTSIDER)


def test_a_score_tells_its_round_and_its_age(oracle: Oracle):
    oracle.reported((0, word(5_002)))
    oracle.chain.later(100)
    oracle.chain.mine()
    assert oracle.read("scoreOf", node(0)) == [True, True, 5_000, 1, 100]


def test_an_oracle_dead_for_longer_than_max_age_excludes_nobody(oracle: Oracle):
    oracle.reported((0, word(1, 5_002)))
    pushed = oracle.chain.time
    oracle.chain.at(pushed + MAX_AGE)
    oracle.chain.mine()
    assert (oracle.read("isFresh"), oracle.score(node(0))) == (True, (True, False, 0))

    oracle.chain.at(pushed + MAX_AGE + 1)
    oracle.chain.mine()
    assert (oracle.read("isFresh"), oracle.score(node(0))) == (False, (True, True, 0))
    assert oracle.score(node(1)) == (True, True, 5_000)
    assert oracle.read("isSelectable", node(0))
    assert not oracle.read("isSelectable", OUTSIDER)

    oracle.reported((0, word(1, 5_002)))
    assert oracle.score(node(0)) == (True, False, 0)


def test_before_the_first_round_nothing_is_fresh_and_everyone_selectable(oracle: Oracle):
    assert not oracle.read("isFresh")
    assert oracle.read("scoreOf", node(0)) == [False, True, 0, 0, oracle.chain.time]


def test_words_and_lanes_hold_the_same(oracle: Oracle):
    lanes = [*range(100, 116)]
    oracle.reported((0, word(*lanes)), (1, word(116)))
    assert oracle.read("wordsAt", 0, 3) == [word(*lanes), word(116), 0]
    assert oracle.read("wordsAt", 1, 1) == [word(116)]
    assert oracle.read("wordsAt", 0, 0) == []
    assert [oracle.lane(index) for index in range(18)] == [*range(100, 117), 0]


# --- indexes ---


def test_nodes_are_numbered_as_they_join(oracle: Oracle):
    receipt = oracle.by_network("join", OUTSIDER)
    assert receipt.only("NodeRegistered") == {"index": 20, "node": OUTSIDER}
    assert oracle.read("head")[4] == 21
    assert (oracle.read("indexOf", OUTSIDER), oracle.read("nodeAt", 20)) == (20, OUTSIDER)


def test_an_index_that_was_never_given_is_nobodys(oracle: Oracle):
    assert oracle.read("nodeAt", 20) == ZERO
    with pytest.raises(Exception, match=OUTSIDER[2:].lower()):
        oracle.read("indexOf", OUTSIDER)


def test_a_node_that_joins_again_before_any_report_keeps_its_index(oracle: Oracle):
    oracle.reported((0, word(5)))
    oracle.by_network("quit", node(7))
    assert oracle.by_network("join", node(7)).names == []
    assert (oracle.read("indexOf", node(7)), oracle.read("head")[4]) == (7, 20)


def test_a_node_that_joins_again_after_a_report_starts_anew(oracle: Oracle):
    oracle.reported((0, word(l7=2)))
    oracle.by_network("quit", node(7))
    receipt = oracle.by_network("join", node(7))
    assert receipt.names == ["NodeIndexRetired", "NodeRegistered"]
    assert receipt.only("NodeIndexRetired") == {"index": 7, "node": node(7)}
    assert receipt.only("NodeRegistered") == {"index": 20, "node": node(7)}
    assert (oracle.read("indexOf", node(7)), oracle.read("nodeAt", 7)) == (20, node(7))
    assert oracle.score(node(7)) == (False, True, 0)


def test_a_report_signed_before_the_return_does_not_reach_the_new_index(oracle: Oracle):
    oracle.reported((0, word(l7=2)))
    oracle.chain.mine(2)
    late = oracle.report((0, word(l7=1)))
    oracle.by_network("quit", node(7))
    oracle.by_network("join", node(7))
    oracle.chain.later(LIMITS["minInterval"])
    oracle.push(late)
    assert oracle.score(node(7)) == (False, True, 0)


def test_a_node_that_comes_and_goes_gets_an_index_after_every_report(oracle: Oracle):
    oracle.reported((0, word(l7=5)))
    for index in (20, 21, 22):
        oracle.by_network("quit", node(7))
        oracle.by_network("join", node(7))
        assert oracle.read("indexOf", node(7)) == index
        lanes = {f"l{written - 16}": 5 for written in range(20, index + 1)}
        oracle.reported((1, word(**lanes)))


@pytest.mark.parametrize("role", ["admin", "pauser", "vetoer", "transmitter"])
def test_only_the_network_registers_nodes(oracle: Oracle, role: str):
    who = getattr(oracle, role)
    with pytest.raises(RevertedError, match=rf"NotAllowed\({who.lower()}\)"):
        oracle.do("register", OUTSIDER, sender=who)


def test_the_zero_address_is_no_node(oracle: Oracle):
    with pytest.raises(RevertedError, match="ZeroAddress"):
        oracle.by_network("join", ZERO)


def test_a_full_index_space_says_so(oracle: Oracle):
    """16,777,216 joins are too many for a test: the head's slot is written by hand."""
    chain = oracle.chain
    full = (1 << 24) << 160  # nodeCount stands at bit 160 of slot 0
    slot = int(chain.rpc("eth_getStorageAt", oracle.contract.address, "0x0", "latest"), 16)
    slot = slot & ~(0xFFFFFFFF << 160) | full
    chain.rpc("anvil_setStorageAt", oracle.contract.address, "0x0", f"0x{slot:064x}")
    assert oracle.read("head")[4] == 1 << 24
    with pytest.raises(RevertedError, match="IndexSpaceFull"):
        oracle.by_network("join", OUTSIDER)
