"""Legacy rules with round numbers, and shared code of this folder's tests."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, Task, create_node, create_task
from oracle.systems.policy import PolicyInput
from oracle.systems.registry import build_rules
from tests.support.histories import History, make_node_address, make_task_key

CHOSEN = {
    "legacy.vram_weight": "0.25",
    "legacy.timeout_weight": "0.25",
    "legacy.speed_weight": "0.5",
    "legacy.least_timeout_seconds": "60",
    "legacy.kickout_below": "7",
    "legacy.kickout_tasks": "3",
}
RULES = build_rules("legacy", CHOSEN)


def legacy_with(**changes: Any) -> LegacyRules:
    assert RULES.legacy is not None
    return replace(RULES.legacy, **changes)


def rules_with(**changes: Any) -> Rules:
    return replace(RULES, legacy=legacy_with(**changes))


def ran(history: History, name: str, *orders: str, silent: str = "") -> History:
    """Run a task on three nodes that commit, then disclose in the given order, and end it."""
    commits, discloses = orders
    for place, on in enumerate(dict.fromkeys(commits + discloses + silent)):
        history.starts(name, on, place=place)
    for on in commits:
        history.after(1).commits(name, on)
    for on in discloses:
        history.after(1).discloses(name, on)
    return history.after(1).succeeds(name)


def member(name: str, **values: Any) -> Node:
    """Return a free member for a scene."""
    new_node = create_node(make_node_address(name), 0, 0, 0)
    new_node.membership = Membership.MEMBER
    for key, value in values.items():
        assert hasattr(new_node, key)
        setattr(new_node, key, value)
    return new_node


def gpus(counts: dict[tuple[str, int], int]) -> list[Node]:
    """Return members with these GPUs: `{("RTX 4090", 24): 3}`."""
    return [
        member(f"{n}", gpu_name=model, gpu_vram=vram)
        for n, (model, vram) in enumerate(
            gpu for gpu, count in counts.items() for _ in range(count)
        )
    ]


def add_scores(scored_node: Node, total: int, count: int) -> Node:
    """Give a node this sum of task scores in the window of time 0."""
    scored_node.window_sum, scored_node.window_count = total, count
    return scored_node


def policy_input_of(
    nodes: Iterable[Node], rules: Rules = RULES, taken: Iterable[str] = ()
) -> PolicyInput:
    return PolicyInput(
        {candidate.address: candidate for candidate in nodes},
        rules,
        0,
        {make_node_address(n) for n in taken},
    )


def waiting_task(name: str = "t", *, gpt: bool = False, **values: Any) -> Task:
    """Return a waiting task: `gpt` or Stable Diffusion."""
    new_task = create_task(make_task_key(name))
    new_task.kind = TaskKind.LLM if gpt else TaskKind.SD
    new_task.created_at = Position(1, 0, 0)
    for key, value in values.items():
        assert hasattr(new_task, key)
        setattr(new_task, key, value)
    return new_task


def close_to(number: str, value: int | None) -> bool:
    """Compare with a vector: vectors are rounded to nearest, the product rounds down at every
    step.

    See docs/reference/scoring-rules.md#numbers.
    """
    integer_part, _, digits = number.partition(".")
    return value is not None and abs(int(integer_part + digits.ljust(18, "0")) - value) <= 2


def addresses(*names: str) -> list[Address]:
    return [make_node_address(name) for name in names]
