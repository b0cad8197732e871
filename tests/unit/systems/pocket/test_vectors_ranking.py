"""Pocket's vectors of numbers, statistics, rankings, the article's table and slow work."""

from dataclasses import replace

import pytest

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import (
    compute_quantile,
    format_five_decimals,
    round_half_up,
)
from oracle.systems.pocket.node_selector import PortalRecord
from oracle.systems.pocket.parameters import PORTAL_API_HEAD, PortalParameters
from oracle.systems.pocket.ranking import NodeStats, Ranking, TicketReason, rank_nodes
from tests.support.document.pocket_draws import pick_node
from tests.support.vectors import Vector, load_named_vectors, load_vector, vectors_of

# The code without its bug, and with it (tests/vectors/SUPERSEDED.md).
MEANT = replace(PORTAL_API_HEAD, zero_success_rate=0)
PROFILES = pytest.mark.parametrize("params", [MEANT, PORTAL_API_HEAD], ids=["meant", "head"])

POCKET = "pocket"
CONSTANTS = load_named_vectors("constants", file=POCKET)
ROWS = load_named_vectors("article_table/rows", file=POCKET)
RELAYS = load_vector("article_table/total_relays", file=POCKET)
# The names of the constants in this product.
FIELDS = {
    "EXPECTED_SUCCESS_LATENCY_s": "expected",
    "WEIGHT_MULTIPLIER_per_s": "multiplier",
    "max_weight_factor": "max_tickets",
    "success_rate_full_weight_strictly_above": "success_rate_full",
    "p90_coefficient": "p90_weight",
    "p90_used_when_total_results_strictly_above": "p90_min_results",
    "max_failures_per_period": "shelve_failures",
    "service_log_ttl_s_sliding": "counts_ttl_ms",
    "timing_log_ttl_s_fixed": "samples_ttl_ms",
    "failure_flag_true_ttl_s": "flag_ttl_ms",
    "failure_flag_false_ttl_s": "cleared_ttl_ms",
    "timing_log_max_samples": "max_samples",
}
# Not a setting; it has a separate test.
APART = {"latency_decimals"}


@pytest.mark.parametrize("constant", sorted(CONSTANTS.keys() - APART))
@PROFILES
def test_ranking_constants_match_upstream(constant: str, params: PortalParameters):
    name = FIELDS[constant]
    unit = 1000 if name.endswith("_ms") else 1
    assert getattr(params, name) == CONSTANTS[constant] * unit


@PROFILES
def test_upstream_failure_limit_sets_both_parameters(params: PortalParameters):
    assert params.zero_weight_attempts == params.shelve_failures


def test_latency_is_formatted_with_five_decimals():
    assert format_five_decimals(1 / 3) == "0." + CONSTANTS["latency_decimals"] * "3"


@vectors_of("arithmetic/round", file=POCKET)
def test_rounding_matches_javascript(vector: Vector):
    assert round_half_up(vector["x"]) == vector["expected"]


@vectors_of("arithmetic/to_fixed_5", file=POCKET)
def test_formatting_with_five_decimals_matches_javascript(vector: Vector):
    assert format_five_decimals(vector["x"]) == vector["expected"]


@vectors_of("arithmetic/quantiles", file=POCKET)
def test_quantiles_interpolate_between_samples(vector: Vector):
    assert compute_quantile(vector["sorted"], 0.5) == vector["median"]
    assert compute_quantile(vector["sorted"], 0.9) == vector["p90"]


@vectors_of("arithmetic/reduce", file=POCKET)
def test_every_second_sample_is_kept_if_the_limit_is_exceeded(vector: Vector):
    # One more success after those of the list.
    samples = [float(n) for n in range(1, vector["n"])]
    record = PortalRecord(samples=samples, samples_until=300_000)
    record.record_success(float(vector["n"]), 1000, MEANT)
    stored_samples = record.samples
    assert (len(stored_samples), stored_samples[0], stored_samples[-1]) == (
        vector["len"],
        vector["first"],
        vector["last"],
    )


def standings(rows: list[Vector]) -> list[NodeStats]:
    return [
        NodeStats(
            node=Address(row["id"]),
            attempts=row["attempts"],
            success_rate=row["success_rate"],
            median=row["median_s"],
            weighted=row["weighted_s"],
            failing=row.get("failure", False),
        )
        for row in rows
    ]


