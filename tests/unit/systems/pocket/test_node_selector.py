"""The selector in process: which node is blamed, by chain, and which nodes are in sync."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from gateway.sync_check import (
    HeightIneligibility,
    find_best_height,
    find_out_of_sync_nodes,
)
from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD, Parameters
from oracle.systems.pocket.ranking import RankedNode
from oracle.systems.pocket.relay_outcomes import BLAME_BY_KIND, Blame, OutcomeKind, RelayOutcome

A = Address("a")
B = Address("b")
EACH = pytest.mark.parametrize("params", [ARTICLE, PORTAL_API_HEAD], ids=["article", "head"])


def row(selector: NodeSelector, node: Address = A, chain: str = "eth") -> RankedNode:
    (ranked_node,) = selector.rank_nodes(chain, [node], 10_000).rows
    return ranked_node


@EACH
@pytest.mark.parametrize("kind", OutcomeKind)
def test_outcome_counts_only_if_it_is_attributed_to_node(kind: OutcomeKind, params: Parameters):
    selector = NodeSelector(params)
    selector.record_outcome(RelayOutcome(A, "eth", 0, kind, 80.0))
    stats = row(selector).stats
    served = BLAME_BY_KIND[kind] is Blame.SUCCESS
    assert stats.attempts == (BLAME_BY_KIND[kind] is not Blame.NOBODY)
    assert stats.median == (0.08 if served else 0.0)


def test_every_outcome_kind_has_attribution():
    assert BLAME_BY_KIND.keys() == set(OutcomeKind)
    assert Counter(BLAME_BY_KIND.values()) == {Blame.SUCCESS: 2, Blame.FAILURE: 8, Blame.NOBODY: 7}


@EACH
def test_chains_are_scored_separately(params: Parameters):
    selector = NodeSelector(params)
    selector.record_outcome(RelayOutcome(A, "eth", 0, OutcomeKind.TIMEOUT))
    assert (row(selector).stats.attempts, row(selector, chain="gno").stats.attempts) == (1, 0)


@EACH
def test_reset_node_counts_as_untested_on_every_chain(params: Parameters):
    selector = NodeSelector(params)
    for chain in ("eth", "gno"):
        selector.record_outcome(RelayOutcome(A, chain, 0, OutcomeKind.TIMEOUT))
    selector.reset_node(A)
    assert [row(selector, chain=chain).tickets for chain in ("eth", "gno")] == [10, 10]


def test_left_out_node_is_listed_but_does_not_affect_other_tickets():
    selector = NodeSelector(ARTICLE)
    for node, latency in ((A, 160.0), (B, 400.0)):
        selector.record_outcome(RelayOutcome(node, "eth", 0, OutcomeKind.OK, latency))
    ranking = selector.rank_nodes("eth", [A, B], 0, {A: "behind"})
    assert [(row.node, row.tickets) for row in ranking.rows] == [(B, 10)]
    assert ranking.left_out == {A: "behind"}


def test_chain_without_outcomes_is_ranked_but_not_stored():
    selector = NodeSelector(ARTICLE)
    assert row(selector, chain="new").tickets == 10
    assert selector.chains == {}


_heights = st.dictionaries(
    st.sampled_from([Address(f"n{n}") for n in range(9)]), st.integers(0, 10**6), min_size=3
)


@given(heights=_heights, allowance=st.integers(0, 50), lie=st.integers(10**7, 10**9))
def test_single_inflated_height_does_not_raise_best_height(heights, allowance, lie):
    best_height = find_best_height([*heights.values(), lie], allowance)
    assert best_height is not None
    assert best_height <= max(heights.values())


@pytest.mark.parametrize(("heights", "best"), [
    ([], None),
    ([7], 7),
    ([7, 900], 900),
    ([100, 101, 900], 101),
    ([100, 101, 116], 116),
    ([100, 101, 117], 101),
])  # fmt: skip
def test_best_height_requires_agreement_of_nodes(heights, best):
    assert find_best_height(heights, 5) == best


def test_node_behind_or_beyond_best_height_is_out_of_sync():
    heights = {Address(n): h for n, h in zip("abcdef", (100, 95, 94, 99, 900, None), strict=True)}
    assert find_out_of_sync_nodes(heights, 5) == {
        "c": HeightIneligibility.BEHIND,
        "e": HeightIneligibility.BEYOND,
        "f": HeightIneligibility.UNKNOWN,
    }
