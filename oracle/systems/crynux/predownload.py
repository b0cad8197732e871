"""Chooses nodes that download a model, so that it is on disk for later tasks.

See docs/explanation/dispatch.md#pre-download and docs/reference/sources.md#crynux-dispatching.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.state.node import REMEMBERED_SECONDS, DownloadRequest, Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.crynux_policy import SPREAD, ModelSpread, downloader_weights
from oracle.systems.crynux.requirements import requirement_of, unavailability_reason
from oracle.systems.crynux.selection_weight import Weighting
from oracle.systems.policy import PolicyInput


class Predownload(NamedTuple):
    """A model that too few available nodes have, and the nodes to ask for it, the likeliest first.

    `holders` are available and have the model; `pending` were asked for it and may still deliver.
    `nodes` is empty if no node is left to ask, or nothing of the day's budget.
    """

    model: str
    holders: int
    pending: int
    nodes: tuple[Address, ...]


class RequestState(NamedTuple):
    """A request to a node, and its state: `open`, `answered` or `unanswered`."""

    request: DownloadRequest
    state: str


OPEN, ANSWERED, UNANSWERED = "open", "answered", "unanswered"


def predownloads(
    task: Task,
    policy_input: PolicyInput,
    weighting: Weighting,
    spread: ModelSpread = SPREAD,
) -> list[Predownload]:
    """Return the nodes to ask for each scarce model of a starting task, in the task's order.

    The network is that after the start: the node of the task is busy and reserved, and downloads
    missing models by itself. A node counts as available only if it is not excluded, because an
    excluded node would get no task for its model. A node is asked if it could run this task once
    free, lacks the model, and was not asked for it within a day.
    """
    nodes, time = policy_input.nodes, policy_input.time
    free = [
        one
        for one in nodes.values()
        if unavailability_reason(one, time, policy_input.rules) is None
    ]
    holders = {
        model: sum(model in node.models for node in free) for model in dict.fromkeys(task.models)
    }
    scarce = [model for model, count in holders.items() if count < spread.scarce_below]
    if not scarce:
        return []
    requests = _Requests.of(nodes.values(), time, spread)
    pending = {model: _pending(nodes.values(), model, time) for model in scarce}
    wanted = {model: spread.enough - holders[model] - pending[model] for model in scarce}
    ranked: list[Node] = []
    # Weighing every node is expensive, and not needed if enough nodes were asked.
    if requests.left > 0 and max(wanted.values()) > 0:
        weights = downloader_weights(requirement_of(task), policy_input, weighting)
        ranked = [nodes[address] for address in sort_by_weight(weights)]
    return [
        Predownload(
            model, holders[model], pending[model], requests.take(model, ranked, wanted[model])
        )
        for model in scarce
    ]


def is_any_scarce(models: Iterable[str], free: Iterable[Node], below: int) -> bool:
    """Return whether fewer than `min_holders` of the available nodes have one of these models.

    The search stops early: a model that many nodes have takes only a few of them.
    """
    missing = dict.fromkeys(models, below)
    for node in free:
        for model in [model for model in missing if model in node.models]:
            missing[model] -= 1
            if missing[model] <= 0:
                del missing[model]
        if not missing:
            return False
    return bool(missing)


def sort_by_weight(weights: Iterable[tuple[Address, int]]) -> list[Address]:
    """Return nodes by weight, the largest first, equal ones ascending by address."""
    return [address for address, _ in sorted(weights, key=lambda each: (-each[1], each[0]))]


def requests_of(node: Node, time: int) -> list[RequestState]:
    """Return the requests of the last day and their states at a block time."""
    return [RequestState(each, _state_of(node, each, time)) for each in _recent(node, time)]


def _state_of(node: Node, request: DownloadRequest, time: int) -> str:
    if request.model in node.models:
        return ANSWERED
    return OPEN if request.until > time else UNANSWERED


def _recent(node: Node, time: int) -> list[DownloadRequest]:
    return [each for each in node.downloads if each.asked_at > time - REMEMBERED_SECONDS]


def _pending(nodes: Iterable[Node], model: str, time: int) -> int:
    """Count the members that were asked for a model and may still report that they have it."""
    return sum(
        node.membership is Membership.MEMBER
        and any(
            request.model == model and _state_of(node, request, time) == OPEN
            for request in node.downloads
        )
        for node in nodes
    )


@dataclass(slots=True)
class _Requests:
    """The rest of a day's request budgets; each reserved request is subtracted."""

    left: int
    left_of: dict[Address, int]
    time: int

    @classmethod
    def of(cls, nodes: Iterable[Node], time: int, spread: ModelSpread) -> "_Requests":
        counts = {node.address: len(_recent(node, time)) for node in nodes}
        return cls(
            spread.per_day - sum(counts.values()),
            {address: spread.per_node_per_day - count for address, count in counts.items()},
            time,
        )

    def take(self, model: str, ranked: Sequence[Node], wanted: int) -> tuple[Address, ...]:
        """Reserve requests for up to `max_nodes` of these nodes, in their order."""
        able = [node.address for node in ranked if self._may_ask(node, model)]
        chosen = tuple(able[: max(0, min(wanted, self.left))])
        self.left -= len(chosen)
        for address in chosen:
            self.left_of[address] -= 1
        return chosen

    def _may_ask(self, node: Node, model: str) -> bool:
        return (
            model not in node.models
            and self.left_of[node.address] > 0
            and all(request.model != model for request in _recent(node, self.time))
        )
