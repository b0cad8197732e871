"""A recorded relay: rows with the second they were first seen at, and the relay's figures.

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
from devnet.relay.relay_history import Played, TimedRow
from oracle.errors import InputError


@dataclass(frozen=True, slots=True)
class RelayRecord:
    """A recorded relay; figures do not change between two recorded responses."""

    rows: tuple[TimedRow, ...]
    answers: tuple[tuple[float, list[dict[str, Any]]], ...]

    def rows_at(self, time: float) -> list[PublishedRow]:
        """Return the rows seen by a time, ordered by id."""
        seen = [one.row for one in self.rows if one.time <= time]
        return sorted(seen, key=lambda row: row.id)

    def nodes_at(self, time: float) -> list[dict[str, Any]]:
        """Return the last recorded figures before a time."""
        place = bisect_right(self.answers, time, key=itemgetter(0))
        return self.answers[place - 1][1] if place else []

    def node_at(self, node: str, time: float) -> dict[str, Any]:
        """Return an unknown node, because single nodes are not recorded."""
        del time
        return {"address": node, "status": 0, "qos_score": 0.0, "model_ids": []}

    def node_events_at(self, time: float) -> str:
        """Return no events, because they are not recorded."""
        del time
        return ""

    def counts_at(self, time: float) -> dict[str, int]:
        """Return the number of nodes and tasks, counted from the rows."""
        kinds = [row.type for row in self.rows_at(time)]
        started = kinds.count("TaskStarted")
        ended = sum(kind.startswith("TaskEnd") for kind in kinds)
        members = kinds.count("NodeJoin") - kinds.count("NodeQuit")
        return {"all_nodes": members, "total_tasks": started, "running_tasks": started - ended}


def read_record(lines: Iterable[str]) -> RelayRecord:
    """Parse a record.

    Raises:
        InputError: a line is malformed; the message gives its number.
    """
    rows: list[TimedRow] = []
    answers: list[tuple[float, list[dict[str, Any]]]] = []
    for number, line in enumerate(lines, start=1):
        try:
            one = json.loads(line)
            if "row" in one:
                rows.append(TimedRow(float(one["t"]), PublishedRow.from_json(one["row"])))
            else:
                answers.append((float(one["t"]), list(one["nodes"])))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"line {number} of the record: {error}") from None
    return RelayRecord(tuple(rows), tuple(sorted(answers, key=itemgetter(0))))


def record_lines(
    rows: Iterable[TimedRow], played: Played, polled_at: Sequence[float]
) -> Iterator[str]:
    """Yield the lines of a record, with the figures at the given times."""
    for one in rows:
        yield json.dumps({"t": one.time, "row": one.row.to_json()})
    for time in polled_at:
        yield json.dumps({"t": time, "nodes": played.nodes_at(time)})
