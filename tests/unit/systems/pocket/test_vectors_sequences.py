"""Pocket's vectors of histories with evaluations in between, and upstream's own unit tests."""

from dataclasses import replace
from math import nan
from typing import Any

import pytest

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import format_five_decimals
from oracle.systems.pocket.node_selector import PortalMemory, PortalRecord
from oracle.systems.pocket.parameters import PORTAL_API_HEAD
from oracle.systems.pocket.ranking import NodeStats, Ranking, TicketReason, rank_nodes
from tests.support.vectors import Vector, load_named_vectors, vectors_of

POCKET = "pocket"
# The article of the vectors is the code without its bug (tests/vectors/SUPERSEDED.md).
MEANT = replace(PORTAL_API_HEAD, zero_success_rate=0)
PARAMS = {"article": MEANT, "portal_api_head": PORTAL_API_HEAD}
PROFILES = pytest.mark.parametrize("profile", PARAMS)
A = Address("a")


def ms(seconds: float) -> int:
    return round(seconds * 1000)


def apply_event(memory: PortalMemory, event: Vector) -> None:
    node = Address(event["node"])
    time = ms(event["t"])
    match event["event"]:
        case "succeeded":
            memory.record_success(node, event["duration_s"], time)
        case "failed":
            memory.record_failure(node, time)
        case "set_failure_flag":
            memory.set_failure_flag(node, time + ms(event["ttl_s"]), flag=event["value"] == "true")
        case unknown:
            raise ValueError(unknown)


def evaluate(memory: PortalMemory, nodes: list[Address], now: int, profile: str) -> Ranking:
    """Rank, and record the evaluation."""
    ranking = rank_nodes([memory.compute_stats(node, now) for node in nodes], PARAMS[profile])
    memory.update_failure_flags(nodes, now)
    return ranking


def flag_of(memory: PortalMemory, node: Address, now: int) -> str | None:
    record = memory.records.get(node, PortalRecord())
    return str(record.flag).lower() if now < record.flag_until else None


def describe_ranking(
    memory: PortalMemory, ranking: Ranking, now: float, nodes: list[Address]
) -> Vector:
    rows = {row.node: row for row in ranking.rows}
    stats: dict[str, Any] = {
        node: {
            "attempts": rows[node].stats.attempts,
            "success_rate": round(rows[node].stats.success_rate, 10),
            "median_s": rows[node].stats.median,
            "weighted_s": rows[node].stats.weighted,
            "failure": rows[node].stats.failing,
        }
        for node in nodes
    }
    return {
        "t": now,
        "order": [row.node for row in ranking.rows],
        "stats": stats,
        "tickets": {node: rows[node].tickets for node in nodes},
        "failure_flag_after": {node: flag_of(memory, node, ms(now)) for node in nodes},
        "fallback_uniform_over_all": ranking.degraded,
    }


@vectors_of("sequences", file=POCKET)
@PROFILES
def test_history_evaluation_matches_upstream(vector: Vector, profile: str):
    memory = PortalMemory(PARAMS[profile])
    nodes = [Address(name) for name in vector["nodes"]]
    evaluations = []
    for event in vector["events"]:
        if event["event"] != "evaluate":
            apply_event(memory, event)
            continue
        ranking = evaluate(memory, nodes, ms(event["t"]), profile)
        evaluations.append(describe_ranking(memory, ranking, event["t"], nodes))
    expected = vector[f"expected_{profile}"]
    assert evaluations == (vector["expected_portal_api_head"] if expected == "same" else expected)


UNIT = {
    case["name"]: case for case in load_named_vectors("upstream_unit_tests", file=POCKET).values()
}


def build_record(results: dict[str, int], median: str = "0", weighted: str = "0") -> PortalRecord:
    """Return the record that upstream writes in this form; nothing has expired."""
    return PortalRecord(
        successes=results.get("200", 0),
        failures=sum(n for code, n in results.items() if code != "200"),
        median=float(median),
        weighted=float(weighted),
        counts_until=300_000 if results else 0,
    )


def statistics(stats: NodeStats) -> Vector:
    return {
        "attempts": stats.attempts,
        "success_rate": stats.success_rate,
        "median_s": stats.median,
        "weighted_s": stats.weighted,
        "failure": stats.failing,
    }


@PROFILES
def test_unused_node_has_no_attempts_or_latency(profile: str):
    stats = PortalRecord().compute_stats(A, 0, PARAMS[profile])
    assert statistics(stats) == UNIT["unused node"]["expected"]


@PROFILES
def test_latencies_of_a_used_node_match_its_samples(profile: str):
    case = UNIT["used node"]
    stats = build_record(**case["input"]).compute_stats(A, 0, PARAMS[profile])
    assert statistics(stats) == case["expected"]


@PROFILES
def test_success_clears_the_failure_flag(profile: str):
    case = UNIT["flag erased by success"]
    memory = PortalMemory(PARAMS[profile])
    memory.records[A] = build_record(
        case["input"]["results"], case["input"]["median"], case["input"]["weighted"]
    )
    memory.set_failure_flag(A, 300_000, flag=True)
    ranking = evaluate(memory, [A], 0, profile)
    assert ranking.rows[0].stats.failing is case["expected"]["failure"]
    assert flag_of(memory, A, 0) == case["expected"]["failure_flag_after"]


