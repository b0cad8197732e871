"""A recorded relay: its rows with the time at which each was first seen, and its figures.

A record is a file of JSON lines in the order of time (docs/reference/crynux-relay.md#records):
`{"t": 1790000000.5, "row": {...}}` as the stream showed it, and `{"t": ..., "nodes": [...]}` as
`/v2/network/nodes/data` returned.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from devnet.relay.published_rows import PublishedRow
from devnet.relay.relay_history import RelaySource, TimedRow
from oracle.errors import InputError


@dataclass(frozen=True, slots=True)
class RelayRecord:
    """A recorded relay; figures do not change between two recorded responses."""

    rows: tuple[TimedRow, ...]
    timed_figures: tuple[tuple[float, list[dict[str, Any]]], ...]

    def list_rows(self, at_time: float) -> list[PublishedRow]:
        """Return the rows seen by a time, ordered by id."""
        committed = [timed_row.row for timed_row in self.rows if timed_row.time <= at_time]
        return sorted(committed, key=lambda row: row.id)

    def list_nodes(self, at_time: float) -> list[dict[str, Any]]:
        """Return the last recorded figures before a time."""
        response_count = bisect_right(self.timed_figures, at_time, key=itemgetter(0))
        return self.timed_figures[response_count - 1][1] if response_count else []

    def get_node(self, node: str, at_time: float) -> dict[str, Any]:
        """Return an unknown node, because single nodes are not recorded."""
        del at_time
        return {"address": node, "status": 0, "qos_score": 0.0, "model_ids": []}

    def format_node_events(self, at_time: float) -> str:
        """Return no events, because they are not recorded."""
        del at_time
        return ""

    def count_nodes_and_tasks(self, at_time: float) -> dict[str, int]:
        """Return the number of nodes and tasks, counted from the rows."""
        row_types = [row.type for row in self.list_rows(at_time)]
        started = row_types.count("TaskStarted")
        ended = sum(row_type.startswith("TaskEnd") for row_type in row_types)
        members = row_types.count("NodeJoin") - row_types.count("NodeQuit")
        return {"all_nodes": members, "total_tasks": started, "running_tasks": started - ended}


def read_record(lines: Iterable[str]) -> RelayRecord:
    """Parse a record.

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
            raise InputError(f"the record, line {line_number}: {error}") from None
    return RelayRecord(tuple(rows), tuple(sorted(timed_figures, key=itemgetter(0))))


def iter_record_lines(
    rows: Iterable[TimedRow], source: RelaySource, poll_times: Sequence[float]
) -> Iterator[str]:
    """Yield the lines of a record, with the figures at the given times."""
    for timed_row in rows:
        yield json.dumps({"t": timed_row.time, "row": timed_row.row.to_json()})
    for poll_time in poll_times:
        yield json.dumps({"t": poll_time, "nodes": source.list_nodes(poll_time)})
