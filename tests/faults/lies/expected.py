"""The expected content of a database, from the chain as it was mined, without `oracle`.

Rows are tuples in the order of `LOG` and `CALL`. The state is that of `tests.support.reference`,
with the requirements of the tasks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.reference import Reference

LOG = (
    "block",
    "log_index",
    "block_hash",
    "time",
    "tx_index",
    "tx_hash",
    "address",
    "topics",
    "data",
)
CALL = (
    "block",
    "tx_index",
    "block_hash",
    "time",
    "tx_hash",
    "sender",
    "recipient",
    "value",
    "input",
    "succeeded",
)
Row = tuple[Any, ...]
Event = dict[str, Any]


class EmittedLog(Protocol):
    """A log in a transaction, as hex text."""

    @property
    def address(self) -> str: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def data(self) -> str: ...


class MinedTransaction(Protocol):
    """A transaction of a block."""

    @property
    def sender(self) -> str: ...

    @property
    def to(self) -> str | None: ...

    @property
    def input(self) -> str: ...

    @property
    def value(self) -> int: ...

    @property
    def succeeded(self) -> bool: ...

    @property
    def emitted_logs(self) -> Sequence[EmittedLog]: ...


class MinedBlock(Protocol):
    """A block of the chain as it was mined."""

    @property
    def number(self) -> int: ...

    @property
    def hash(self) -> str: ...

    @property
    def time(self) -> int: ...

    @property
    def txs(self) -> Sequence[MinedTransaction]: ...

    @property
    def tx_hashes(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Watched:
    """The addresses, first topics and functions that an index of this network must store."""

    addresses: Collection[str]
    topics: Collection[str]
    selectors: Collection[str] = ()


@dataclass(slots=True)
class Content:
    """The actual or expected content of a database: rows by table, in order."""

    log: list[Row] = field(default_factory=list)
    call: list[Row] = field(default_factory=list)
    nodes: dict[str, Event] = field(default_factory=dict)
    tasks: dict[str, Event] = field(default_factory=dict)
    scores: list[Row] = field(default_factory=list)

    def differing(self, actual: "Content") -> dict[str, int]:
        """Return the number of differing rows by table, for the tables that differ."""
        pairs: Mapping[str, tuple[set[str], set[str]]] = {
            name: (_to_row_texts(getattr(self, name)), _to_row_texts(getattr(actual, name)))
            for name in ("log", "call", "nodes", "tasks", "scores")
        }
        return {
            name: len(expected_lines ^ actual_lines)
            for name, (expected_lines, actual_lines) in pairs.items()
            if expected_lines ^ actual_lines
        }


def _to_row_texts(held: list[Row] | dict[str, Event]) -> set[str]:
    if isinstance(held, dict):
        return {repr((key, sorted(value.items()))) for key, value in held.items()}
    return set(map(repr, held))


def compute_expected_content(
    blocks: Sequence[MinedBlock], watched: Watched, events: list[Event]
) -> Content:
    """Return the content of an index of all these blocks; `events` are the events in them."""
    content = Content()
    for block in blocks:
        index = 0
        for place, tx in enumerate(block.txs):
            head = (block.hash, block.time, place, block.tx_hashes[place])
            if tx.to in watched.addresses and tx.input[:10] in watched.selectors:
                content.call.append(_build_call_row(block.number, head, tx))
            for log in tx.emitted_logs:
                if log.address in watched.addresses and log.topics[0] in watched.topics:
                    content.log.append(_build_log_row(block.number, index, head, log))
                index += 1
    _add_state(content, events)
    return content


def _build_log_row(
    number: int, index: int, head: tuple[str, int, int, str], log: EmittedLog
) -> Row:
    block_hash, time, place, tx_hash = head
    topics = "".join(topic[2:] for topic in log.topics)
    return (
        number,
        index,
        block_hash[2:],
        time,
        place,
        tx_hash[2:],
        log.address[2:],
        topics,
        log.data[2:],
    )


def _build_call_row(number: int, head: tuple[str, int, int, str], tx: MinedTransaction) -> Row:
    block_hash, time, place, tx_hash = head
    to = (tx.to or "0x")[2:]
    return (
        number,
        place,
        block_hash[2:],
        time,
        tx_hash[2:],
        tx.sender[2:],
        to,
        f"{tx.value:064x}",
        tx.input[2:],
        int(tx.succeeded),
    )


def _add_state(content: Content, events: list[Event]) -> None:
    reference = Reference()
    final_state = reference.run(events, events[-1]["time"])
    if reference.odd:
        raise ValueError(f"the story breaks a rule at {reference.odd}")
    for address, node in reference.nodes.items():
        content.nodes[address[2:]] = {
            "membership": node["status"],
            "paused": int(node["paused"]),
            "running": node["busy"],
            "pool": bytes(node["pool"]).hex(),
            "base": node["base"],
            "since": node["since"],
            "pending": node["wants"],
        }
    creation_by_task = {
        event["task"]: event for event in events if event["type"] == "task_created"
    }
    for key, task in reference.tasks.items():
        if not task:
            continue
        content.tasks[key[2:]] = {
            "node": None if "node" not in task else task["node"][2:],
            "started_time": task.get("started"),
            "stopped_time": task.get("stopped"),
            "ending": _ENDINGS.get(task.get("end")),
            "fee": f"{creation_by_task[key]['fee']:064x}",
            "creator": creation_by_task[key]["creator"][2:],
        }
    content.scores = sorted(
        (row["task"][2:], row["node"][2:], row["score"])
        for group in final_state["groups"]
        for row in group["members"]
        if row["score"] is not None
    )


_ENDINGS = {
    None: None,
    "task_succeeded": "succeeded",
    "task_refunded": "refunded",
    "task_invalidated": "invalidated",
    "task_aborted": "aborted",
    "task_timed_out": "timed_out",
}
