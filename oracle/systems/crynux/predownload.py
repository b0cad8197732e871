"""Chooses which nodes download a model for later tasks.

See docs/explanation/dispatch.md#pre-download and docs/reference/sources.md#crynux-dispatching.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.state import (
    DOWNLOAD_HISTORY_SECONDS,
    DownloadRequest,
    Membership,
    Node,
    Task,
)
from oracle.systems.crynux.crynux_policy import (
    SPREAD,
    ModelSpread,
    Weighting,
    compute_downloader_weights,
)
from oracle.systems.crynux.requirements import build_requirement, find_unavailability_reason
from oracle.systems.policy import PolicyInput


class Predownload(NamedTuple):
    """A model that too few available nodes have, with the nodes that should download it.

    `holders` counts the available nodes that have the model, and `pending` the nodes that got a
    request for the model and may still download it. `nodes` are best first, and empty if no other
    node can be requested, or if the day's budget is used up.
    """

    model: str
    holders: int
    pending: int
    nodes: tuple[Address, ...]


OPEN, ANSWERED, UNANSWERED = "open", "answered", "unanswered"


def plan_predownloads(
    task: Task,
    policy_input: PolicyInput,
    weighting: Weighting,
    spread: ModelSpread = SPREAD,
) -> list[Predownload]:
    """Plan which nodes should download each scarce model of a starting task.

    Models are in the order of the task. `policy_input` is the network after the start, where the
    task's node is busy and reserved, and downloads missing models by itself. A node counts as
    available only if it is not excluded, because an excluded node would get no task for its model.
    A node gets a request if it could run this task once it is free, lacks the model, and got no
    request for the model within a day.
    """
    nodes, time = policy_input.nodes, policy_input.time
    available_nodes = [
        available_node
        for available_node in nodes.values()
        if find_unavailability_reason(available_node, time, policy_input.rules) is None
    ]
    holder_count_by_model = {
        model: sum(model in node.models for node in available_nodes)
        for model in dict.fromkeys(task.models)
    }
    scarce_models = [
        model for model, count in holder_count_by_model.items() if count < spread.scarce_below
    ]
    if not scarce_models:
        return []
    budget = _RequestBudget.from_nodes(nodes.values(), time, spread)
    pending_count_by_model = {
        model: _count_pending_requests(nodes.values(), model, time) for model in scarce_models
    }
    missing_count_by_model = {
        model: spread.target_nodes - holder_count_by_model[model] - pending_count_by_model[model]
        for model in scarce_models
    }
    ranked_nodes: list[Node] = []
    # Computing the weight of every node is expensive. It is skipped if enough nodes have already
    # received requests.
    if budget.remaining > 0 and max(missing_count_by_model.values()) > 0:
        weights = compute_downloader_weights(build_requirement(task), policy_input, weighting)
        ranked_nodes = [nodes[address] for address in sort_nodes_by_weight(weights)]
    return [
        Predownload(
            model,
            holder_count_by_model[model],
            pending_count_by_model[model],
            budget.reserve_requests(model, ranked_nodes, missing_count_by_model[model]),
        )
        for model in scarce_models
    ]


def has_scarce_model(
    models: Iterable[str], available_nodes: Iterable[Node], min_holders: int
) -> bool:
    """Return whether one of these models is on fewer than `min_holders` available nodes.

    The search stops as soon as all models have enough holders.
    """
    missing_count_by_model = dict.fromkeys(models, min_holders)
    for node in available_nodes:
        for model in [model for model in missing_count_by_model if model in node.models]:
            missing_count_by_model[model] -= 1
            if missing_count_by_model[model] <= 0:
                del missing_count_by_model[model]
        if not missing_count_by_model:
            return False
    return bool(missing_count_by_model)


def sort_nodes_by_weight(weights: Iterable[tuple[Address, int]]) -> list[Address]:
    """Sort nodes by descending weight, then by address."""
    return [address for address, _ in sorted(weights, key=lambda entry: (-entry[1], entry[0]))]


def list_download_requests(node: Node, time: int) -> list[tuple[DownloadRequest, str]]:
    """Return a node's download requests of the last day, with their states.

    A state is `open`, `answered` or `unanswered`.
    """
    return [
        (request, _get_request_state(node, request, time))
        for request in _get_recent_requests(node, time)
    ]


def _get_request_state(node: Node, request: DownloadRequest, time: int) -> str:
    if request.model in node.models:
        return ANSWERED
    return OPEN if request.until > time else UNANSWERED


def _get_recent_requests(node: Node, time: int) -> list[DownloadRequest]:
    return [
        request
        for request in node.downloads
        if request.requested_at > time - DOWNLOAD_HISTORY_SECONDS
    ]


def _count_pending_requests(nodes: Iterable[Node], model: str, time: int) -> int:
    """Count the members that have an open request for the model."""
    return sum(
        node.membership is Membership.MEMBER
        and any(
            request.model == model and _get_request_state(node, request, time) == OPEN
            for request in node.downloads
        )
        for node in nodes
    )


@dataclass(slots=True)
class _RequestBudget:
    """The number of download requests that may still be made in a day.

    Each reservation reduces the number.
    """

    remaining: int
    remaining_by_node: dict[Address, int]
    time: int

    @classmethod
    def from_nodes(cls, nodes: Iterable[Node], time: int, spread: ModelSpread) -> "_RequestBudget":
        count_by_node = {node.address: len(_get_recent_requests(node, time)) for node in nodes}
        return cls(
            spread.per_day - sum(count_by_node.values()),
            {address: spread.per_node_per_day - count for address, count in count_by_node.items()},
            time,
        )

    def reserve_requests(
        self, model: str, ranked_nodes: Sequence[Node], max_nodes: int
    ) -> tuple[Address, ...]:
        """Reserve download requests for the first of these nodes that can be requested.

        At most `max_nodes` nodes get one, and not more than the remaining requests of the day.
        """
        eligible_addresses = [
            node.address for node in ranked_nodes if self._can_request_download(node, model)
        ]
        chosen_addresses = tuple(eligible_addresses[: max(0, min(max_nodes, self.remaining))])
        self.remaining -= len(chosen_addresses)
        for address in chosen_addresses:
            self.remaining_by_node[address] -= 1
        return chosen_addresses

    def _can_request_download(self, node: Node, model: str) -> bool:
        return (
            model not in node.models
            and self.remaining_by_node[node.address] > 0
            and all(request.model != model for request in _get_recent_requests(node, self.time))
        )
