"""The timeline of the network agrees with a comparison of each node by itself."""

from array import array
from collections import Counter
from itertools import zip_longest

from hypothesis import given, strategies as st

from oracle.domain.reports.lanes import HIGHEST_SCORE, LOWEST_SCORE
from oracle.queries.api.network_timeline import (
    RoundComparison,
    classify_movement,
    count_better_nodes,
)

LANES = st.lists(st.integers(0, HIGHEST_SCORE), max_size=40)


@given(LANES)
def test_number_of_better_nodes_equals_comparison_of_each_pair(lanes):
    better = count_better_nodes(array("H", lanes))
    for lane in lanes:
        if lane >= LOWEST_SCORE:
            assert better[lane] == sum(other > lane for other in lanes)


@given(LANES, LANES)
def test_counts_of_movements_equal_movement_of_each_node(first, last):
    first = first[: len(last)]
    pairs = zip_longest(first, last, fillvalue=0)
    each = Counter(classify_movement(then, now) for then, now in pairs)
    counts = RoundComparison(array("H", first), array("H", last)).counts
    del each["stayed"]
    assert counts == each
