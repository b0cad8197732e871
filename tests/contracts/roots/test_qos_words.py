"""QoSWords: which words are written, from which round, and what consumers read."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from web3 import Web3

from oracle.chain.proofs.keccak import keccak
from oracle.domain.reports.lanes import pack_lanes
from tests.contracts.roots.conftest import NODES
from tests.contracts.roots.root_rounds import OPEN_LANE, SCORED_AT, RootRound, make_leaves
from tests.contracts.roots.roots_driver import LAG, RootsOracle
from tests.contracts.roots.words_driver import (
    BIG_FALL,
    FALL_SHARE,
    MAX_ROUNDS,
    ForgedWords,
    HotSet,
    deploy_words,
)
from tests.support.evm.chain import RevertedError
from tests.support.examples import examples
from tests.support.round_leaves import get_word, prove_word

NEWCOMER = 5_000
DUE = {"lane": 302, "score_sum": 15, "kickout_due_since": SCORED_AT}


@pytest.fixture
def hot_set(roots: RootsOracle) -> HotSet:
    """Return a hot set with two words of round 1; the rounds 2 and 3 have the same leaves."""
    hot_set = deploy_words(roots)
    first = roots.last_round
    for _ in range(LAG):
        roots.push_leaves(make_leaves(NODES))
    hot_set.bring(first, 0, 2)
    hot_set.bind(first, *range(NODES))
    return hot_set


def get_error_name(call: Any) -> str:
    with pytest.raises(RevertedError) as caught:
        call()
    return caught.value.error


def push(hot_set: HotSet, by_seat: dict[int, dict[str, Any]], count: int = NODES) -> RootRound:
    hot_set.roots.push_leaves(make_leaves(count, by_seat))
    return hot_set.roots.last_round


def push_forged(roots: RootsOracle, *words: int) -> ForgedWords:
    """Push a round of twenty healthy leaves with other words."""
    roots.chain.mine(2)
    candidate = roots.make_round(make_leaves(NODES))
    forged = ForgedWords(
        candidate.leaves,
        candidate.chain_id,
        candidate.oracle,
        candidate.round,
        candidate.as_of,
        words,
    )
    report = roots.report(forged.root, as_of=forged.as_of)
    roots.chain.later(20)
    roots.push(report)
    return forged


# --- reading ---


def test_written_scores_are_readable_through_the_score_oracle_interface(hot_set: HotSet) -> None:
    lanes = {0: {"lane": 2}, 1: {"lane": 10_002}, 2: {"lane": 1}, 3: {"lane": 5_002}}
    last = push(hot_set, lanes)
    hot_set.bring(last, 0, 2)

    assert [hot_set.weight(seat) for seat in range(5)] == [1, 10_001, 0, 5_001, OPEN_LANE - 1]
    nodes = [hot_set.roots.node(seat) for seat in range(5)]
    scores = [hot_set.read("scoreOf", node) for node in nodes]
    assert [score[:4] for score in scores] == [
        [True, True, 0, 4],
        [True, True, 10_000, 4],
        [True, False, 0, 4],
        [True, True, 5_000, 4],
        [True, True, OPEN_LANE - 2, 4],
    ]
    assert {score[4] for score in scores} == {
        hot_set.roots.chain.time - hot_set.roots.head("pushedAt")
    }
    assert [hot_set.read("isSelectable", node) for node in nodes] == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert [hot_set.read("laneAt", seat) for seat in range(5)] == [2, 10_002, 1, 5_002, OPEN_LANE]
    assert [hot_set.read("indexOf", node) for node in nodes] == list(range(5))
    assert hot_set.read("wordsAt", 0, 3) == last.words(0, 3)
    assert hot_set.read("roundsAt", 0, 3) == [4, 4, 0]
    assert hot_set.read("isFresh")
    assert hot_set.read("openCount") == NODES - 1


def test_unknown_node_is_a_newcomer(hot_set: HotSet) -> None:
    stranger = hot_set.roots.chain.accounts[9]
    assert hot_set.read("weightOf", stranger) == NEWCOMER
    assert hot_set.read("isSelectable", stranger)
    assert hot_set.read("scoreOf", stranger)[:4] == [False, True, 0, 0]
    assert get_error_name(lambda: hot_set.send("indexOf", stranger)) == "NotRegistered"


def test_expelled_node_immediately_has_zero_weight(hot_set: HotSet) -> None:
    roots = hot_set.roots
    due = {4: DUE | {"lane": OPEN_LANE}}  # a good lane in the hot set
    hot_set.bring(push(hot_set, due), 0, 2)
    push(hot_set, {4: DUE})
    roots.accuse(4)
    assert roots.is_pending(4)
    assert hot_set.weight(4) == OPEN_LANE - 1
    roots.chain.later(601)
    roots.chain.mine()
    for _ in range(2):
        push(hot_set, {4: DUE})
    roots.execute(4)
    assert hot_set.weight(4) == 0
    assert hot_set.read("weightWithin", roots.node(4), MAX_ROUNDS, NEWCOMER) == 0
    assert hot_set.read("isExpelled", roots.node(4))
    assert not hot_set.read("isSelectable", roots.node(4))
    assert hot_set.read("scoreOf", roots.node(4))[:3] == [True, False, 0]
    roots.chain.later(8_000)  # however old the scores
    roots.chain.mine()
    assert not hot_set.read("isFresh")
    assert hot_set.weight(4) == 0
    assert not hot_set.read("isSelectable", roots.node(4))


def test_word_older_than_max_age_is_stale(hot_set: HotSet) -> None:
    hot_set.bring(push(hot_set, {0: {"lane": 1}}), 0, 2)
    node = hot_set.roots.node(0)
    other = hot_set.roots.node(1)
    for _ in range(MAX_ROUNDS):
        push(hot_set, {0: {"lane": 1}})
    assert [hot_set.weight(seat) for seat in (0, 1)] == [0, OPEN_LANE - 1]
    assert hot_set.read("weightWithin", other, MAX_ROUNDS - 1, 17) == 17
    push(hot_set, {0: {"lane": 1}})
    assert [hot_set.weight(seat) for seat in (0, 1)] == [NEWCOMER, NEWCOMER]
    assert hot_set.read("isSelectable", node)
    assert hot_set.read("weightWithin", other, MAX_ROUNDS, 0) == 0
    assert hot_set.read("weightWithin", other, MAX_ROUNDS + 1, 0) == OPEN_LANE - 1


def test_stopped_oracle_excludes_no_node(hot_set: HotSet) -> None:
    hot_set.bring(push(hot_set, {0: {"lane": 1}}), 0, 2)
    assert hot_set.weight(0) == 0
    hot_set.roots.chain.later(7_300)
    hot_set.roots.chain.mine()
    assert [hot_set.weight(seat) for seat in (0, 1)] == [NEWCOMER, NEWCOMER]
    assert hot_set.read("isSelectable", hot_set.roots.node(0))


# --- which words are written ---


def test_words_of_the_last_and_the_lagged_round_are_accepted(hot_set: HotSet) -> None:
    rounds = [push(hot_set, {seat: {"lane": 6_000 + seat}}) for seat in range(4)]
    assert get_error_name(lambda: hot_set.bring(rounds[0], 0, 2)) == "WrongRound"
    assert get_error_name(lambda: hot_set.bring(rounds[2], 0, 2)) == "WrongRound"
    hot_set.bring(rounds[1], 0, 2)
    assert hot_set.read("roundsAt", 0, 2) == [rounds[1].round] * 2
    hot_set.bring(rounds[3], 0, 2)
    assert hot_set.read("wordsAt", 0, 2) == rounds[3].words(0, 2)
    assert get_error_name(lambda: hot_set.bring(rounds[0], 0, 2)) == "WrongRound"


def test_older_round_does_not_replace_a_newer_word(hot_set: HotSet) -> None:
    bad = push(hot_set, {3: {"lane": 302}})
    push(hot_set, {})
    good = push(hot_set, {})
    hot_set.bring(good, 0, 2)
    assert bad.round + LAG == good.round
    assert get_error_name(lambda: hot_set.bring(bad, 0, 2)) == "NothingWritten"
    assert hot_set.weight(3) == OPEN_LANE - 1
    assert get_error_name(lambda: hot_set.bring(good, 0, 2)) == "NothingWritten"


def test_word_run_that_contains_a_written_word_is_accepted(hot_set: HotSet) -> None:
    last = push(hot_set, {})
    assert hot_set.bring(last, 1, 1).only("WordsBrought")["written"] == 1
    brought = hot_set.bring(last, 0, 2).only("WordsBrought")
    assert (brought["first"], brought["count"], brought["round"], brought["written"]) == (
        0,
        2,
        4,
        1,
    )
    assert hot_set.read("roundsAt", 0, 2) == [4, 4]


@given(count=st.integers(1, 130), data=st.data())
@examples(25)
def test_every_aligned_word_run_is_accepted(
    fresh_roots: RootsOracle, count: int, data: st.DataObject
) -> None:
    lanes = data.draw(st.lists(st.integers(1, 10_002), min_size=count, max_size=count))
    words = -(-count // 16)
    depth = (words - 1).bit_length()
    height = data.draw(st.integers(0, depth))
    first = data.draw(st.integers(0, (words - 1) >> height)) << height
    roots = replace(fresh_roots)
    with roots.chain.undone():
        hot_set = deploy_words(roots, fall_share=10_000)
        leaves = make_leaves(count, {seat: {"lane": lane} for seat, lane in enumerate(lanes)})
        # The lagged round, to which no limit applies.
        roots.push_leaves(leaves)
        source = roots.last_round
        for _ in range(LAG):
            roots.push_leaves(make_leaves(1))
        hot_set.bring(source, first, 1 << height)
        stored = hot_set.read("wordsAt", 0, words + 1)
        expected = [
            get_word(source.tree, index) if first <= index < first + (1 << height) else 0
            for index in range(words)
        ]
        assert stored == [*expected, 0]
        opened = [lane for word in expected for lane in unpack(word) if lane >= 2]
        assert hot_set.read("openCount") == len(opened)


def unpack(word: int) -> list[int]:
    return [word >> 16 * place & 0xFFFF for place in range(16)]


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 3), (1, 2), (2, 4), (0, 4_096)])
def test_case_f53_malformed_word_run_is_rejected(hot_set: HotSet, first: int, count: int) -> None:
    last = push(hot_set, {})
    call: tuple[Any, ...] = ("bring", last.round, first, [0] * count, [])
    assert get_error_name(lambda: hot_set.send(*call)) == "BadRun"


def test_case_f53_words_not_proven_by_root_are_rejected(hot_set: HotSet) -> None:
    last = push(hot_set, {})
    words = last.words(0, 2)
    proof = last.words_proof(0, 2)

    def bring(first: int, words: list[int], proof: list[bytes]) -> str:
        return get_error_name(lambda: hot_set.send("bring", last.round, first, words, proof))

    assert bring(0, [words[0], words[1] ^ 1], proof) == "WordsNotProven"
    assert bring(0, words[::-1], proof) == "WordsNotProven"
    assert bring(2, words, proof) == "WordsNotProven"
    assert bring(0, words, proof[:-1]) == "WordsNotProven"
    assert bring(0, words[:1], proof) == "WordsNotProven"
    assert bring(0, [words[0], 0], proof) == "WordsNotProven"
    old = push(hot_set, {})
    assert (
        get_error_name(lambda: hot_set.send("bring", old.round, 0, words, proof))
        == "WordsNotProven"
    )


def test_empty_tree_positions_are_not_written_as_words(hot_set: HotSet) -> None:
    last = push(hot_set, {}, count=33)  # three words, so one empty place
    assert hot_set.bring(last, 0, 4).only("WordsBrought")["written"] == 3
    assert hot_set.read("roundsAt", 0, 4) == [4, 4, 4, 0]
    proof = [
        prove_word(last.tree, 2, last.summary)[0],
        *prove_word(last.tree, 2, last.summary)[1:],
    ]
    empty = [keccak(b"".join([bytes(32), bytes(32)])), *proof[1:]]
    assert get_error_name(lambda: hot_set.send("bring", last.round, 3, [0], proof)) in {
        "WordsNotProven",
        "NothingWritten",
    }
    assert (
        get_error_name(lambda: hot_set.send("bring", last.round, 3, [0], empty))
        == "WordsNotProven"
    )


@given(
    words=st.lists(
        st.lists(st.integers(0, 10_002), min_size=16, max_size=16).filter(any),
        min_size=4,
        max_size=4,
    )
)
@examples(25)
def test_stored_lanes_are_read_unchanged(fresh_roots: RootsOracle, words: list[list[int]]) -> None:
    roots = replace(fresh_roots)
    with roots.chain.undone():
        hot_set = deploy_words(roots)
        forged = push_forged(roots, *map(pack_lanes, words))
        for _ in range(LAG):
            roots.push_leaves(make_leaves(1))
        hot_set.bring(forged, 0, 4)
        assert hot_set.read("wordsAt", 0, 4) == list(forged.forged)
        assert [hot_set.read("laneAt", seat) for seat in (0, 17, 63)] == [
            words[0][0],
            words[1][1],
            words[3][15],
        ]


@pytest.mark.parametrize("lane", [10_003, 0x3FFF, 0x4000, 0x8000, 0xFFFF])
@pytest.mark.parametrize("place", [0, 7, 15])
def test_case_f53_lane_above_best_score_is_rejected(
    roots: RootsOracle, lane: int, place: int
) -> None:
    hot_set = deploy_words(roots)
    forged = push_forged(roots, lane << 16 * place)
    assert get_error_name(lambda: hot_set.bring(forged)) == "LaneTooHigh"


# --- seats ---


def test_seat_can_be_bound_only_with_a_lagged_round(hot_set: HotSet) -> None:
    older = push(hot_set, {}, count=24)
    last = push(hot_set, {}, count=24)
    node = Web3.to_checksum_address(last.leaves[22].node)
    for source in (older, last):
        assert get_error_name(lambda source=source: hot_set.bind(source, 22)) == "NotProven"
    push(hot_set, {}, count=24)
    hot_set.bring(hot_set.roots.last_round, 0, 2)
    assert hot_set.read("weightOf", node) == NEWCOMER
    bound = hot_set.bind(older, 22, 23)
    assert [event.args["index"] for event in bound.events] == [22, 23]
    assert hot_set.read("weightOf", node) == OPEN_LANE - 1


def test_last_round_cannot_move_a_node_to_another_seat(roots: RootsOracle) -> None:
    hot_set = deploy_words(roots)
    for _ in range(LAG):
        roots.push_leaves(make_leaves(NODES))
    honest = make_leaves(NODES)
    stolen = push(hot_set, {0: {"node": honest[1].node}, 1: {"node": honest[0].node}})
    assert get_error_name(lambda: hot_set.bind(stolen, 0)) == "NotProven"


def test_stolen_quorum_cannot_move_a_node_within_the_lag(hot_set: HotSet) -> None:
    """Moving seats could exclude nodes like falling lanes, and no limit would count them."""
    honest = make_leaves(NODES)
    by_seat = {seat: {"node": honest[(seat + 1) % NODES].node} for seat in range(NODES)}
    hot_set.roots.push_leaves(make_leaves(NODES, by_seat))
    stolen = hot_set.roots.last_round
    assert get_error_name(lambda: hot_set.bind(stolen, 0)) == "NotProven"
    hot_set.roots.do("pauseFor", 3_600, sender=hot_set.roots.pauser)
    hot_set.roots.do("strike", stolen.round, sender=hot_set.roots.pauser)
    hot_set.roots.chain.later(3_700)
    hot_set.roots.chain.mine()
    for _ in range(LAG):
        push(hot_set, {})
    assert get_error_name(lambda: hot_set.bind(stolen, 0)) == "NoRoot"


def test_later_leaf_corrects_a_wrong_seat_binding(hot_set: HotSet) -> None:
    honest = make_leaves(NODES)
    swapped = {0: {"node": honest[1].node}, 1: {"node": honest[0].node}}
    wrong = push(hot_set, swapped)
    for _ in range(LAG):
        push(hot_set, {})
    node = hot_set.roots.node(1)
    hot_set.bind(wrong, 0)
    assert hot_set.read("indexOf", node) == 0
    right = push(hot_set, {})
    for _ in range(LAG):
        push(hot_set, {})
    hot_set.bind(right, 1)
    assert hot_set.read("indexOf", node) == 1


def test_no_seat_is_bound_before_the_first_lagged_round(roots: RootsOracle) -> None:
    hot_set = deploy_words(roots)
    assert get_error_name(lambda: hot_set.bind(roots.last_round, 0)) == "NoRoot"


# --- settings ---


@pytest.mark.parametrize(
    "changes", [{"fall_share": 10_001}, {"big_fall": 10_001}, {"max_rounds": LAG}]
)
def test_hot_set_settings_out_of_range_are_rejected(
    roots: RootsOracle, changes: dict[str, int]
) -> None:
    roots.chain.contract("roots/QoSWords", roots.contract.address)  # registers its errors
    assert get_error_name(lambda: deploy_words(roots, **changes)) == "BadSettings"


def test_hot_set_has_the_settings_of_its_constructor(hot_set: HotSet) -> None:
    names = ("ORACLE", "LAG", "FALL_SHARE", "BIG_FALL", "MAX_ROUNDS")
    assert [hot_set.read(name) for name in names] == [
        hot_set.roots.contract.address,
        LAG,
        FALL_SHARE,
        BIG_FALL,
        MAX_ROUNDS,
    ]
