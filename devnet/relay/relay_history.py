"""The history of a relay, which was generated with its books or recorded.

A record is a file of JSON lines in chronological order (docs/reference/crynux-relay.md#records):
`{"t": 1790000000.5, "row": {...}}` as the stream showed it, and `{"t": ..., "nodes": [...]}` as
`/v2/network/nodes/data` returned.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from devnet.relay.published_rows import PublishedRow, to_relay_address
from devnet.relay.relay_figures import NodeState, NodeStateHistory
from devnet.relay.relay_nodes import RelayNode
from oracle.domain.ids import Address
from oracle.errors import InputError

_MAX_SCORE = 10.0
_HOUR_SECONDS = 3600
# Values of the field `status` in `/v1/node`.
_QUIT, _AVAILABLE, _BUSY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row with the time of its commit, in relay seconds."""

    time: float
    row: PublishedRow


class RelaySource(Protocol):
    """The data that a stand-in relay serves.

    Times are in relay seconds.
    """

    def list_rows(self, at_time: float) -> Sequence[PublishedRow]:
        """Return all rows that were committed up to a time, ordered by id."""
        ...

    def list_nodes(self, at_time: float) -> list[dict[str, Any]]:
        """Return the figures of all nodes, as in `/v2/network/nodes/data`."""
        ...

    def get_node(self, node: str, at_time: float) -> dict[str, Any]:
        """Return a node as in `/v1/node`.

        An unknown node has status 0.
        """
        ...

    def format_node_events(self, at_time: float) -> str:
        """Format the starts and releases of the last hour as text, one per line."""
        ...

    def count_nodes_and_tasks(self, at_time: float) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class RelayHistory:
    """A generated network with its rows, ordered by id, and its relay's books."""

    rows: tuple[TimedRow, ...]
    state_history_by_node: dict[Address, NodeStateHistory]
    node_by_address: dict[Address, RelayNode]

    @property
    def end_time(self) -> float:
        return max((timed_row.time for timed_row in self.rows), default=0.0)

    def list_rows(self, at_time: float) -> list[PublishedRow]:
        """Return the rows committed up to a time.

        Rows are not committed in the order of their ids.
        """
        return [timed_row.row for timed_row in self.rows if timed_row.time <= at_time]

    def list_nodes(self, at_time: float) -> list[dict[str, Any]]:
        """Return all nodes, even those that left, as the relay does."""
        state_or_none_by_node = {
            node: find_state(state_history, at_time)
            for node, state_history in self.state_history_by_node.items()
        }
        state_by_node = {
            node: node_state
            for node, node_state in state_or_none_by_node.items()
            if node_state is not None
        }
        max_stake = max((node_state.stake for node_state in state_by_node.values()), default=0)
        return [
            self._build_node_stats(node, node_state, max_stake, at_time)
            for node, node_state in sorted(state_by_node.items())
        ]

    def get_node(self, node: str, at_time: float) -> dict[str, Any]:
        """Return a node as in `/v1/node`."""
        address = Address(node.lower())
        node_state = (
            find_state(self.state_history_by_node[address], at_time)
            if address in self.state_history_by_node
            else None
        )
        if node_state is None:
            return {"address": node, "status": _QUIT, "qos_score": 0.0, "model_ids": []}
        status = _BUSY if self._is_node_busy(address, at_time) else _AVAILABLE
        return {
            "address": to_relay_address(address),
            "status": status if node_state.is_member else _QUIT,
            "gpu_name": self.node_by_address[address].gpu,
            "gpu_vram": self.node_by_address[address].vram,
            "qos_score": node_state.long_term * _MAX_SCORE,
            "model_ids": list(self.node_by_address[address].models),
        }

    def format_node_events(self, at_time: float) -> str:
        """Format the starts and releases of the last hour as text, one per line."""
        return "\n".join(self._iter_node_events(at_time))

    def count_nodes_and_tasks(self, at_time: float) -> dict[str, int]:
        node_states = [
            find_state(state_history, at_time)
            for state_history in self.state_history_by_node.values()
        ]
        member_count = sum(
            node_state is not None and node_state.is_member for node_state in node_states
        )
        rows = self.list_rows(at_time)
        started_count = sum(row.type == "TaskStarted" for row in rows)
        running_count = sum(
            self._is_node_busy(node, at_time) for node in self.state_history_by_node
        )
        return {
            "all_nodes": member_count,
            "total_tasks": started_count,
            "running_tasks": running_count,
        }

    def _build_node_stats(
        self, node: Address, node_state: NodeState, max_stake: int, at_time: float
    ) -> dict[str, Any]:
        reliability = node_state.compute_reliability(at_time)
        quality = node_state.long_term * reliability
        stake_score = math.sqrt(node_state.stake / max_stake) if max_stake else 0.0
        score_sum = stake_score + quality
        is_selectable = (
            node_state.is_member and not node_state.is_excluded_at(at_time) and score_sum > 0
        )
        return {
            "address": to_relay_address(node),
            "network": "crynux-on-base",
            "card_model": self.node_by_address[node].gpu,
            "v_ram": self.node_by_address[node].vram,
            "staking": str(node_state.stake),
            "qos_score": quality,
            "staking_score": stake_score,
            "prob_weight": stake_score * quality / score_sum if is_selectable else 0.0,
        }

    def _is_node_busy(self, node: Address, at_time: float) -> bool:
        node_text = to_relay_address(node)
        running_tasks = set[str]()
        for row in self.list_rows(at_time):
            if row.type == "TaskStarted" and row.node == node_text:
                running_tasks.add(row.task)
            elif row.type.startswith("TaskEnd"):
                running_tasks.discard(row.task)
        return bool(running_tasks)

    def _iter_node_events(self, at_time: float) -> Iterator[str]:
        for timed_row in self.rows:
            if not at_time - _HOUR_SECONDS <= timed_row.time <= at_time:
                continue
            action = _ACTION_BY_ROW_TYPE.get(timed_row.row.type)
            if action is not None:
                node = self.node_by_address[Address(timed_row.row.node.lower())]
                time_text = datetime.fromtimestamp(int(timed_row.time), UTC).strftime(
                    "%Y-%m-%dT%H:%M:%SZ"
                )
                gpu_text = f"{node.gpu}.{node.vram}"
                yield (
                    f"[{time_text}] [Node {action}] [{gpu_text}] [{timed_row.row.node}] "
                    f"[{timed_row.row.task}]"
                )


