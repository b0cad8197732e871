"""The output of `backtest --json`; docs/how-to/backtest.md explains the keys."""

import json
from collections.abc import Sequence
from typing import Any

from lab.backtest.comparison import Comparison, SystemResult
from lab.backtest.results import DueInterval, ExclusionInterval, NodeEnd
from oracle.domain.events.jsonl_fields import encode_int
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Address

Answer = dict[str, Any]


def comparison_answer(compared: Comparison, notes: Sequence[str]) -> Answer:
    """Return a whole comparison; `notes` are messages for the user."""
    sides = compared.sides
    return {
        "history": _history(compared),
        "systems": [_system(side) for side in sides],
        "rank_correlation": {
            one.column.name: {
                other.column.name: _fraction(compared.correlation(one, other)) for other in sides
            }
            for one in sides
        },
        "nodes": [_node(end, sides) for end in sides[0].measured.nodes],
        "kicks": [
            {
                "node": kick.node,
                "block": encode_int(kick.block),
                "time": encode_int(kick.time),
                "due": {
                    side.column.name: side.measured.kicks[place].due
                    for side in sides
                    if side.column.has_rules
                },
            }
            for place, kick in enumerate(sides[0].measured.kicks)
        ],
        "notes": list(notes),
    }


def _fraction(units: int | None) -> str | None:
    if units is None:
        return None
    return f"-{format_decimal(-units)}" if units < 0 else format_decimal(units)


def _history(compared: Comparison) -> Answer:
    history, first = compared.history, compared.sides[0]
    return {
        "first_block": encode_int(history.first_block),
        "last_block": encode_int(history.last_block),
        "from_time": encode_int(history.from_time),
        "to_time": encode_int(history.to_time),
        "events": history.event_count,
        "events_before": history.folded_count - history.event_count,
        "tasks_started": first.started,
        "starts_judged": compared.judged,
        "gini": _fraction(first.gini_actual),
    }


def _system(side: SystemResult) -> Answer:
    column, spread, sums = side.column, side.measured.spread, side.exclusion
    answer: Answer = {
        "name": column.name,
        "rules": json.loads(column.rules.to_json()) if column.has_rules else None,
        "policy": column.policy,
        "parameters": column.parameters or None,
        "changes": dict(column.changes),
        "starts_unplaced": spread.unplaced,
        "gini": _fraction(side.gini_expected),
        "exclusion": None,
        "intervals": None,
        "kickouts": None,
    }
    if column.has_rules:
        answer["exclusion"] = {
            "nodes": sums.nodes,
            "intervals": sums.intervals,
            "total_seconds": encode_int(sums.total),
            "longest_seconds": encode_int(sums.longest),
        }
        answer["intervals"] = [_interval(interval) for interval in side.measured.intervals]
        answer["kickouts"] = [_kickout(due) for due in side.measured.kickouts]
    return answer


def _interval(interval: ExclusionInterval) -> Answer:
    return {
        "node": interval.node,
        "block": encode_int(interval.block),
        "since": encode_int(interval.since),
        "until": encode_int(interval.until),
        "seconds": encode_int(interval.seconds),
        "began_before": interval.began_before,
    }


def _kickout(due: DueInterval) -> Answer:
    return {
        "node": due.node,
        "block": encode_int(due.block),
        "time": encode_int(due.time),
        "closed_block": encode_int(due.closed_block),
        "closed_time": encode_int(due.closed_time),
        "kicked_block": encode_int(due.kicked_block),
        "kicked_time": encode_int(due.kicked_time),
        "began_before": due.began_before,
    }


def _node(end: NodeEnd, sides: Sequence[SystemResult]) -> Answer:
    return {
        "node": end.node,
        "status": end.status,
        "gpu_name": end.gpu_name,
        "gpu_vram": end.gpu_vram,
        "final_ranks": {side.column.name: _final_rank(side, end.node) for side in sides},
        "tasks": sides[0].actual(end.node),
        "share": _fraction(sides[0].actual_share(end.node)),
        "shares": {side.column.name: _fraction(side.expected_share(end.node)) for side in sides},
    }


def _final_rank(side: SystemResult, node: Address) -> Answer | None:
    final = side.final_ranks.get(node)
    if final is None:
        return None
    return {"score": _fraction(final.score), "rank": final.rank}
