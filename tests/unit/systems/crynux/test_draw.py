"""The draw: properties for all candidates, and a statistical test of the chances."""

from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.weighted_draw import NodeDraw, draw_nodes
from tests.support.histories import make_node_address

SEEDS = st.binary(min_size=32, max_size=32)
WEIGHTS = st.integers(0, 2**63)
CANDIDATES = st.dictionaries(
    st.sampled_from([*map(make_node_address, "ABCDEFGH")]), WEIGHTS, max_size=8
).map(lambda weights: list(weights.items()))

# Upper 0.001 points of chi-square, NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4.
CRITICAL = {5: 20.515}
DRAWS = 100_000


def names(drawn: list[NodeDraw]) -> list[Address]:
    return [node_draw.node for node_draw in drawn]


@given(CANDIDATES, SEEDS, st.integers(0, 9))
def test_draw_selects_distinct_candidates_until_exhausted(candidates, seed, draws):
    drawn = names(draw_nodes(candidates, seed, draws))
    assert len(set(drawn)) == len(drawn) == min(draws, len(candidates))
    assert set(drawn) <= {address for address, _ in candidates}


@given(CANDIDATES, SEEDS, st.randoms())
def test_draw_is_independent_of_candidate_order(candidates, seed, random):
    shuffled = random.sample(candidates, len(candidates))
    assert draw_nodes(shuffled, seed, 8) == draw_nodes(candidates, seed, 8)


@given(CANDIDATES, SEEDS, st.integers(1, 8))
def test_larger_draw_begins_with_the_nodes_of_a_smaller_draw(candidates, seed, draws):
    assert draw_nodes(candidates, seed, draws) == draw_nodes(candidates, seed, 8)[:draws]


@given(CANDIDATES, SEEDS)
def test_zero_weight_nodes_are_drawn_last(candidates, seed):
    weights = dict(candidates)
    drawn = [weights[address] > 0 for address in names(draw_nodes(candidates, seed, 8))]
    assert drawn == sorted((weight > 0 for weight in weights.values()), reverse=True)


@given(CANDIDATES, SEEDS)
def test_each_draw_can_be_verified_from_its_digest(candidates, seed):
    left = dict(sorted(candidates))
    for i, drawn in enumerate(draw_nodes(candidates, seed, 8)):
        counting = left if any(left.values()) else dict.fromkeys(left, 1)
        assert drawn.total == sum(counting.values())
        assert drawn.digest == "0x" + sha256(seed + bytes(24) + i.to_bytes(8, "big")).hexdigest()
        assert drawn.x == int(drawn.digest, 16) % drawn.total
        below = sum(weight for address, weight in counting.items() if address < drawn.node)
        assert below <= drawn.x < below + counting[drawn.node]
        del left[drawn.node]


def test_random_number_is_the_node_index_if_weights_are_equal():
    nodes = sorted(map(make_node_address, "ABCDEFGH"))
    for n in range(20):
        (drawn,) = draw_nodes([(address, 1) for address in nodes], bytes(31) + bytes((n,)), 1)
        assert drawn.node == nodes[drawn.x]


def test_nodes_are_drawn_equally_when_all_weights_are_zero():
    drawn = draw_nodes([(make_node_address(name), 0) for name in "ABCDE"], bytes(32), 5)
    assert [node_draw.total for node_draw in drawn] == [5, 4, 3, 2, 1]


def test_seed_of_wrong_length_is_rejected():
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        draw_nodes([(make_node_address("A"), 1)], bytes(31), 1)


@pytest.mark.parametrize(
    "candidates",
    [[(make_node_address("A"), -1)], [(make_node_address("A"), 1), (make_node_address("A"), 2)]],
    ids=["negative", "twice"],
)
def test_invalid_candidates_are_rejected(candidates):
    with pytest.raises(ValueError, match=r"0 or more|occurs twice"):
        draw_nodes(candidates, bytes(32), 1)


@pytest.mark.slow
def test_frequencies_of_many_draws_follow_weights():
    weights = {make_node_address(str(weight)): weight for weight in (1, 2, 3, 5, 8, 13)}
    firsts = dict.fromkeys(weights, 0)
    seconds = dict.fromkeys(weights, 0)
    candidates = list(weights.items())
    for n in range(DRAWS):
        first, second = draw_nodes(candidates, sha256(n.to_bytes(4, "big")).digest(), 2)
        firsts[first.node] += 1
        seconds[second.node] += 1
    total = sum(weights.values())
    chance = {address: weight / total for address, weight in weights.items()}
    # Second, after another node was drawn first.
    after = {
        address: sum(
            chance[first_address] * chance[address] / (1 - chance[first_address])
            for first_address in chance
            if first_address != address
        )
        for address in chance
    }
    assert chi_square(firsts, chance) < CRITICAL[5]
    assert chi_square(seconds, after) < CRITICAL[5]
    # The statistic is sensitive: these counts are rejected for equal chances.
    assert chi_square(seconds, dict.fromkeys(weights, 1 / 6)) > 100 * CRITICAL[5]


def chi_square(observed_counts: dict[Address, int], chances: dict[Address, float]) -> float:
    expected = {address: chance * DRAWS for address, chance in chances.items()}
    return sum(
        (observed_counts[address] - expected[address]) ** 2 / expected[address]
        for address in expected
    )
