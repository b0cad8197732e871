"""How many nodes one round may put down, and how far a stolen quorum comes with that."""

import pytest

from tests.contracts.oracle_driver import LIMITS, START, Oracle, deployed, full, node
from tests.contracts.oracle_kickouts import KICKED
from tests.contracts.oracle_signing import word
from tests.support.evm.chain import Chain, RevertedError

pytestmark = pytest.mark.evm

BEST = 10_002
CAPPED = {"fallShare": 1_000, "bigFall": 2_500}


def put_down(oracle: Oracle, count: int, lane: int = 1) -> list[tuple[int, int]]:
    """Words in which the first so many open lanes are this lane."""
    nodes = oracle.head("nodeCount")
    lanes = [oracle.lane(index) for index in range(nodes)]
    for index in [at for at, now in enumerate(lanes) if now > 2_500][:count]:
        lanes[index] = lane
    return [(at, word(*lanes[16 * at : 16 * at + 16])) for at in range((nodes + 15) // 16)]


@pytest.fixture(scope="module")
def fresh_hundred(fresh_chain: Chain) -> Oracle:
    """A hundred open nodes, of which ten may fall at once."""
    oracle = deployed(fresh_chain, limits=LIMITS | CAPPED)
    oracle.registered(100, BEST)
    return oracle


@pytest.fixture
def hundred(chain: Chain, fresh_hundred: Oracle) -> Oracle:
    return fresh_hundred


@pytest.mark.parametrize("lane", [1, 2, 7_501], ids=["closed", "0", "a big fall"])
def test_score_falls_up_to_the_cap_are_accepted_and_beyond_it_rejected(hundred: Oracle, lane: int):
    with hundred.chain.undone(), pytest.raises(RevertedError, match=r"TooManyFalls\(11, 10\)"):
        hundred.reported(*put_down(hundred, 11, lane))
    hundred.reported(*put_down(hundred, 10, lane))
    assert hundred.head("openCount") == (90 if lane == 1 else 100)


def test_small_score_fall_does_not_count_toward_the_cap(hundred: Oracle):
    hundred.reported(*put_down(hundred, 100, BEST - 2_500))
    assert hundred.lane(99) == BEST - 2_500


def test_closing_a_lane_with_a_low_score_counts_as_a_fall(hundred: Oracle):
    for _ in range(10):
        hundred.reported(*put_down(hundred, 10, 2))
    assert hundred.head("openCount") == 100
    closed = [(at, word(*[1] * (16 if at < 6 else 4))) for at in range(7)]
    with pytest.raises(RevertedError, match=r"TooManyFalls\(100, 10\)"):
        hundred.reported(*closed)


def test_score_rises_and_nodes_registered_as_closed_do_not_count_as_falls(hundred: Oracle):
    for count in (10, 9):
        hundred.reported(*put_down(hundred, count))
    assert hundred.head("openCount") == 81
    # All back at once, and thirty closed newcomers beside.
    words = [(at, word(*[BEST] * 16)) for at in range(6)]
    words += [(6, word(*[BEST] * 4, *[1] * 12)), (7, word(*[1] * 16)), (8, word(1, 1))]
    fresh = [node(number) for number in range(100, 130)]
    hundred.reported(*words, fresh=fresh)
    assert (hundred.head("openCount"), hundred.head("nodeCount")) == (100, 130)


def test_fall_cap_is_a_share_of_the_lanes_open_before_the_round(hundred: Oracle):
    """A report does not make room for its own falls by registering."""
    words = put_down(hundred, 11)
    words[6] = (6, words[6][1] | word(**{f"l{place}": BEST for place in range(4, 16)}))
    words += [(at, word(*[BEST] * 16)) for at in range(7, 12)]
    fresh = [node(number) for number in range(100, 192)]
    with pytest.raises(RevertedError, match=r"TooManyFalls\(11, 10\)"):
        hundred.reported(*words, fresh=fresh)


def test_up_to_four_lanes_may_fall_whatever_the_cap(oracle: Oracle):
    oracle.limited(**CAPPED)
    with oracle.chain.undone(), pytest.raises(RevertedError, match=r"TooManyFalls\(5, 4\)"):
        oracle.reported((0, full(1, 1, 1, 1, 1)))
    oracle.reported((0, full(1, 1, 1, 1)))
    assert oracle.head("openCount") == 16


def test_reusing_an_index_does_not_count_as_a_fall(hundred: Oracle):
    hundred.reported(*put_down(hundred, 10))
    takers = [(node(200 + number), node(number)) for number in range(10)]
    words = put_down(hundred, 9)  # nine others, while the first ten stay closed
    hundred.reported(*words, reused=takers)
    assert hundred.head("openCount") == 81


@pytest.mark.slow
def test_open_count_matches_lanes_after_mixed_rounds(hundred: Oracle):
    for lane in (1, 2, 1, 9_000):
        hundred.reported(*put_down(hundred, 9, lane))
        nodes = hundred.head("nodeCount")
        lanes = [hundred.lane(index) for index in range(nodes)]
        assert hundred.head("openCount") == sum(lane >= 2 for lane in lanes)


# --- a stolen quorum ---


@pytest.mark.slow
def test_stolen_quorum_can_close_at_most_10_percent_of_lanes_per_round(hundred: Oracle):
    begun, rounds = hundred.chain.time, 0
    while hundred.head("openCount") > 50:
        hundred.reported(*put_down(hundred, max(hundred.head("openCount") // 10, 4)))
        rounds += 1
    # 100, 90, 81, 73, 66, 60, 54, 49: half of the network is there after seven rounds at least.
    assert rounds == 7
    assert hundred.chain.time - begun >= rounds * LIMITS["minInterval"]
    hundred.do("pauseFor", 7 * 86_400, sender=hundred.pauser)
    with pytest.raises(RevertedError, match="Paused"):
        hundred.reported(*put_down(hundred, 4))


def test_stolen_quorum_cannot_expel_more_nodes_than_the_bucket_size(hundred: Oracle):
    hundred.limited(**CAPPED, maxKicksPerRound=4, minOpen=0)
    hundred.reported(*put_down(hundred, 4))
    for who in range(4):
        hundred.propose(who)
    for _ in range(LIMITS["kickRounds"]):
        hundred.reported(*put_down(hundred, 0))
    hundred.chain.later(LIMITS["vetoDelay"])
    for who in range(2):
        assert hundred.execute(who).names == ["KickExecuted"]
    for who in (2, 3):
        with pytest.raises(RevertedError, match="BucketEmpty"):
            hundred.execute(who)
        hundred.cancel(who)


def test_closing_all_lanes_does_not_bypass_min_open(oracle: Oracle):
    oracle.limited(minOpen=4)
    oracle.reported((0, full(*[1] * 16)), (1, full(1, of=4)))
    oracle.propose(0)
    for _ in range(LIMITS["kickRounds"]):
        oracle.reported((1, full(1, of=4)))
    oracle.chain.later(LIMITS["vetoDelay"])
    oracle.chain.mine()
    with oracle.chain.undone(), pytest.raises(RevertedError, match=r"TooFewOpen\(3, 4\)"):
        oracle.execute(0)
    oracle.reported((1, full(START, of=4)))
    assert oracle.execute(0).names == KICKED
