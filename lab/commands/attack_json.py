"""Builds the output of `attack --json`.

See docs/explanation/attacks.md#json for the keys.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from lab.attack.attack import AttackPlan, Finding
from lab.closed_loop.loop_result import LoopResult
from lab.closed_loop.players import ATTACKER, HONEST_OWNER
from lab.page.number_text import format_exact_fraction
from oracle.domain.events.jsonl_fields import encode_int

JsonObject = dict[str, Any]


def build_findings_json(findings: Sequence[Finding], plan: AttackPlan) -> JsonObject:
    """Build the JSON object with all results.

    Fractions are text, money is in gwei.
    """
    loop = plan.loop
    return {
        "plan": {
            "nodes": loop.nodes,
            "tasks": loop.tasks,
            "load": loop.load,
            "groups": loop.groups,
            "seed": loop.seed,
            "runs": plan.runs,
            "limit": plan.limit,
            "network": {
                field.name: encode_int(parameter_value)
                if type(parameter_value) is int
                else parameter_value
                for field in fields(loop.economics)
                if (parameter_value := getattr(loop.economics, field.name)) is not None
            },
        },
        "findings": [_build_finding_json(finding, plan.limit) for finding in findings],
    }


def _build_finding_json(finding: Finding, limit: int) -> JsonObject:
    min_gain, max_gain = finding.gain_range
    return {
        "system": finding.column.name,
        "strategy": finding.strategy.name,
        "about": finding.strategy.description,
        "baseline": finding.strategy.baseline,
        "drawn": format_exact_fraction(finding.task_ratio),
        "gain": format_exact_fraction(finding.gain),
        "gain_least": format_exact_fraction(min_gain),
        "gain_most": format_exact_fraction(max_gain),
        "harm": format_exact_fraction(finding.harm),
        "price": format_exact_fraction(finding.loss_per_harm),
        "spoiled": format_exact_fraction(finding.failure_rate_increase),
        "honest_kicked_out": finding.kicked_good_node_increase,
        "honest_held": finding.held_good_kickout_increase,
        "honest_slashed": finding.slashed_good_node_increase,
        "out": finding.removed_attacker_node_count,
        "faults": {
            fault: finding.find_acceptance_reason(fault) for fault in finding.list_faults(limit)
        },
        "runs": [
            {"attack": _build_loop_json(attack_run), "baseline": _build_loop_json(baseline_run)}
            for attack_run, baseline_run in zip(finding.attacks, finding.baselines, strict=True)
        ],
    }


def _build_loop_json(result: LoopResult) -> JsonObject:
    return {
        "seconds": result.seconds,
        "orders": result.orders,
        "failed": result.failed,
        "lies": result.lies,
        **{owner: _build_owner_json(result, owner) for owner in (ATTACKER, HONEST_OWNER)},
    }


def _build_owner_json(result: LoopResult, name: str) -> JsonObject:
    owner_result = result.get_owner_result(name)
    return {
        "nodes": owner_result.node_count,
        "starts": owner_result.start_count,
        "kicked_out": owner_result.kicked_count,
        "slashed": owner_result.slashed_count,
        "held": owner_result.held_count,
        "profit": encode_int(owner_result.money.profit),
        **{key: encode_int(value) for key, value in asdict(owner_result.money).items()},
    }