_ACTION_BY_ROW_TYPE = {
    "TaskStarted": "selected",
    "TaskEndSuccess": "released",
    "TaskEndGroupSuccess": "released",
}


def find_state(state_history: NodeStateHistory, at_time: float) -> NodeState | None:
    """Return the state of a node at a time, or None before it first joined."""
    state_count = bisect_right(state_history.states, at_time, key=attrgetter("time"))
    return state_history.states[state_count - 1] if state_count else None


@dataclass(frozen=True, slots=True)
class RelayRecord:
    """A recorded relay.

    Its figures do not change between two recorded responses.
    """

    rows: tuple[TimedRow, ...]
    timed_figures: tuple[tuple[float, list[dict[str, Any]]], ...]

    def list_rows(self, at_time: float) -> list[PublishedRow]:
        """Return the rows that were recorded up to a time, ordered by id."""
        visible_rows = [timed_row.row for timed_row in self.rows if timed_row.time <= at_time]
        return sorted(visible_rows, key=lambda row: row.id)

    def list_nodes(self, at_time: float) -> list[dict[str, Any]]:
        """Return the figures of all nodes in the last response recorded up to a time."""
        response_count = bisect_right(self.timed_figures, at_time, key=itemgetter(0))
        return self.timed_figures[response_count - 1][1] if response_count else []

    def get_node(self, node: str, at_time: float) -> dict[str, Any]:
        """Return the response for an unknown node, because no single node is recorded."""
        del at_time
        return {"address": node, "status": 0, "qos_score": 0.0, "model_ids": []}

    def format_node_events(self, at_time: float) -> str:
        """Return no events, because events are not recorded."""
        del at_time
        return ""

    def count_nodes_and_tasks(self, at_time: float) -> dict[str, int]:
        """Count the nodes and tasks in the rows."""
        row_types = [row.type for row in self.list_rows(at_time)]
        started_count = row_types.count("TaskStarted")
        ended_count = sum(row_type.startswith("TaskEnd") for row_type in row_types)
        member_count = row_types.count("NodeJoin") - row_types.count("NodeQuit")
        return {
            "all_nodes": member_count,
            "total_tasks": started_count,
            "running_tasks": started_count - ended_count,
        }


def parse_record(lines: Iterable[str]) -> RelayRecord:
    """Parse a relay's recorded rows and node figures from JSON lines.

    Raises:
        InputError: a line is malformed; the message gives its number.
    """
    rows: list[TimedRow] = []
    timed_figures: list[tuple[float, list[dict[str, Any]]]] = []
    for line_number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            if "row" in entry:
                rows.append(TimedRow(float(entry["t"]), PublishedRow.from_json(entry["row"])))
            else:
                timed_figures.append((float(entry["t"]), list(entry["nodes"])))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"line {line_number} of the record: {error}") from None
    return RelayRecord(tuple(rows), tuple(sorted(timed_figures, key=itemgetter(0))))


def iter_record_lines(
    rows: Iterable[TimedRow], source: RelaySource, poll_times: Sequence[float]
) -> Iterator[str]:
    """Yield a record of `source` as lines, with its rows and its figures at `poll_times`."""
    for timed_row in rows:
        yield json.dumps({"t": timed_row.time, "row": timed_row.row.to_json()})
    for poll_time in poll_times:
        yield json.dumps({"t": poll_time, "nodes": source.list_nodes(poll_time)})