def tickets(ranking: Ranking) -> dict[str, int]:
    return {row.node: row.tickets for row in ranking.rows}


def set_failure_limit(params: PortalParameters, failures: int) -> PortalParameters:
    """Set upstream's single limit in both places: for shelving, and for a factor of 0."""
    return replace(params, shelve_failures=failures, zero_weight_attempts=failures)


@vectors_of("ranking", file=POCKET)
@PROFILES
def test_ranking_matches_upstream(vector: Vector, params: PortalParameters):
    ranking = rank_nodes(
        standings(vector["input"]), set_failure_limit(params, vector["max_failures"])
    )
    expected = vector["expected"]
    assert [row.node for row in ranking.rows] == expected["order"]
    assert tickets(ranking) == expected["tickets"]
    assert ranking.total == expected["total"]
    assert ranking.degraded == (expected["picks"] == "uniform over all nodes")
    flagged = [row.node for row in ranking.rows if row.reason is TicketReason.SHELVED]
    assert flagged == expected["newly_flagged"]
    chances = {row.node: round(row.probability, 6) for row in ranking.rows}
    assert chances == expected["probability"]
    picks = [] if ranking.degraded else expected["picks"]
    assert [pick_node(ranking, p["u"]) for p in picks] == [p["node"] for p in picks]


@vectors_of("article_table/cases", file=POCKET)
@PROFILES
def test_ranking_of_article_table_matches_each_step(vector: Vector, params: PortalParameters):
    rows = {f"n{row['rank']}": row for row in ROWS.values()}
    weighted = {step["id"]: step["weighted_s"] for step in vector["steps"]}
    ranking = rank_nodes(
        [
            NodeStats(
                node=Address(name),
                attempts=vector["attempts_used"][name],
                success_rate=row["relays"] / (row["relays"] + row["failures"]),
                median=row["median_ms"] / 1000,
                weighted=weighted[name],
                failing=False,
            )
            for name, row in rows.items()
        ],
        params,
    )
    trace = [
        {
            "id": row.node,
            "weighted_s": row.stats.weighted,
            "benchmark_s": row.benchmark,
            "difference_s": round(row.difference, 6),
            "lost": row.lost,
            "tickets": row.tickets,
        }
        for row in ranking.rows
    ]
    assert trace == vector["steps"]
    assert tickets(ranking) == vector["tickets"]
    assert ranking.total == vector["total"]
    shares = {row.node: round(row.probability, 6) for row in ranking.rows}
    assert shares == vector["expected_share"]
    assert distance(shares, rows) == vector["total_variation_distance_to_observed"]


def distance(shares: dict[Address, float], rows: dict[str, Vector]) -> float:
    apart = (abs(shares[Address(n)] - row["relays"] / RELAYS) for n, row in rows.items())
    return round(float(sum(apart)) / 2, 4)


@vectors_of("article_table/rows", file=POCKET)
def test_rates_in_article_rows_match_their_counts(vector: Vector):
    rate = vector["relays"] / (vector["relays"] + vector["failures"])
    assert round(rate, 6) == vector["success_rate_if_relays_are_successes"]
    assert round(vector["relays"] / RELAYS, 6) == vector["observed_share"]


@vectors_of("scaled_to_slow_work", file=POCKET)
@PROFILES
def test_slow_tasks_are_ranked_relative_to_expected_duration(
    vector: Vector, params: PortalParameters
):
    in_seconds = replace(params, expected=vector["expected_s"])
    assert in_seconds.multiplier == pytest.approx(vector["multiplier_per_s"], abs=1e-12)
    ranked = [
        row | {"success_rate": 1, "weighted_s": vector["weighted_s"][row["id"]]}
        for row in vector["input"]
    ]
    by_seconds = rank_nodes(standings(ranked), in_seconds)
    assert tickets(by_seconds) == vector["tickets"]
    chances = {row.node: round(row.probability, 6) for row in by_seconds.rows}
    assert chances == vector["probability"]


@vectors_of("scaled_to_slow_work", file=POCKET)
def test_weighted_latency_is_median_plus_weighted_p90(vector: Vector):
    for row in vector["input"]:
        weighted = row["median_s"] + PORTAL_API_HEAD.p90_weight * row["p90_s"]
        assert weighted == pytest.approx(vector["weighted_s"][row["id"]])
