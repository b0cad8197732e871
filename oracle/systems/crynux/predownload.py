"""Which nodes are asked to download a model, so that the next task finds it.

See docs/reference/sources.md#crynux-dispatching.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.state.task import Task
from oracle.systems.crynux.crynux_policy import eligible_weights
from oracle.systems.crynux.requirements import requirement_of, unavailable
from oracle.systems.crynux.selection_weight import Weighting
from oracle.systems.policy import PolicyInput


@dataclass(frozen=True, slots=True)
class ModelSpread:
    """When and how wide a model is spread (docs/explanation/crynux.md#model-distribution)."""

    # With fewer nodes than this that are available and have it.
    scarce_below: int = 3
    # So many more are asked, if there are.
    more: int = 10


class Predownload(NamedTuple):
    """One model, and the nodes to ask for it, the likeliest first."""

    model: str
    nodes: tuple[Address, ...]


def predownloads(
    task: Task,
    policy_input: PolicyInput,
    weighting: Weighting,
    distribution: ModelSpread = ModelSpread(),
) -> list[Predownload]:
    """Say who should download what as a task starts; models in the task's order.

    The scene is that after the start: the node that runs the task is busy. A node counts as
    available while it is not excluded either: it would get no task for which it has the model.
    Asked are those that could run this task and lack the model.
    """
    free = [
        node
        for node in policy_input.nodes.values()
        if unavailable(node, policy_input.time, policy_input.rules) is None
    ]
    ranked = by_weight(eligible_weights(requirement_of(task), policy_input, weighting))
    asked = []
    for model in dict.fromkeys(task.models):
        if sum(model in node.models for node in free) >= distribution.scarce_below:
            continue
        lacking = [each for each in ranked if model not in policy_input.nodes[each].models]
        if lacking:
            asked.append(Predownload(model, tuple(lacking[: distribution.more])))
    return asked


def by_weight(weights: Iterable[tuple[Address, int]]) -> list[Address]:
    """Return nodes by weight, the largest first, equal ones ascending by address."""
    return [address for address, _ in sorted(weights, key=lambda each: (-each[1], each[0]))]
