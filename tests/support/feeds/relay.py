"""A relay's event stream for tests: real HTTP, its own clock, and all faults.

Rows have the form of the public interface (docs/explanation/feed.md#interface).
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

CREATOR = "0x" + "cc" * 20
Row = dict[str, Any]


def make_relay_node(number: int) -> str:
    return f"0x{number:040x}"


def make_relay_task(number: int) -> str:
    return f"0x{number:064x}"


@dataclass
class Relay:
    """The relay's rows and its clock `now`; `fault` replaces the response for a path.

    `page_cap`: the maximum number of rows per page, whatever was requested, or None.
    """

    now: int = 1_000
    rows: list[Row] = field(default_factory=list)
    next_id: int = 1
    fault: Callable[[str], tuple[int, bytes] | None] = lambda _: None
    received_requests: list[str] = field(default_factory=list)
    page_cap: int | None = None

    def emit(self, kind: str, node_: str = "", task_: str = "", **args: object) -> int:
        """Append a row and return its id."""
        row = {
            "id": self.next_id,
            "type": kind,
            "node_address": node_,
            "task_id_commitment": task_,
            "args": json.dumps(args),
        }
        self.rows.append(row)
        self.next_id += 1
        return self.next_id - 1

    def burn(self, ids: int = 1) -> None:
        """Skip ids, as a rolled-back transaction does."""
        self.next_id += ids

    def joins(self, number: int) -> int:
        return self.emit(
            "NodeJoin", make_relay_node(number), node_address=make_relay_node(number), network="x"
        )

    def starts(self, task_: int, by: int) -> int:
        return self._of_runner("TaskStarted", task_, by)

    def answers(self, task_: int, by: int, score: str = "0xaa") -> int:
        return self._of_runner("TaskScoreReady", task_, by, score=score)

    def ends(self, kind: str, task_: int, by: int) -> int:
        return self._of_runner(kind, task_, by)

    def aborts(self, task_: int, reason: int, status: int) -> int:
        return self.emit(
            "TaskEndAborted",
            CREATOR,
            make_relay_task(task_),
            task_id_commitment=make_relay_task(task_),
            abort_issuer=CREATOR,
            abort_reason=reason,
            last_status=status,
        )

    def leaves(self, kind: str, number: int) -> int:
        return self.emit(
            kind, make_relay_node(number), node_address=make_relay_node(number), network="x"
        )

    def group(self, tasks: Mapping[int, int], score: str = "0xaa") -> None:
        """Append the rows of a complete group.

        `tasks` gives each node's task, in the order in which they finish.
        """
        for task_number, by in tasks.items():
            self.starts(task_number, by)
        for task_number, by in tasks.items():
            self.answers(task_number, by, score)
        first, *other_tasks = tasks.items()
        self.ends("TaskValidated", *first)
        for task_number, by in other_tasks:
            self.ends("TaskEndGroupRefund", task_number, by)
        self.ends("TaskEndGroupSuccess", *first)

    def _of_runner(self, kind: str, task_: int, by: int, **args: object) -> int:
        named = {
            "task_id_commitment": make_relay_task(task_),
            "selected_node": make_relay_node(by),
        }
        return self.emit(kind, make_relay_node(by), make_relay_task(task_), **named, **args)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Answer a request as the relay does."""
        self.received_requests.append(path)
        wrong = self.fault(path)
        if wrong is not None:
            return wrong
        parts = urlsplit(path)
        if parts.path == "/v1/now":
            return _build_success_response({"now": self.now})
        if parts.path == "/v1/events/current_id":
            return _build_success_response(self.rows[-1]["id"] if self.rows else 0)
        if parts.path == "/v1/events":
            query = parse_qs(parts.query)
            start = int(query["start"][0])
            limit = int(query["limit"][0])
            rows = sorted(self.rows, key=lambda row: row["id"])
            return _build_success_response(
                [row for row in rows if row["id"] > start][:limit][: self.page_cap]
            )
        return 404, b'{"message":"not found"}'


def _build_success_response(data: object) -> tuple[int, bytes]:
    return 200, json.dumps({"message": "success", "data": data}).encode()


@contextmanager
def serve_relay(relay: Relay) -> Iterator[str]:
    """Serve the relay over HTTP, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = relay.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Drop the access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
