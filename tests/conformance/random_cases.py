"""Random cases for implementations of docs/spec/: rules, events, and what is to be computed.

A case depends only on its seed and number. Half of the histories are arbitrary events, most of
which are anomalies; in the others tasks run to their end, so that pools fill and kickouts become
due. Under rules that hold kickouts for incidents, most of the latter have an incident. The
standard library draws all numbers, so a stranger can repeat a case by its seed.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from oracle.domain.events.network_events import TYPE_BY_NAME
from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.reliability import CAUSES
from oracle.domain.scoring.rules import Rules
from oracle.systems.registry import get_rules

Event = dict[str, Any]
Case = dict[str, Any]

_CRYNUX = get_rules("crynux")
_CRYNUX_DOCS = get_rules("crynux-docs")
_RELAY = get_rules("relay")
_FACTORS: dict[str, Any] = {
    info.factor_rule: UNIT // 3 for info in CAUSES.values() if info.factor_rule is not None
}
# The shipped sets are the most frequent; the others cover rules that the shipped ones do not use.
RULE_SETS: tuple[Rules, ...] = (
    _CRYNUX,
    _CRYNUX_DOCS,
    _CRYNUX,
    _CRYNUX_DOCS,
    _RELAY,
    replace(_RELAY, restarts=(4_000, 40_000), pool_size=8, reseed_copies=7),
    replace(_CRYNUX, close="terminal", pool_size=6, least_timeout_seconds=60),
    replace(
        _CRYNUX,
        pool_size=5,
        rank_scores=(7, 3),
        absent_score=1,
        tau_seconds=977,
        exclude_exit=4 * UNIT // 10,
        kickout_below=7 * UNIT // 2,
        # Each factor differs from 1, which is the default of a factor that few networks use.
        **_FACTORS,
    ),
)

# A kickout is held if more than a fifth of its scores are timeouts in incidents.
INCIDENT_RULES = replace(
    _CRYNUX, pool_size=2, kick_creator_share=UNIT, kick_incident_share=UNIT // 5
)
RULE_SETS = (*RULE_SETS, INCIDENT_RULES)

_GAPS = (0, 0, 0, 1, 10, 60, 300, 1800, 6000)
_WILD_GAPS = (*_GAPS, -40)
_REASONS = ("cancelled", "creator_validation_timeout", "error_reported", "unknown")
_STATUSES = ("created", "queued", "started", "submitted", "error_reported", "validated")
_GENESIS = 1_000
_NODES = 5
# Enough nodes for an incident without a calm day before it.
_INCIDENT_NODES = 36
_SHORT_GAPS = (0, 1, 2, 5)
# How often each type is drawn in an arbitrary history.
_TYPE_WEIGHTS = {
    **dict.fromkeys(TYPE_BY_NAME, 2),
    "node_joined": 6,
    "node_updated": 1,
    "model_added": 1,
    "download_requested": 1,
    "node_quit_asked": 3,
    "node_slashed": 1,
    "task_created": 8,
    "task_started": 12,
    "task_submitted": 12,
    "task_error_reported": 4,
    "result_disclosed": 3,
    "task_validated": 3,
    "task_aborted": 3,
    "task_timed_out": 4,
    "group_validated": 5,
}


def iter_cases(seed: str, count: int) -> Iterator[Case]:
    """Yield the first `count` cases of a seed."""
    for number in range(count):
        rng = random.Random(f"{seed}:{number}")  # noqa: S311 - a case can be repeated by its seed
        yield draw_case(rng, number)


def draw_case(rng: random.Random, number: int) -> Case:
    """Draw a case; its number selects the rule set, so that each is equally frequent."""
    rules = RULE_SETS[number % len(RULE_SETS)]
    is_orderly = rng.random() < 0.5
    if is_orderly and rules is INCIDENT_RULES and rng.random() < 0.8:
        events = draw_incident_history(rng)
    elif is_orderly:
        events = draw_orderly_history(rng, rng.choice((5, 20, 70)))
    else:
        events = _draw_arbitrary_history(rng)
    return {
        "rules": json.loads(rules.to_json()),
        "events": events,
        "time": max(event["time"] for event in events) + rng.choice((0, 1, 900, 100_000)),
        "holds_kickouts": rng.random() < 0.1,
        "round": {
            "chain_id": rng.choice((1, 31337)),
            "oracle": _address(0xABC),
            "round": rng.randint(1, 2**32 - 1),
            "as_of": events[-1]["block"],
        },
    }


class _Writer:
    """Writes events at ascending positions; several may share a transaction or a block."""

    def __init__(self, rng: random.Random, gaps: tuple[int, ...]) -> None:
        self.events: list[Event] = []
        self._rng, self._gaps = rng, gaps
        self._block, self._time, self._log, self._tx = 1, _GENESIS, 0, 0

    def move_to_next_block(self) -> None:
        self._block += self._rng.choice((1, 1, 5))
        self._time = max(0, self._time + self._rng.choice(self._gaps))
        self._log = self._tx = 0

    def wait(self, seconds: int) -> None:
        """Let time pass before the next block."""
        self._time += seconds
        self.move_to_next_block()

    def move_to_next_transaction(self) -> None:
        self._tx += 1

    def add(self, kind: str, **fields: object) -> None:
        position = {"block": self._block, "tx": self._tx, "log": self._log, "time": self._time}
        values = {name: value for name, value in fields.items() if value is not None}
        self.events.append({"type": kind, **position, **values})
        self._log += 1


def _draw_arbitrary_history(rng: random.Random) -> list[Event]:
    writer = _Writer(rng, _WILD_GAPS)
    task_count = rng.choice((6, 12, 40))
    kinds = rng.choices(
        tuple(_TYPE_WEIGHTS), tuple(_TYPE_WEIGHTS.values()), k=rng.choice((20, 60, 250))
    )
    for kind in kinds:
        writer.add(kind, **_draw_fields(rng, kind, task_count))
        if rng.random() < 0.5:
            writer.move_to_next_block()
        elif rng.random() < 0.5:
            writer.move_to_next_transaction()
    return writer.events


def _draw_fields(rng: random.Random, kind: str, task_count: int) -> Event:
    node = _address(rng.randint(1, _NODES))
    task = _hash(rng.randint(1, task_count))
    if kind == "group_validated":
        return _draw_group_fields(rng, task_count)
    if kind == "model_added":
        return {"node": node, "model": "x"}
    if kind == "download_requested":
        return {"node": node, "model": "x", "until": 5_000}
    if kind.startswith("node_"):
        return {"node": node}
    draw_more = _TASK_FIELDS.get(kind, _draw_optional_node)
    return {"task": task, **draw_more(rng, node)}


def _draw_group_fields(rng: random.Random, task_count: int) -> Event:
    tasks = [_hash(rng.randint(1, task_count)) for _ in range(rng.choice((1, 2, 3, 3, 3, 4)))]
    return {
        "group": _hash(rng.randint(900, 903)),
        "tasks": tasks,
        "ranked": _draw_sometimes(rng, 0.2, lambda: True),
        "invalid": _draw_sometimes(rng, 0.2, lambda: tasks[:1]),
        "possible": _draw_sometimes(rng, 0.2, lambda: [_hash(rng.randint(1, task_count))]),
    }


def _draw_creation(rng: random.Random, node: str) -> Event:
    return {
        "creator": _draw_sometimes(rng, 0.6, lambda: node),
        "group": _draw_sometimes(rng, 0.7, lambda: _hash(rng.randint(900, 903))),
        "timeout": _draw_sometimes(rng, 0.4, lambda: rng.choice((30, 59, 60, 900, 2**63 - 1))),
        "group_size": _draw_sometimes(rng, 0.2, lambda: rng.randint(1, 5)),
    }


def _draw_start(rng: random.Random, node: str) -> Event:
    return {"node": node, "round": _draw_sometimes(rng, 0.3, lambda: rng.randint(0, 2))}


def _draw_result(rng: random.Random, node: str) -> Event:
    return {"node": node, "frees": _draw_sometimes(rng, 0.2, lambda: True)}


def _draw_abort(rng: random.Random, node: str) -> Event:
    return {
        **_draw_timeout(rng, node),
        "reason": _draw_sometimes(rng, 0.8, lambda: rng.choice(_REASONS)),
    }


def _draw_timeout(rng: random.Random, node: str) -> Event:
    return {
        **_draw_optional_node(rng, node),
        "last_status": _draw_sometimes(rng, 0.5, lambda: rng.choice(_STATUSES)),
    }


def _draw_optional_node(rng: random.Random, node: str) -> Event:
    return {"node": _draw_sometimes(rng, 0.4, lambda: node)}


_TASK_FIELDS: dict[str, Callable[[random.Random, str], Event]] = {
    "task_created": _draw_creation,
    "task_queued": lambda _, __: {},
    "task_validated": lambda _, __: {},
    "task_started": _draw_start,
    "task_submitted": _draw_result,
    "task_error_reported": _draw_result,
    "result_committed": lambda _, node: {"node": node},
    "result_disclosed": lambda _, node: {"node": node},
    "fee_shared": lambda _, node: {"node": node, "fee": "7"},
    "task_aborted": _draw_abort,
    "task_timed_out": _draw_timeout,
}


def draw_orderly_history(rng: random.Random, group_count: int) -> list[Event]:
    """Draw groups of three that run to their end; the last node of the network is often silent."""
    writer = _Writer(rng, _GAPS)
    nodes = [_address(number) for number in range(1, rng.choice((3, 4, _NODES)) + 1)]
    creators = [_address(0xC0 + number) for number in range(rng.choice((1, 2, 6)))]
    for node in nodes:
        writer.add("node_joined", node=node)
    departure_share = rng.choice((0, 0.02, 0.1))
    for number in range(group_count):
        _write_group(writer, rng, number, nodes, creators)
        if rng.random() < departure_share:
            _write_departure(writer, rng, rng.choice(nodes))
    return writer.events


def _write_group(
    writer: _Writer, rng: random.Random, number: int, nodes: list[str], creators: list[str]
) -> None:
    group = _hash(5_000 + number)
    creator = rng.choice(creators)
    runners = rng.sample(nodes, 3)
    if rng.random() < 0.8:
        # Nodes of a low address are fast, so that the others sink.
        runners.sort()
    runner_by_task = {
        _hash(10_000 + 3 * number + place): runner for place, runner in enumerate(runners)
    }
    for key, node in runner_by_task.items():
        timeout = rng.choice((30, 600, 600))
        writer.add("task_created", task=key, creator=creator, group=group, timeout=timeout)
        writer.add("task_started", task=key, node=node)
    answered = _write_answers(writer, rng, runner_by_task, nodes[-1])
    writer.move_to_next_block()
    for key in answered:
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            writer.add("fee_shared", task=key, node=runner_by_task[key], fee="7")
    writer.add("group_validated", group=group, tasks=list(runner_by_task))
    for key in answered:
        endings = ("task_succeeded", "task_refunded", "task_invalidated")
        writer.add(rng.choices(endings, (4, 4, 1))[0], task=key)
    if rng.random() < 0.5:
        writer.move_to_next_transaction()
    for key in runner_by_task:
        writer.add("task_timed_out" if rng.random() < 0.7 else "task_aborted", task=key)


def _write_answers(
    writer: _Writer, rng: random.Random, runner_by_task: dict[str, str], silent_node: str
) -> list[str]:
    """Write the results of a group's tasks, and return those that have one."""
    answered = []
    for key, node in runner_by_task.items():
        writer.move_to_next_block()
        if rng.random() < (0.4 if node == silent_node else 0.9):
            kind = "task_error_reported" if rng.random() < 0.1 else "task_submitted"
            writer.add(kind, task=key, node=node)
            answered.append(key)
        elif rng.random() < 0.5:
            writer.add("task_timed_out", task=key, node=node)
    return answered


