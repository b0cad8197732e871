"""The words of a report: whole, in order, of given nodes, with scores that there are."""

import pytest

from tests.contracts.oracle_driver import Oracle, full
from tests.contracts.oracle_signing import data, word
from tests.support.evm.chain import RevertedError

pytestmark = pytest.mark.evm

SIXTEEN = word(*range(2, 18))
FOUR = full(10_002, 1, of=4)
WHOLE = data((0, SIXTEEN), (1, FOUR))


@pytest.mark.parametrize(
    "broken",
    [b"", b"\0\0\0", WHOLE[:4], WHOLE[:-1], WHOLE + b"\0", WHOLE[:38], WHOLE[:40], WHOLE[:5]],
    ids=["nothing", "half the counts", "no word", "one short", "one over", "34", "36", "1"],
)
def test_malformed_words_are_rejected(oracle: Oracle, broken: bytes):
    with pytest.raises(RevertedError, match=rf"BadLength\({len(broken)}\)"):
        oracle.push(oracle.report(data=broken))


def test_report_with_more_words_than_the_limit_is_rejected(oracle: Oracle):
    oracle.limited(maxWords=1)
    with pytest.raises(RevertedError, match=r"BadLength\(74\)"):
        oracle.push(oracle.report(data=WHOLE))
    oracle.push(oracle.report((0, SIXTEEN)))
    assert oracle.round == 2


@pytest.mark.parametrize("second", [0, 1])
def test_word_indexes_must_be_ascending(oracle: Oracle, second: int):
    report = oracle.report((1, FOUR), (second, FOUR))
    with pytest.raises(RevertedError, match=rf"NotAscending\({second}\)"):
        oracle.push(report)


@pytest.mark.parametrize(
    ("index", "lanes"),
    [
        (1, full(of=4) | word(l4=5)),
        (1, full(of=4) | word(l15=5)),
        (2, 0),
        (2, word(5)),
        (2**24 - 1, word(5)),
    ],
    ids=["next lane", "last lane", "empty word past the end", "next word", "last word"],
)
def test_lane_at_an_unregistered_index_is_rejected(oracle: Oracle, index: int, lanes: int):
    with pytest.raises(RevertedError, match=rf"UnknownNode\({index}\)"):
        oracle.push(oracle.report((index, lanes)))
    with pytest.raises(RevertedError, match=rf"UnknownNode\({index}\)"):
        oracle.push(oracle.report((0, SIXTEEN), (index, lanes)))


def test_lane_of_the_last_registered_node_is_writable(oracle: Oracle):
    oracle.push(oracle.report((1, full(l3=9_000, of=4))))
    assert oracle.lane(19) == 9_000


@pytest.mark.parametrize("lane", [10_003, 0x7FFF, 0x8000, 0xFFFF])
@pytest.mark.parametrize("place", [0, 7, 15])
def test_lane_value_above_maximum_score_is_rejected(oracle: Oracle, lane: int, place: int):
    lanes = SIXTEEN | 0xFFFF << 16 * place
    lanes ^= (0xFFFF ^ lane) << 16 * place
    with pytest.raises(RevertedError, match=r"ScoreTooHigh\(0\)"):
        oracle.push(oracle.report((0, lanes)))


@pytest.mark.parametrize("place", [0, 15])
def test_written_lane_cannot_be_reset_to_zero(oracle: Oracle, place: int):
    with pytest.raises(RevertedError, match=r"ScoreErased\(0\)"):
        oracle.push(oracle.report((0, SIXTEEN & ~(0xFFFF << 16 * place))))


def test_rejected_word_also_reverts_earlier_words_of_the_report(oracle: Oracle):
    with pytest.raises(RevertedError, match=r"ScoreTooHigh\(1\)"):
        oracle.push(oracle.report((0, SIXTEEN), (1, full(10_003, of=4))))
    assert oracle.read("wordsAt", 0, 2) == [full(), full(of=4)]
    assert oracle.round == 1


def test_node_joining_between_signing_and_push_does_not_invalidate_report(oracle: Oracle):
    report = oracle.report((0, SIXTEEN))
    oracle.by_network("joinMany", 100, 1)
    oracle.push(report)
    assert oracle.round == 2
