"""Decodes the recorded chain independently of `oracle`, as input of `tests.support.reference`.

It converts raw logs and transactions to objects of a JSON-lines file. Every needed value of an
event is a complete word at a fixed offset.
"""

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]

# First topic -> event type, and whether a node follows the task
# (docs/explanation/crynux.md#the-recorded-chain).
_LOGS = {
    "0x24d242f18ee31f8680a00041d1cc841752e13001a3a9a67f5c7562ba5fe67b2b": ("task_queued", False),
    "0x9bd27d3fcd577a82b21e57704c0d97fad539157111679935b4584f4e1abe37dc": ("task_started", True),
    "0x9aeb9b7daec64fcb1c8ca252f759fafa84039670d35f6265841a690646707725": ("task_submitted", True),
    "0x3c1ceb9f05e479d4405f57845f8486cc0bc0045bb1bc9a185b82d19866eafa1c": (
        "task_error_reported",
        True,
    ),
    "0xb86e6a82586576bc010ad08619492657c958d11f13926ea7cd171c66d20bad4d": (
        "task_validated",
        False,
    ),
    "0xedbb681c299fed103abc0767f9969e4891c7f3e23b9fbb0d0bab0a2a3018fe65": (
        "task_succeeded",
        False,
    ),
    "0x34615f6df03b52f048165d16677ccd9416d392bdaf1a5540030abc3108b5134f": (
        "task_succeeded",
        False,
    ),
    "0x013766fc0b6dd5ec82a37d86477d3f43021d4e1bd973cf17d16ddf174c6e1a2a": (
        "task_refunded",
        False,
    ),
    "0x7dd089995216e4d8cb199db2119aaa97782d4b5014824e145e0b30bb7681b099": (
        "task_invalidated",
        False,
    ),
}
_ABORTED = "0xe4161023d495c9541aba2a4e2be52416c6da996acb4a4481329f4ec310f33046"
_OF_NODES = {
    "0x29f3a9a9c7f6d4074ec8817742795e031d525ab8fe33b05ee339002580ef3a64": "node_slashed",
    "0xb848d555de967481a57a6f519357b97fabdf06fbd2b63dece8f11876f3ab9323": "node_kicked_out",
}
_CALLS = {
    "0x66d02792": "node_joined",
    "0x8456cb59": "node_pause_asked",
    "0x046f7da2": "node_resumed",
    "0xfc2b8cc3": "node_quit_asked",
    "0xe3697ca8": "task_created",
    "0x127be3ca": "group_validated",
}
_NODE_TIMED_OUT = (2, 5, 6)


def recorded_events(folder: Path) -> list[Event]:
    """Return every event in order of position."""
    times = {block["number"]: block["timestamp"] for block in _lines(folder / "blocks.jsonl.gz")}
    events = [_of_log(log) for log in _lines(folder / "logs.jsonl.gz") if _is_read(log)]
    events += [_of_call(tx) for tx in _lines(folder / "txs.jsonl.gz") if _is_call(tx)]
    for event in events:
        event["time"] = times[event["block"]]
    return sorted(events, key=lambda event: (event["block"], event["tx"], event["log"]))


def _lines(path: Path) -> list[Event]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def _is_read(log: Event) -> bool:
    return log["topics"][0] in {**_LOGS, **_OF_NODES, _ABORTED: None}


def _is_call(tx: Event) -> bool:
    return tx["status"] == 1 and tx["input"][:10] in _CALLS


def _word(text: str, place: int) -> str:
    return text[64 * place : 64 * (place + 1)]


def _of_log(log: Event) -> Event:
    topic = log["topics"][0]
    data = log["data"][2:]
    places = ("blockNumber", "transactionIndex", "logIndex")
    block, tx, index = (int(log[name], 16) for name in places)
    event: Event = {"block": block, "tx": tx, "log": index}
    if topic in _OF_NODES:
        return {**event, "type": _OF_NODES[topic], "node": "0x" + _word(data, 0)[24:]}
    event["task"] = "0x" + _word(data, 0)
    if topic == _ABORTED:
        blamed = int(_word(data, 2), 16) in _NODE_TIMED_OUT
        return {**event, "type": "task_timed_out" if blamed else "task_aborted"}
    event["type"], names_node = _LOGS[topic]
    return {**event, "node": "0x" + _word(data, 1)[24:]} if names_node else event


def _of_call(tx: Event) -> Event:
    name = _CALLS[tx["input"][:10]]
    encoded_arguments = tx["input"][10:]
    event: Event = {"type": name, "block": tx["block"], "tx": tx["index"], "log": -1}
    if name == "task_created":
        return {**event, "task": "0x" + _word(encoded_arguments, 1)}
    if name == "group_validated":
        tasks = ["0x" + _word(encoded_arguments, place) for place in range(3)]
        return {**event, "group": "0x" + _word(encoded_arguments, 3), "tasks": tasks}
    return {**event, "node": tx["from"].lower()}
