"""Scores a file of events from scratch, so that anyone can verify published scores.

See docs/reference/events-and-jsonl.md#what-replay-prints.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter

from oracle.domain.events.jsonl import parse_events
from oracle.domain.events.jsonl_fields import encode_int
from oracle.domain.fixed_point import format_decimal
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import Anomaly, ScoreEntry
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import (
    PopulationMaxima,
    compute_incentive_shares,
    compute_population_maxima,
)
from oracle.domain.scoring.legacy_tally import compute_window_tally
from oracle.domain.scoring.node_scores import (
    compute_legacy_factors,
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
    count_effective_scores,
    get_status,
    is_excluded,
    is_kickout_due,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, GroupResult, Membership, Node, Task
from oracle.queries.legacy_models import build_legacy_rounds


def replay_events(
    lines: Iterable[str], rules: Rules, close: str | None, at_time: int | None
) -> str:
    """Fold a file of events and return the resulting JSON document.

    Args:
        lines: JSON lines, in any order.
        rules: the scoring rules.
        close: the event at which groups are scored, `validated` or `terminal`; None for the rules'
            own setting.
        at_time: the time in seconds at which H and QoS are computed; later events are left out. If
            None, all events are folded, and H and QoS are computed at the time of the last event
            by position.

    Raises:
        InputError: the file is invalid; the error names the line and the field.
        ValueError: `close` is not one of these values.
    """
    rules = rules if close is None else replace(rules, close=close)
    events = parse_events(lines)
    time = events[-1].time if at_time is None else at_time
    fold = Fold(rules)
    # Without `at_time`, all events are folded, as in the daemon. A condition on the time would be
    # wrong, because block times may go backwards.
    fold.fold_events(event for event in events if at_time is None or event.time <= at_time)
    changes = fold.drain_changes()
    block_json = None if fold.last is None else encode_int(fold.last.at.block)
    nodes = sorted(fold.ledger.nodes.values(), key=lambda node: node.address)
    lists = {
        "nodes": list(_build_node_rows(nodes, changes.scores, time, rules)),
        "groups": [_build_group_row(result) for result in changes.results],
        "anomalies": [_build_anomaly_row(anomaly) for anomaly in changes.anomalies],
    }
    if rules.legacy is not None:
        tasks = fold.ledger.tasks.values()
        lists["legacy"] = [
            build_legacy_rounds(task.key, task.runs, rules).model_dump()
            for task in _select_ended_tasks(tasks)
        ]
    return _format_json_document(
        {"rules": rules.name, "as_of": {"block": block_json, "time": encode_int(time)}}, lists
    )


def _format_json_document(
    header: dict[str, object], lists: dict[str, list[dict[str, object]]]
) -> str:
    """Format a JSON object as text, with one line for each row of its lists."""
    header_parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in header.items()]
    for key, rows in lists.items():
        rows_json = ",\n  ".join(json.dumps(row) for row in rows)
        header_parts.append(f"{json.dumps(key)}: [" + (f"\n  {rows_json}]" if rows else "]"))
    return "{" + ",\n ".join(header_parts) + "}\n"


def _select_ended_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the ended tasks that several nodes ran, in the order in which they ended."""
    ended_tasks = [
        (task.ended_at, task) for task in tasks if task.runs and task.ended_at is not None
    ]
    return [task for _, task in sorted(ended_tasks, key=itemgetter(0))]


def _build_node_rows(
    nodes: list[Node], scores: list[ScoreEntry], time: int, rules: Rules
) -> Iterator[dict[str, object]]:
    population_maxima = compute_population_maxima(nodes, time, rules)
    legacy_row_by_node = _build_legacy_rows(nodes, time, rules)
    pools = _build_score_pools(nodes, scores, time, rules)
    for node in nodes:
        row = _build_node_row(node, pools[node.address], time, rules, population_maxima)
        if node.address in legacy_row_by_node:
            row["legacy"] = legacy_row_by_node[node.address]
        yield row


def _build_legacy_rows(
    nodes: list[Node], time: int, rules: Rules
) -> Mapping[Address, dict[str, object]]:
    """Return each node's legacy window and factors at a block time.

    The result is empty if the rules are not legacy rules.

    R, P, B, Q and the incentive share are null for a node that is not a member.
    """
    if rules.legacy is None:
        return {}
    population_maxima = compute_population_maxima(nodes, time, rules)
    shares = compute_incentive_shares(nodes, time, rules)
    rows: dict[Address, dict[str, object]] = {}
    for node in nodes:
        tally = compute_window_tally(node, time, rules.legacy)
        is_member = node.membership is Membership.MEMBER
        legacy_factors = (
            compute_legacy_factors(node, time, rules, population_maxima) if is_member else None
        )
        rows[node.address] = {
            "window": encode_int(tally.window),
            "tasks": tally.tasks,
            "node_score": _format_fraction(tally.node_score),
            "online_seconds": encode_int(tally.online_seconds),
            "R": None if legacy_factors is None else _format_fraction(legacy_factors.size),
            "P": None if legacy_factors is None else _format_fraction(legacy_factors.promptness),
            "B": None if legacy_factors is None else _format_fraction(legacy_factors.speed),
            "Q": None if legacy_factors is None else _format_fraction(legacy_factors.combined),
            "incentive_share": _format_fraction(shares.get(node.address)),
        }
    return rows


def _format_fraction(value: int | None) -> str | None:
    return None if value is None else format_decimal(value)


def _build_score_pools(
    nodes: list[Node], scores: list[ScoreEntry], time: int, rules: Rules
) -> dict[Address, list[int]]:
    """Return each node's counted scores, from its score pool or legacy window."""
    if rules.legacy is None:
        return {node.address: list(node.pool) for node in nodes}
    scores_by_node: dict[Address, list[int]] = {node.address: [] for node in nodes}
    for entry in scores:
        scores_by_node[entry.node].append(entry.score)
    for node in nodes:
        counted_scores = count_effective_scores(node, time, rules)
        del scores_by_node[node.address][: node.scored - counted_scores]
    return scores_by_node


def _build_node_row(
    node: Node,
    pool: list[int],
    time: int,
    rules: Rules,
    population_maxima: PopulationMaxima | None,
) -> dict[str, object]:
    qos = compute_node_qos(node, time, rules, population_maxima)
    return {
        "node": node.address,
        "status": get_status(node),
        "task_scores": pool,
        "sum": sum(pool),
        "count": len(pool),
        "long_term": format_decimal(compute_long_term_score(node, rules, time)),
        "reliability": format_decimal(compute_reliability(node, time, rules)),
        "reliability_base": format_decimal(node.base),
        "reliability_since": encode_int(node.since),
        "qos": None if qos is None else format_decimal(qos),
        "excluded": is_excluded(node, time, rules),
        "kickout_due": is_kickout_due(node, rules, time),
    }


def _build_group_row(result: GroupResult) -> dict[str, object]:
    members = [_build_member_row(member) for member in result.members]
    return {"group": result.group, "members": members, "scored": result.scored}


def _build_member_row(member: GroupMember) -> dict[str, object]:
    return {
        "task": member.task,
        "node": member.node,
        "rank": member.rank,
        "elapsed": encode_int(member.elapsed),
        "score": member.score,
    }


def _build_anomaly_row(anomaly: Anomaly) -> dict[str, object]:
    position_json = {key: encode_int(value) for key, value in anomaly.at._asdict().items()}
    return {**position_json, "rule": anomaly.rule, "event": anomaly.event}
