"""What `queue` answers to programs: groups in order, values, and what a node would take."""

from typing import Any

from oracle.cli.select.selection_json import task_answer
from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.queries.selection.asked_downloads import AskedDownload, downloads_in
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.queue_view import (
    Head,
    NodeOffer,
    QueueCapacity,
    QueueSnapshot,
    TrioOffer,
)
from oracle.systems.crynux.crynux_queue import QueuedTask, QueueGroup
from oracle.systems.legacy.legacy_queue import TaskGroup, TrioTask as LegacyOffer


def queue_answer(
    line: QueueSnapshot,
    snapshot: NetworkSnapshot,
    capacity: QueueCapacity | None,
    offer: NodeOffer | TrioOffer | None,
) -> dict[str, Any]:
    """Return what `queue --json` says; `gpu` null: the Any group, values in wei a second."""
    queue = line.queue
    return {
        "as_of": {"block": snapshot.block, "time": snapshot.time},
        "waiting": len(queue),
        "groups": [
            {**_group(group), "tasks": [_waiting(line, snapshot, each) for each in entries]}
            for group, entries in queue.groups().items()
        ],
        "left_out": [task.key for task in line.left_out],
        "order": [each.key for each in queue.in_order()],
        "downloads": [_download(each) for each in downloads_in(snapshot)],
        "room": None if capacity is None else _capacity(capacity),
        "offer": None if offer is None else _offer(offer),
    }


def _download(asked: AskedDownload) -> dict[str, Any]:
    return {"node": asked.node, "model": asked.model, "state": asked.state, "until": asked.until}


def _group(group: QueueGroup | TaskGroup) -> dict[str, Any]:
    if isinstance(group, TaskGroup):
        return {"vram": group.vram, "kind": "gpt" if group.gpt else "sd"}
    return {"vram": group.vram, "gpu": group.gpu}


def _waiting(
    line: QueueSnapshot, snapshot: NetworkSnapshot, waiting: QueuedTask
) -> dict[str, Any]:
    task = waiting.task
    return {
        **task_answer(task),
        "created": {"block": waiting.created.block, "log": waiting.created.log},
        "queued": task.queued,
        "estimated_seconds": decimal_text(int(line.pricing.estimated_seconds(task) * UNIT)),
        "value": decimal_text(int(waiting.value * UNIT)),
        "drawn": snapshot.drawn.get(task.key),
    }


def _capacity(capacity: QueueCapacity) -> dict[str, Any]:
    return {
        "members": capacity.members,
        "most": capacity.most,
        "dropped_next": [each.key for each in capacity.dropped],
    }


def _offer(offer: NodeOffer | TrioOffer) -> dict[str, Any]:
    if isinstance(offer, TrioOffer):
        return {
            "node": offer.node,
            "why_not": offer.unfit,
            "takes": offer.offers[0].waiting.key if offer.offers else None,
            "heads": [_trio(each) for each in offer.offers],
        }
    return {
        "node": offer.node,
        "why_not": offer.unfit,
        "takes": None if offer.taken is None else offer.taken.waiting.key,
        "heads": [_head(head) for head in offer.heads],
    }


def _head(head: Head) -> dict[str, Any]:
    return {
        **_group(head.group),
        "task": head.waiting.key,
        "value": decimal_text(int(head.waiting.value * UNIT)),
        "why_not": head.why_not,
    }


def _trio(offer: LegacyOffer) -> dict[str, Any]:
    """One group's head, and the nodes of which two would run it with the freed one."""
    combination = offer.combination
    return {
        **_group(offer.group),
        "task": offer.waiting.key,
        "value": decimal_text(int(offer.waiting.value * UNIT)),
        "trio": {
            "vram": combination.vram,
            "gpu": None if combination.card is None else combination.card.model,
            "partners": [node.address for node in offer.partners],
        },
    }
