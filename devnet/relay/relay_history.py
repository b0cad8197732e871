"""The complete history of a stand-in relay: its rows and its books over time."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Protocol

from devnet.relay.published_rows import PublishedRow, shown
from devnet.relay.relay_cast import RelayNode
from devnet.relay.relay_figures import NodeBook, NodeMark
from oracle.domain.ids import Address

_BEST = 10.0
_HOUR_SECONDS = 3600
# Status numbers of `/v1/node`: gone, available, busy.
_QUIT, _AVAILABLE, _BUSY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row, and the relay's time in seconds at which its transaction was committed."""

    time: float
    row: PublishedRow


class Played(Protocol):
    """The source that a stand-in relay serves; times are the relay's, in seconds."""

    def rows_at(self, time: float) -> Sequence[PublishedRow]:
        """Return every row committed by a time, ordered by id."""
        ...

    def nodes_at(self, time: float) -> list[dict[str, Any]]:
        """Return every node's figures as `/v2/network/nodes/data` shows them."""
        ...

    def node_at(self, node: str, time: float) -> dict[str, Any]:
        """Return one node as `/v1/node` shows it; an unknown node has status 0."""
        ...

    def node_events_at(self, time: float) -> str:
        """Return the starts and releases of the last hour, one line each."""
        ...

    def counts_at(self, time: float) -> dict[str, int]:
        """Return the number of nodes and tasks."""
        ...


@dataclass(frozen=True, slots=True)
class RelayHistory:
    """A generated network: its rows, by id, and the relay's books."""

    rows: tuple[TimedRow, ...]
    books: dict[Address, NodeBook]
    cast: dict[Address, RelayNode]

    @property
    def ends_at(self) -> float:
        return max((one.time for one in self.rows), default=0.0)

    def rows_at(self, time: float) -> list[PublishedRow]:
        """Return the rows committed by a time; rows are not committed in the order of ids."""
        return [one.row for one in self.rows if one.time <= time]

    def nodes_at(self, time: float) -> list[dict[str, Any]]:
        """Return all nodes; nodes that left stay listed, as in the relay."""
        marks = {node: mark_at(book, time) for node, book in self.books.items()}
        known = {node: mark for node, mark in marks.items() if mark is not None}
        most = max((mark.stake for mark in known.values()), default=0)
        return [self._figures(node, mark, most, time) for node, mark in sorted(known.items())]

    def node_at(self, node: str, time: float) -> dict[str, Any]:
        """Return one node as `/v1/node` shows it."""
        address = Address(node.lower())
        mark = mark_at(self.books[address], time) if address in self.books else None
        if mark is None:
            return {"address": node, "status": _QUIT, "qos_score": 0.0, "model_ids": []}
        status = _BUSY if self._running(address, time) else _AVAILABLE
        return {
            "address": shown(address),
            "status": status if mark.is_member else _QUIT,
            "gpu_name": self.cast[address].card,
            "gpu_vram": self.cast[address].vram,
            "qos_score": mark.long_term * _BEST,
            "model_ids": list(self.cast[address].models),
        }

    def node_events_at(self, time: float) -> str:
        """Return the starts and releases of the last hour, one line each."""
        return "\n".join(self._node_events(time))

    def counts_at(self, time: float) -> dict[str, int]:
        """Return the number of nodes and tasks."""
        marks = [mark_at(book, time) for book in self.books.values()]
        members = sum(mark is not None and mark.is_member for mark in marks)
        rows = self.rows_at(time)
        started = sum(row.type == "TaskStarted" for row in rows)
        running = sum(self._running(node, time) for node in self.books)
        return {"all_nodes": members, "total_tasks": started, "running_tasks": running}

    def _figures(self, node: Address, mark: NodeMark, most: int, time: float) -> dict[str, Any]:
        health = mark.health_at(time)
        quality = mark.long_term * health
        stake = math.sqrt(mark.stake / most) if most else 0.0
        both = stake + quality
        drawn = mark.is_member and not mark.is_excluded_at(time) and both > 0
        return {
            "address": shown(node),
            "network": "crynux-on-base",
            "card_model": self.cast[node].card,
            "v_ram": self.cast[node].vram,
            "staking": str(mark.stake),
            "qos_score": quality,
            "staking_score": stake,
            "prob_weight": stake * quality / both if drawn else 0.0,
        }

    def _running(self, node: Address, time: float) -> bool:
        named, under_way = shown(node), set[str]()
        for row in self.rows_at(time):
            if row.type == "TaskStarted" and row.node == named:
                under_way.add(row.task)
            elif row.type.startswith("TaskEnd"):
                under_way.discard(row.task)
        return bool(under_way)

    def _node_events(self, time: float) -> Iterator[str]:
        for one in self.rows:
            if not time - _HOUR_SECONDS <= one.time <= time:
                continue
            word = _WORDS.get(one.row.type)
            if word is not None:
                node = self.cast[Address(one.row.node.lower())]
                at = datetime.fromtimestamp(int(one.time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                card = f"{node.card}.{node.vram}"
                yield f"[{at}] [Node {word}] [{card}] [{one.row.node}] [{one.row.task}]"


_WORDS = {
    "TaskStarted": "selected",
    "TaskEndSuccess": "released",
    "TaskEndGroupSuccess": "released",
}


def mark_at(book: NodeBook, time: float) -> NodeMark | None:
    """Return a node's state at a time, or None before its first join."""
    place = bisect_right(book.marks, time, key=attrgetter("time"))
    return book.marks[place - 1] if place else None