def _write_departure(writer: _Writer, rng: random.Random, node: str) -> None:
    kinds = ("node_quit", "node_quit_asked", "node_slashed", "node_kicked_out", "node_pause_asked")
    writer.add(rng.choice(kinds), node=node)
    if rng.random() < 0.8:
        writer.move_to_next_block()
        writer.add("node_joined", node=node)


def draw_incident_history(rng: random.Random) -> list[Event]:
    """Draw rounds in which all nodes work; in some, all tasks time out,
    or those of one creator.
    """
    writer = _Writer(rng, _SHORT_GAPS)
    nodes = [_address(number) for number in range(1, _INCIDENT_NODES + 1)]
    good_creators = [_address(0xC0 + number) for number in range(1, 9)]
    is_outage = rng.random() < 0.5
    bad_creators = good_creators if is_outage else [_address(0xC0)]
    for node in nodes:
        writer.add("node_joined", node=node)
    for round_number in range(rng.choice((2, 3, 5))):
        is_bad = round_number in {1, 2}
        # In a burst, most nodes have answered a task of another creator in the same minutes.
        if not (is_bad and is_outage):
            _write_round(writer, rng, nodes, good_creators, (0, 0, 0, 1))
        if is_bad:
            silent_counts = (2, 3, 3) if is_outage else (1, 2, 2, 2, 3)
            _write_round(writer, rng, nodes, bad_creators, silent_counts)
        if rng.random() < 0.8:
            # An incident is over when it has not been confirmed for fifteen minutes.
            writer.wait(rng.choice((600, 901, 3_000)))
    return writer.events


