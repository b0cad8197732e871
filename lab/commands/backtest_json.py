"""Builds the output of `backtest --json`.

See docs/how-to/backtest.md for the keys.
"""

import json
from collections.abc import Sequence
from typing import Any

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.results import DueInterval, ExclusionInterval, FinalNodeState
from lab.page.number_text import format_exact_fraction
from oracle.domain.events.jsonl_fields import encode_int
from oracle.domain.ids import Address

JsonObject = dict[str, Any]


def build_comparison_json(comparison: Comparison, notes: Sequence[str]) -> JsonObject:
    """Build the JSON object of a comparison.

    `notes` are messages for the user.
    """
    results = comparison.results
    return {
        "history": _build_history_json(comparison),
        "systems": [_build_system_json(system_result) for system_result in results],
        "rank_correlation": {
            result.column.name: {
                other_result.column.name: format_exact_fraction(
                    comparison.compute_rank_correlation(result, other_result)
                )
                for other_result in results
            }
            for result in results
        },
        "nodes": [
            _build_node_json(final_state, results) for final_state in results[0].measurement.nodes
        ],
        "kicks": [
            {
                "node": kick.node,
                "block": encode_int(kick.block),
                "time": encode_int(kick.time),
                "due": {
                    system_result.column.name: system_result.measurement.kicks[kick_index].was_due
                    for system_result in results
                    if system_result.column.has_rules
                },
            }
            for kick_index, kick in enumerate(results[0].measurement.kicks)
        ],
        "notes": list(notes),
    }


def _build_history_json(comparison: Comparison) -> JsonObject:
    history = comparison.history
    first_result = comparison.results[0]
    return {
        "first_block": encode_int(history.first_block),
        "last_block": encode_int(history.last_block),
        "from_time": encode_int(history.from_time),
        "to_time": encode_int(history.to_time),
        "events": history.event_count,
        "events_before": history.folded_count - history.event_count,
        "tasks_started": first_result.started,
        "starts_judged": comparison.judged,
        "gini": format_exact_fraction(first_result.gini_actual),
    }


def _build_system_json(result: SystemResult) -> JsonObject:
    column, task_spread, exclusion_totals = (
        result.column,
        result.measurement.spread,
        result.exclusion,
    )
    system_json: JsonObject = {
        "name": column.name,
        "rules": json.loads(column.rules.to_json()) if column.has_rules else None,
        "policy": column.policy,
        "parameters": column.policy_parameters or None,
        "changes": dict(column.changes),
        "starts_unplaced": task_spread.unplaced,
        "gini": format_exact_fraction(result.gini_expected),
        "exclusion": None,
        "intervals": None,
        "kickouts": None,
    }
    if column.has_rules:
        system_json["exclusion"] = {
            "nodes": exclusion_totals.node_count,
            "intervals": exclusion_totals.interval_count,
            "total_seconds": encode_int(exclusion_totals.total_seconds),
            "longest_seconds": encode_int(exclusion_totals.longest_seconds),
        }
        system_json["intervals"] = [
            _build_interval_json(interval) for interval in result.measurement.intervals
        ]
        system_json["kickouts"] = [
            _build_kickout_json(due_interval) for due_interval in result.measurement.kickouts
        ]
    return system_json


def _build_interval_json(interval: ExclusionInterval) -> JsonObject:
    return {
        "node": interval.node,
        "block": encode_int(interval.block),
        "since": encode_int(interval.since),
        "until": encode_int(interval.until),
        "seconds": encode_int(interval.seconds),
        "began_before": interval.began_before,
    }


def _build_kickout_json(interval: DueInterval) -> JsonObject:
    return {
        "node": interval.node,
        "block": encode_int(interval.block),
        "time": encode_int(interval.time),
        "closed_block": encode_int(interval.closed_block),
        "closed_time": encode_int(interval.closed_time),
        "kicked_block": encode_int(interval.kicked_block),
        "kicked_time": encode_int(interval.kicked_time),
        "began_before": interval.began_before,
    }


def _build_node_json(final_state: FinalNodeState, sides: Sequence[SystemResult]) -> JsonObject:
    return {
        "node": final_state.node,
        "status": final_state.status,
        "gpu_name": final_state.gpu_name,
        "gpu_vram": final_state.gpu_vram,
        "final_ranks": {
            result.column.name: _build_final_rank_json(result, final_state.node)
            for result in sides
        },
        "tasks": sides[0].get_started_task_count(final_state.node),
        "share": format_exact_fraction(sides[0].compute_actual_share(final_state.node)),
        "shares": {
            result.column.name: format_exact_fraction(
                result.compute_expected_share(final_state.node)
            )
            for result in sides
        },
    }


def _build_final_rank_json(result: SystemResult, node: Address) -> JsonObject | None:
    rank = result.final_ranks.get(node)
    if rank is None:
        return None
    return {"score": format_exact_fraction(rank.score), "rank": rank.rank}