def test_first_failure_leaves_latencies_at_zero():
    case = UNIT["first outcome is a 500"]
    record = PortalRecord()
    record.record_failure(0, PORTAL_API_HEAD)
    expected = case["expected"]
    assert {"500": record.failures} == expected["results"]
    assert format_five_decimals(record.median) == expected["median"]
    assert format_five_decimals(record.weighted) == expected["weighted"]
    stats = record.compute_stats(A, 0, PORTAL_API_HEAD)
    assert {
        "attempts": stats.attempts,
        "success_rate": stats.success_rate,
        "p90": stats.p90,
    } == expected["metadata"]


@PROFILES
def test_success_is_added_to_existing_samples(profile: str):
    case = UNIT["success on a cached log"]
    params = PARAMS[profile]
    record = build_record(**_arguments(case["input"]["log"]))
    record.samples = list(case["input"]["timing_log"])
    record.samples_until = 300_000
    before = record.compute_stats(A, 1, params)
    expected = case["expected"]
    assert {
        "attempts": before.attempts,
        "success_rate": before.success_rate,
    } == expected["metadata_before_this_relay"]
    record.record_success(case["input"]["elapsed_s"], 1, params)
    assert record.samples == expected["timing_log_after"]
    assert {"200": record.successes, "500": record.failures} == expected["results"]
    assert format_five_decimals(record.median) == expected["median"]
    assert record.p90 == expected["p90"]
    assert format_five_decimals(record.weighted) == expected["weighted"]


def test_weighted_latency_follows_the_configured_coefficient():
    case = UNIT["success on a cached log"]
    record = build_record(**_arguments(case["input"]["log"]))
    record.samples = list(case["input"]["timing_log"])
    record.samples_until = 300_000
    record.record_success(case["input"]["elapsed_s"], 1, replace(PORTAL_API_HEAD, p90_weight=0.5))
    assert (
        format_five_decimals(record.weighted) == case["derived_older_coefficient_0_5"]["weighted"]
    )


def test_nodes_are_sorted_by_their_weighted_latency():
    case = UNIT["sort"]
    nodes = [
        NodeStats(Address(row["id"]), 1, 1.0, row["weighted_s"], row["weighted_s"], failing=False)
        for row in case["input"]
    ]
    assert [row.node for row in rank_nodes(nodes, MEANT).rows] == case["expected_order"]


@PROFILES
def test_lower_ranked_nodes_never_have_more_tickets(profile: str):
    case = UNIT["rank items"]
    params = replace(PARAMS[profile], shelve_failures=5, zero_weight_attempts=5)
    nodes = [
        NodeStats(
            Address(row["id"]),
            row["attempts"],
            row["success_rate"],
            row["median_s"],
            row["weighted_s"],
            failing=False,
        )
        for row in case["input"]
    ]
    ranking = rank_nodes(nodes, params)
    assert {row.node: row.tickets for row in ranking.rows} == case["derived_tickets"]
    assert [row.node for row in ranking.rows if row.reason is TicketReason.SHELVED] == ["5000"]


def compare_mixed_profile(profile: str) -> tuple[PortalMemory, Ranking]:
    """The fixture lacks the median, so nothing can be compared with the expected value."""
    log_by_node = UNIT["pick with mixed history"]["input"]
    memory = PortalMemory(PARAMS[profile])
    for name, log in log_by_node.items():
        if log is None:
            continue
        memory.records[Address(name)] = build_record(
            log.get("results", {}), str(nan), log.get("weighted", "0")
        )
        if log.get("failure_flag") is not None:
            memory.set_failure_flag(Address(name), 300_000, flag=log["failure_flag"] == "true")
    return memory, evaluate(memory, [Address(name) for name in log_by_node], 1, profile)


@PROFILES
def test_mixed_history_gives_the_expected_tickets_and_clears_the_flag(profile: str):
    case = UNIT["pick with mixed history"]
    memory, ranking = compare_mixed_profile(profile)
    short = {"article": "article", "portal_api_head": "head"}[profile]
    assert {r.node: r.tickets for r in ranking.rows} == case[f"derived_tickets_{short}"]
    asserted = case["asserted_upstream"]
    assert flag_of(memory, Address("n0"), 1) == asserted["n0_flag_after"]
    assert flag_of(memory, Address("n4"), 1) == asserted["n4_flag_after"]


@PROFILES
def test_nodes_keep_their_tickets_when_all_nodes_are_failing(profile: str):
    memory = PortalMemory(PARAMS[profile])
    nodes = [Address(str(n)) for n in range(5)]
    for name in nodes:
        memory.records[name] = build_record({"500": 4})
        memory.set_failure_flag(name, 300_000, flag=True)
    ranking = evaluate(memory, nodes, 1, profile)
    expected_tickets = UNIT["pick when all are failures"]["derived_tickets_each"]
    assert [row.tickets for row in ranking.rows] == [expected_tickets] * 5
    assert {record.flag_until for record in memory.records.values()} == {300_000}


def _arguments(log: Vector) -> Vector:
    return {"results": log["results"], "median": log["median"], "weighted": log["weighted"]}
