"""The timeline of the network agrees with a separate comparison of each node."""

from array import array
from collections import Counter
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.reports.lanes import HIGHEST_SCORE, LOWEST_SCORE
from oracle.indexer.round_leaves import LeafCache
from oracle.queries.api import network_timeline
from oracle.queries.api.network_timeline import (
    RoundComparison,
    TimelineCache,
    classify_movement,
    count_better_nodes,
)
from tests.support.traffic import build_accepted_round

LANES = st.lists(st.integers(0, HIGHEST_SCORE), max_size=40)


@given(LANES)
def test_better_node_count_matches_pairwise_comparison(lanes):
    better = count_better_nodes(array("H", lanes))
    for lane in lanes:
        if lane >= LOWEST_SCORE:
            assert better[lane] == sum(other > lane for other in lanes)


@given(LANES, LANES)
def test_movement_counts_match_movement_of_each_node(first, last):
    first = first[: len(last)]
    pairs = zip_longest(first, last, fillvalue=0)
    each = Counter(classify_movement(then, now) for then, now in pairs)
    counts = RoundComparison(array("H", first), array("H", last)).counts
    del each["stayed"]
    assert counts == each


def test_each_round_is_read_once_despite_small_leaf_cache(
    monkeypatch: pytest.MonkeyPatch,
):
    rounds = [build_accepted_round(number) for number in range(1, 25)]
    read_rounds = list[int]()

    def load_round_lanes(_uow: Any, _cache: Any, accepted_round: Any) -> "array[int]":
        read_rounds.append(accepted_round.round)
        return array("H", [LOWEST_SCORE + accepted_round.round, LOWEST_SCORE])

    monkeypatch.setattr(network_timeline, "load_round_lanes", load_round_lanes)
    uow: Any = SimpleNamespace(
        rounds=SimpleNamespace(list_accepted=lambda count: rounds[-count:]),
        nodes=SimpleNamespace(get_address_by_seat=lambda _seats: {}),
    )
    timeline = TimelineCache()
    timeline.load_timeline(uow, LeafCache())
    rounds.append(build_accepted_round(25))
    newest = timeline.load_timeline(uow, LeafCache())

    assert newest is not None
    assert [entry.round for entry in newest.rounds] == list(range(2, 26))
    assert sorted(read_rounds) == list(range(1, 26))
