"""Scores a file of events from scratch, so that anybody can verify published scores.

See docs/reference/events-and-jsonl.md#what-replay-prints.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter

from oracle.domain.events.jsonl import parse_events
from oracle.domain.events.jsonl_fields import wire_int
from oracle.domain.fixed_point import decimal_text
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import Anomaly, ScoreEntry
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import PopulationMaxima, incentive_shares, peers_at
from oracle.domain.scoring.legacy_tally import tally_at
from oracle.domain.scoring.node_scores import (
    count_scores,
    factors_of,
    is_excluded,
    is_kickout_due,
    long_term,
    qos_at,
    reliability_at,
    status_of,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.group import GroupMember, GroupResult
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.queries.legacy_models import legacy_rounds


def replay(lines: Iterable[str], rules: Rules, close: str | None, at: int | None) -> str:
    """Fold a file of events and return the resulting JSON document.

    Args:
        lines: JSON lines, in any order.
        rules: the scoring rules.
        close: when groups are scored, `validated` or `terminal`; None for the rules' own setting.
        at_time: the time in seconds at which H and QoS are computed; later events are left out.
            None: all events are folded, and H and QoS are computed at the time of the last one by
            position.

    Raises:
        InputError: the file is invalid; the error names the line and the field.
        ValueError: there is no such `close`.
    """
    rules = rules if close is None else replace(rules, close=close)
    events = parse_events(lines)
    time = events[-1].time if at is None else at
    fold = Fold(rules)
    # Without a time all events count, as in the daemon: block times may fall towards the end.
    fold.many(event for event in events if at is None or event.time <= at)
    changes = fold.drain()
    block = None if fold.last is None else wire_int(fold.last.at.block)
    nodes = sorted(fold.ledger.nodes.values(), key=lambda node: node.address)
    lists = {
        "nodes": list(_nodes(nodes, changes.scores, time, rules)),
        "groups": [_group(result) for result in changes.results],
        "anomalies": [_anomaly(anomaly) for anomaly in changes.anomalies],
    }
    if rules.legacy is not None:
        tasks = fold.ledger.tasks.values()
        lists["legacy"] = [
            legacy_rounds(task.key, task.runs, rules).model_dump()
            for task in _ended_in_parts(tasks)
        ]
    return _document(
        {"rules": rules.name, "as_of": {"block": block, "time": wire_int(time)}}, lists
    )


def _document(head: dict[str, object], lists: dict[str, list[dict[str, object]]]) -> str:
    """Return one JSON object as text, each row of a list on a line of its own."""
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, rows in lists.items():
        body = ",\n  ".join(json.dumps(row) for row in rows)
        parts.append(f"{json.dumps(key)}: [" + (f"\n  {body}]" if rows else "]"))
    return "{" + ",\n ".join(parts) + "}\n"


def _ended_in_parts(tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that several nodes ran, in the order in which they ended."""
    ended = [(task.ended_at, task) for task in tasks if task.runs and task.ended_at is not None]
    return [task for _, task in sorted(ended, key=itemgetter(0))]


def _nodes(
    nodes: list[Node], scores: list[ScoreEntry], time: int, rules: Rules
) -> Iterator[dict[str, object]]:
    peers, legacy = peers_at(nodes, time, rules), _legacy_rows(nodes, time, rules)
    pools = _pools(nodes, scores, time, rules)
    for node in nodes:
        row = _node(node, pools[node.address], time, rules, peers)
        if node.address in legacy:
            row["legacy"] = legacy[node.address]
        yield row


def _legacy_rows(
    nodes: list[Node], time: int, rules: Rules
) -> Mapping[Address, dict[str, object]]:
    """Return each node's window and factors as of a block time; empty under non-legacy rules.

    R, P, B, Q and the incentive share are null for a node that is no member.
    """
    if rules.legacy is None:
        return {}
    peers = peers_at(nodes, time, rules)
    shares = incentive_shares(nodes, time, rules)
    rows: dict[Address, dict[str, object]] = {}
    for node in nodes:
        tally = tally_at(node, time, rules.legacy)
        is_member = node.membership is Membership.MEMBER
        factors = factors_of(node, time, rules, peers) if is_member else None
        rows[node.address] = {
            "window": wire_int(tally.window),
            "tasks": tally.tasks,
            "node_score": _fraction(tally.node_score),
            "online_seconds": wire_int(tally.online_seconds),
            "R": None if factors is None else _fraction(factors.size),
            "P": None if factors is None else _fraction(factors.promptness),
            "B": None if factors is None else _fraction(factors.speed),
            "Q": None if factors is None else _fraction(factors.combined),
            "incentive_share": _fraction(shares.get(node.address)),
        }
    return rows


def _fraction(value: int | None) -> str | None:
    return None if value is None else decimal_text(value)


def _pools(
    nodes: list[Node], scores: list[ScoreEntry], time: int, rules: Rules
) -> dict[Address, list[int]]:
    """Return the task scores that count; under legacy rules those of the current window."""
    if rules.legacy is None:
        return {node.address: list(node.pool) for node in nodes}
    given: dict[Address, list[int]] = {node.address: [] for node in nodes}
    for entry in scores:
        given[entry.node].append(entry.score)
    for node in nodes:
        counted = count_scores(node, time, rules)
        del given[node.address][: node.scored - counted]
    return given


def _node(
    node: Node, pool: list[int], time: int, rules: Rules, peers: PopulationMaxima | None
) -> dict[str, object]:
    qos = qos_at(node, time, rules, peers)
    return {
        "node": node.address,
        "status": status_of(node),
        "task_scores": pool,
        "sum": sum(pool),
        "count": len(pool),
        "long_term": decimal_text(long_term(node, rules, time)),
        "reliability": decimal_text(reliability_at(node, time, rules)),
        "reliability_base": decimal_text(node.base),
        "reliability_since": wire_int(node.since),
        "qos": None if qos is None else decimal_text(qos),
        "excluded": is_excluded(node, time, rules),
        "kickout_due": is_kickout_due(node, rules, time),
    }


def _group(result: GroupResult) -> dict[str, object]:
    members = [_member(member) for member in result.members]
    return {"group": result.group, "members": members, "scored": result.scored}


def _member(member: GroupMember) -> dict[str, object]:
    return {
        "task": member.task,
        "node": member.node,
        "rank": member.rank,
        "elapsed": wire_int(member.elapsed),
        "score": member.score,
    }


def _anomaly(anomaly: Anomaly) -> dict[str, object]:
    place = {key: wire_int(value) for key, value in anomaly.at._asdict().items()}
    return {**place, "rule": anomaly.rule, "event": anomaly.event}
