"""Properties of every ranking: bounds, order, scale, chances; and the selected nodes."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD, Parameters
from oracle.systems.pocket.ranking import (
    NodeStats,
    TicketReason,
    build_ticket_components,
    format_ticket_explanation,
    rank_nodes,
)
from tests.support.document.pocket_draws import compute_unit_draw, pick_node, pick_nodes
from tests.support.examples import examples
from tests.support.vectors import load_named_vectors

# For tasks of some twenty seconds.
SLOW = replace(ARTICLE, expected=20.0)
MEANT = replace(PORTAL_API_HEAD, zero_success_rate=0)
EVERY = pytest.mark.parametrize(
    "params", [ARTICLE, PORTAL_API_HEAD, SLOW], ids=["article", "head", "slow"]
)
_latencies = st.sampled_from((0.1, 0.15, 0.15001, 0.2, 0.5, 1.0, 1.2, 2.0, 30.0))


@st.composite
def _standings(draw: st.DrawFn) -> list[NodeStats]:
    names = range(draw(st.integers(0, 12)))
    return [_standing(draw, Address(f"n{n:02}")) for n in names]


def _standing(draw: st.DrawFn, node: Address) -> NodeStats:
    attempts = draw(st.sampled_from((0, 1, 2, 3, 20, 49, 50, 51, 500)))
    good = draw(st.sampled_from((0, attempts // 2, attempts, attempts, attempts)))
    failing = draw(st.booleans()) and good == 0
    rate = good / attempts if attempts else 1.0
    median = draw(_latencies) if good else 0.0
    tail = draw(st.sampled_from((0.0, 0.1, 0.3, 7.0))) if good else 0.0
    return NodeStats(node, attempts, rate, median, median + tail, failing)


def alike(*latencies: float, attempts: int = 30) -> list[NodeStats]:
    return [
        NodeStats(Address(f"n{n:02}"), attempts, 1.0, latency, latency, failing=False)
        for n, latency in enumerate(latencies)
    ]


def tickets(standings: list[NodeStats], params: Parameters) -> list[int]:
    """Return the tickets of each node, in the given order."""
    tickets_by_node = {row.node: row.tickets for row in rank_nodes(standings, params).rows}
    return [tickets_by_node[stats.node] for stats in standings]


@EVERY
@examples(50)
@given(standings=_standings())
def test_tickets_are_between_zero_and_maximum(standings, params):
    ranking = rank_nodes(standings, params)
    assert all(0 <= row.tickets <= params.max_tickets for row in ranking.rows)
    assert ranking.total == sum(row.tickets for row in ranking.rows)


@EVERY
@examples(50)
@given(standings=_standings())
def test_probabilities_sum_to_1_and_follow_tickets(standings, params):
    ranking = rank_nodes(standings, params)
    assert sum(row.probability for row in ranking.rows) == pytest.approx(min(len(standings), 1))
    if not ranking.degraded:
        assert [row.chances for row in ranking.rows] == [row.tickets for row in ranking.rows]


@EVERY
@examples(50)
@given(standings=_standings(), order=st.randoms(use_true_random=False))
def test_candidate_order_affects_the_ranking_only_in_ties(standings, order, params):
    shuffled = list(standings)
    order.shuffle(shuffled)
    ranked = rank_nodes(standings, params)
    again = rank_nodes(shuffled, params)
    latencies = [row.stats.weighted for row in ranked.rows]
    assert latencies == [row.stats.weighted for row in again.rows]
    if len(set(latencies)) == len(latencies):
        assert ranked.rows == again.rows


@examples(50)
@given(standings=_standings(), power=st.integers(-6, 12))
def test_scaling_all_latencies_does_not_change_the_tickets(standings, power):
    # Scaling by powers of two rounds nothing, so no threshold is crossed.
    scale = 2.0**power
    scaled = [s._replace(median=s.median * scale, weighted=s.weighted * scale) for s in standings]
    params = replace(ARTICLE, expected=ARTICLE.expected * scale)
    assert tickets(scaled, params) == tickets(standings, ARTICLE)


@examples(50)
@given(standings=_standings())
def test_traced_ticket_losses_add_up_to_the_tickets(standings):
    factor = 10
    for row in rank_nodes(standings, ARTICLE).rows:
        assert row.factor_before == factor
        assert row.factor_after == max(1, row.factor_before - row.lost)
        if row.reason in (TicketReason.TOP_TIER, TicketReason.PENALISED, TicketReason.UNTESTED):
            assert row.tickets == row.factor_after
        factor = row.factor_after


@pytest.mark.parametrize("params", [ARTICLE, PORTAL_API_HEAD])
def test_small_latency_steps_cost_no_tickets(params):
    cases = {case["name"]: case for case in load_named_vectors("ranking", file="pocket").values()}
    stairs = alike(*(n["median_s"] for n in cases["staircase_hides_slow_nodes"]["input"]))
    assert tickets(stairs, params) == [10] * 24


def test_slow_node_keeps_all_tickets_if_it_is_alone():
    assert tickets(alike(0.25), ARTICLE) == [10]


def test_slow_node_keeps_one_ticket_only_under_article_rules():
    slow = alike(0.1, 9.0, attempts=500)
    assert tickets(slow, ARTICLE) == [10, 1]
    assert tickets(slow, PORTAL_API_HEAD) == [10, 0]


def test_node_excluded_for_failures_has_no_tickets_in_article_rules():
    good = NodeStats(Address("good"), 500, 0.99, 0.1, 0.1, failing=True, out_until_ms=6000)
    assert tickets([good, *alike(0.1)], ARTICLE) == [0, 10]


def test_ticket_and_shelving_failure_limits_are_independent():
    dead = NodeStats(Address("dead"), 3, 0.0, 0.0, 0.0, failing=False)
    slow = NodeStats(Address("slow"), 3, 1.0, 9.0, 9.0, failing=False)
    fast = NodeStats(Address("fast"), 3, 1.0, 0.1, 0.1, failing=False)
    assert tickets([dead, fast, slow], replace(MEANT, shelve_failures=3)) == [0, 10, 1]


def build_shelved_nodes() -> list[NodeStats]:
    return [
        NodeStats(Address("flagged"), 50, 0.0, 0.0, 0.0, failing=True),
        NodeStats(Address("worse"), 60, 0.0, 0.0, 0.0, failing=False),
        NodeStats(Address("bad"), 50, 0.0, 0.0, 0.0, failing=False),
    ]


def test_shelved_nodes_are_picked_with_equal_chances():
    ranking = rank_nodes(build_shelved_nodes(), MEANT)
    assert ranking.degraded
    assert [pick_node(ranking, u) for u in (0, 0.34, 0.99)] == ["flagged", "worse", "bad"]


def test_latency_does_not_affect_picks_among_shelved_nodes():
    slow = NodeStats(Address("slow"), 50, 1.0, 2.0, 2.0, failing=True)
    fast = NodeStats(Address("fast"), 50, 1.0, 1.0, 1.0, failing=True)
    ranking = rank_nodes([slow, fast], ARTICLE)
    assert [row.node for row in ranking.rows] == ["fast", "slow"]
    assert [pick_node(ranking, u) for u in (0, 0.5)] == ["slow", "fast"]


@examples(50)
@given(standings=_standings(), us=st.lists(st.floats(0, 1, exclude_max=True), max_size=30))
def test_distinct_nodes_with_tickets_are_picked_first(standings, us):
    ranking = rank_nodes(standings, ARTICLE)
    chosen = pick_nodes(ranking, us)
    assert len(chosen) == len(set(chosen)) == min(len(us), len(standings))
    if chosen:
        assert chosen[0] == pick_node(ranking, us[0])
    # A node without a ticket never precedes one with a ticket.
    without = [ranking_tickets == 0 for ranking_tickets in _tickets_of(chosen, standings)]
    assert without == sorted(without)


def _tickets_of(chosen: list[Address], standings: list[NodeStats]) -> Iterator[int]:
    tickets_by_node = {row.node: row.tickets for row in rank_nodes(standings, ARTICLE).rows}
    return (tickets_by_node[node] for node in chosen)


def test_random_number_outside_unit_interval_is_rejected():
    with pytest.raises(ValueError, match=r"u must be at least 0 and below 1, not 1\.0"):
        pick_node(rank_nodes(alike(0.1), ARTICLE), 1.0)


def test_pick_from_empty_ranking_is_rejected():
    with pytest.raises(ValueError, match="no node is ranked"):
        pick_node(rank_nodes([], ARTICLE), 0.5)


@given(seed=st.binary(min_size=32, max_size=32), counter=st.integers(0, 2**64 - 1))
def test_every_number_from_a_seed_picks_a_ranked_node(seed, counter):
    u = compute_unit_draw(seed, "session", counter)
    assert pick_node(rank_nodes(alike(0.1, 0.2, 0.9), ARTICLE), u) in {"n00", "n01", "n02"}


def test_largest_possible_number_picks_the_last_node():
    # As a double it would be 1, and have no ticket.
    almost = Fraction(2**64 - 1, 2**64)
    assert float(almost) == 1
    assert pick_node(rank_nodes(alike(0.1, 0.1), ARTICLE), almost) == "n01"


CASE_BY_REASON = {
    "no outcome lately, so it counts as fast": (0.0, 0, 1.0),
    "median 0.10000 s is within the expected 0.15 s": (0.1, 30, 1.0),
    "success rate 0.5000 of 30 attempts is not above 0.95": (0.3, 30, 0.5),
    "success rate 0.0000 of 3 attempts is not above 0.95": (0.0, 3, 0.0),
}


@pytest.mark.parametrize("why", CASE_BY_REASON)
def test_explanation_states_the_reason_for_the_tickets(why: str):
    latency, attempts, rate = CASE_BY_REASON[why]
    node = NodeStats(Address("n"), attempts, rate, latency, latency, failing=False)
    (row,) = rank_nodes([node], ARTICLE).rows
    assert format_ticket_explanation(row) == f"{row.tickets} of 10 tickets: {why}"
    assert build_ticket_components(row)["why"] == format_ticket_explanation(row)


def test_explanation_states_the_tickets_lost_to_earlier_nodes():
    first, second, third = (
        format_ticket_explanation(row) for row in rank_nodes(alike(0.16, 0.3, 0.4), ARTICLE).rows
    )
    assert first.endswith("latency 0.16000 s is the first that is measured, and costs nothing")
    assert second.endswith("latency 0.30000 s is 0.14000 s over 0.16000 s, which costs 5")
    assert third == (
        "1 of 10 tickets: weighted latency 0.40000 s is 0.10000 s over 0.30000 s,"
        " which costs 4; 5 lost to the nodes ranked before"
    )


def test_explanation_states_the_end_of_the_exclusion():
    node = NodeStats(Address("n"), 20, 0.9, 0.1, 0.1, failing=True, out_until_ms=1_006_500)
    (row,) = rank_nodes([node], ARTICLE).rows
    assert format_ticket_explanation(row) == (
        "0 of 10 tickets: out until 1006.500 for its failures, success rate 0.9000 of 20 attempts"
    )
    assert build_ticket_components(row)["out_until"] == "1006.500"


@pytest.mark.parametrize(("attempts", "failing", "why"), [
    (3, False, "1 of 10 tickets: no success, with 3 of 50 attempts"),
    (70, False, "0 of 10 tickets: no success in 70 attempts"),
    (70, True, "0 of 10 tickets: flagged as failing, with 70 attempts"),
])  # fmt: skip
def test_explanation_states_why_a_node_is_shelved(attempts, failing, why):
    node = NodeStats(Address("n"), attempts, 0.0, 0.0, 0.0, failing)
    (row,) = rank_nodes([node], MEANT).rows
    assert format_ticket_explanation(row) == why
