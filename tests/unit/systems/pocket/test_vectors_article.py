"""The article's vectors: examples computed by hand, and the table of a real session."""

from collections import Counter
from itertools import pairwise

import pytest

from oracle.domain.ids import Address
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import ARTICLE
from oracle.systems.pocket.ranking import Ranking
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from tests.support.document.pocket_draws import compute_unit_draw, pick_node
from tests.support.vectors import Vector, load_named_vectors, load_vector, vectors_of

FILE = "pocket-article"
CHAIN = "0021"
ROWS, ORDER, TIERS, SHARES = (
    [*load_named_vectors(f"table/{name}", file=FILE).values()]
    for name in ("rows", "order", "tiers", "article_shares")
)
TOTAL = load_vector("table/total", file=FILE)
MOST = load_vector("table/chi_square_below", file=FILE)
HOUR = 3_600_000


def record_outcome(node: str, t_ms: int, latency_ms: float | None) -> RelayOutcome:
    """Return a success after these milliseconds, or a failure."""
    kind = OutcomeKind.TIMEOUT if latency_ms is None else OutcomeKind.OK
    return RelayOutcome(Address(node), CHAIN, t_ms, kind, latency_ms or 0)


@vectors_of("examples", file=FILE)
def test_article_examples_match_manually_computed_tickets(vector: Vector):
    outcomes = sorted(vector["outcomes"], key=lambda outcome: outcome["t_ms"])
    for expected in vector["expected"]:
        selector = NodeSelector(ARTICLE)
        now = expected["now_ms"]
        for outcome in outcomes:
            if outcome["t_ms"] <= now:
                selector.record_outcome(record_outcome(**outcome))
        for check in vector["checks_passed"]:
            selector.record_passed_health_check(Address(check["node"]), CHAIN, check["t_ms"])
        ranking = selector.rank_nodes(CHAIN, map(Address, expected["tickets"]), now)
        assert {row.node: row.tickets for row in ranking.rows} == expected["tickets"]


def the_table() -> Ranking:
    """Rank ten nodes with the medians of the article: 18 relays at the median, 3 at the P90."""
    selector = NodeSelector(ARTICLE)
    for row in ROWS:
        for latency in [row["median_ms"]] * 18 + [row["p90_ms"]] * 3:
            selector.record_outcome(record_outcome(row["id"], 0, latency))
    return selector.rank_nodes(CHAIN, [Address(row["id"]) for row in ROWS], 0)


def test_article_table_yields_expected_tickets():
    ranking = the_table()
    assert [row.node for row in ranking.rows] == ORDER
    for row in ROWS:
        (ranked,) = (entry for entry in ranking.rows if entry.node == Address(row["id"]))
        assert (ranked.stats.weighted, ranked.tickets) == (row["weighted_s"], row["tickets"])
    assert ranking.total == TOTAL


def drawn() -> Counter[Address]:
    """Return as many draws as the session of the article had relays, from one seed."""
    ranking = the_table()
    seed = bytes(32)
    relays = sum(row["relays"] for row in ROWS)
    return Counter(
        pick_node(ranking, compute_unit_draw(seed, "session", n)) for n in range(relays)
    )


def test_session_win_counts_are_proportional_to_tickets():
    wins = drawn()
    relays = sum(row["relays"] for row in ROWS)
    assert wins.total() == relays == 9085
    expected = {row["id"]: relays * row["tickets"] / TOTAL for row in ROWS}
    chi_square = sum((wins[Address(n)] - e) ** 2 / e for n, e in expected.items())
    assert chi_square < MOST


def test_win_share_of_each_ticket_tier_matches_the_article():
    # The order of nodes with equal tickets is random, so it is not compared.
    wins = drawn()
    rows = iter(ROWS)
    for size, share in zip(TIERS, SHARES, strict=True):
        tier = sum(wins[Address(next(rows)["id"])] for _ in range(size))
        assert tier / wins.total() == pytest.approx(share, abs=0.04)
    slow = [
        min(wins[Address("n6")], wins[Address("n7")]),
        *(wins[Address(f"n{n}")] for n in (8, 9)),
    ]
    assert all(more > less for more, less in pairwise([*slow, wins[Address("n10")]]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_exclusion_time_is_proportional_to_failures(row: Vector):
    selector = NodeSelector(ARTICLE)
    node = Address(row["id"])
    apart = HOUR // row["failures"]
    seconds_out = 0
    for now in range(0, HOUR, 1000):
        if now % apart < 1000 and now // apart < row["failures"]:
            selector.record_outcome(record_outcome(node, now, None))
        (ranked,) = selector.rank_nodes(CHAIN, [node], now).rows
        seconds_out += ranked.stats.failing
    assert seconds_out == row["out_s"]