def _write_round(
    writer: _Writer,
    rng: random.Random,
    nodes: list[str],
    creators: list[str],
    silent_counts: tuple[int, ...],
) -> None:
    """Write a group for every three nodes; `silent_counts` are drawn for each group."""
    shuffled = rng.sample(nodes, len(nodes))
    for first in range(0, len(nodes), 3):
        # Nodes of a high address are slow or silent, so that their kickouts become due.
        runners = sorted(shuffled[first : first + 3])
        _write_silent_group(writer, rng.choice(creators), runners, rng.choice(silent_counts))


def _write_silent_group(
    writer: _Writer, creator: str, runners: list[str], silent_count: int
) -> None:
    """Write a group of which the last `silent_count` nodes time out."""
    number = 10_000 + len(writer.events)
    runner_by_task = {_hash(number + place): runner for place, runner in enumerate(runners)}
    keys = list(runner_by_task)
    answered = keys[: len(keys) - silent_count]
    silent = keys[len(keys) - silent_count :]
    for key, node in runner_by_task.items():
        writer.add("task_created", task=key, creator=creator, group=_hash(number), timeout=600)
        writer.add("task_started", task=key, node=node)
    for key in answered:
        writer.move_to_next_block()
        writer.add("task_submitted", task=key, node=runner_by_task[key])
    writer.move_to_next_block()
    for key in silent:
        writer.add("task_timed_out", task=key)
    writer.add("group_validated", group=_hash(number), tasks=keys)
    for key in answered:
        writer.add("task_succeeded", task=key)


def _draw_sometimes(rng: random.Random, share: float, draw: Callable[[], object]) -> object:
    return draw() if rng.random() < share else None


def _address(number: int) -> str:
    return f"0x{number:040x}"


def _hash(number: int) -> str:
    return f"0x{number:064x}"
