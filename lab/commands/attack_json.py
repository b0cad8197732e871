"""The output of `attack --json`; docs/explanation/attacks.md#json explains the keys."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from lab.attack.attack import AttackPlan, Finding
from lab.closed_loop.loop_result import LoopResult
from lab.closed_loop.players import ATTACKER, HONEST_OWNER
from oracle.domain.events.jsonl_fields import encode_int
from oracle.domain.fixed_point import format_decimal

Answer = dict[str, Any]


def findings_answer(findings: Sequence[Finding], plan: AttackPlan) -> Answer:
    """Return all results of the simulation; fractions as text, money in gwei."""
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
                field.name: encode_int(value) if type(value) is int else value
                for field in fields(loop.economics)
                if (value := getattr(loop.economics, field.name)) is not None
            },
        },
        "findings": [_finding(each, plan.limit) for each in findings],
    }


def _finding(finding: Finding, limit: int) -> Answer:
    low, high = finding.band
    return {
        "system": finding.column.name,
        "strategy": finding.strategy.name,
        "about": finding.strategy.about,
        "baseline": finding.strategy.baseline,
        "drawn": _fraction(finding.share),
        "gain": _fraction(finding.gain),
        "gain_least": _fraction(low),
        "gain_most": _fraction(high),
        "harm": _fraction(finding.harm),
        "price": _fraction(finding.price),
        "spoiled": _fraction(finding.spoiled),
        "honest_kicked_out": finding.kicked_good,
        "honest_held": finding.held_good,
        "honest_slashed": finding.slashed_good,
        "out": finding.out,
        "faults": {fault: finding.reason(fault) for fault in finding.faults(limit)},
        "runs": [
            {"attack": _loop(one), "baseline": _loop(other)}
            for one, other in zip(finding.attacks, finding.baselines, strict=True)
        ],
    }


def _fraction(units: int | None) -> str | None:
    if units is None:
        return None
    return f"-{format_decimal(-units)}" if units < 0 else format_decimal(units)


def _loop(result: LoopResult) -> Answer:
    return {
        "seconds": result.seconds,
        "orders": result.orders,
        "failed": result.failed,
        "lies": result.lies,
        **{owner: _owner(result, owner) for owner in (ATTACKER, HONEST_OWNER)},
    }


def _owner(result: LoopResult, name: str) -> Answer:
    own = result.owner(name)
    return {
        "nodes": own.nodes,
        "starts": own.starts,
        "kicked_out": own.kicked,
        "slashed": own.slashed,
        "held": own.held,
        "profit": encode_int(own.money.profit),
        **{key: encode_int(value) for key, value in asdict(own.money).items()},
    }
