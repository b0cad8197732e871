"""Serves a relay's public interface from a history or a record.

See docs/reference/crynux-relay.md#interface. Paths, parameters, responses and errors are those of
the relay in August 2026, as far as an auditor uses them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from devnet.relay.published_rows import PublishedRow
from devnet.relay.relay_faults import FaultSwitch, RelayFault
from devnet.relay.relay_history import Played

_HOST = "127.0.0.1"
_DEFAULT_LIMIT, _MOST_A_PAGE = 50, 100
_JSON, _TEXT = "application/json; charset=utf-8", "text/plain; charset=utf-8"
_Query = Mapping[str, str]


class RelayAnswer(NamedTuple):
    """A complete HTTP response."""

    status: int
    body: bytes
    kind: str = _JSON


@dataclass(slots=True)
class StandInRelay:
    """A stand-in relay; `clock` gives its time in seconds, up to which rows are served."""

    played: Played
    clock: Callable[[], float]
    faults: FaultSwitch = field(default_factory=FaultSwitch)
    # Every requested path, in order.
    asked: list[str] = field(default_factory=list)

    def answer(self, target: str) -> RelayAnswer:
        """Handle a GET request for a path with its query."""
        self.asked.append(target)
        if self.faults.is_on(RelayFault.SILENT):
            return _said(500, {"message": "invalid connection"})
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        answer = self._found(parts.path, query)
        if self.faults.is_on(RelayFault.CUT):
            return answer._replace(body=answer.body[: len(answer.body) // 2])
        return answer

    def _found(self, path: str, query: _Query) -> RelayAnswer:
        found = _PATHS.get(path)
        try:
            if found is not None:
                return found(self, query)
            if path.startswith(_NODE_PATH) and path.count("/") == _NODE_PATH.count("/"):
                node = path.removeprefix(_NODE_PATH)
                return _good(self.played.node_at(node, self.clock()))
        except _InvalidError as error:
            wrong = {"field_name": error.field, "message": "invalid value"}
            return _said(400, {"message": "validation_error", "data": wrong})
        return _said(404, {"message": "not found"})

    def events(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v1/events`: rows above `after_id`, ascending."""
        if "event_type" in query:
            # Like the real relay, which filters by a column that does not exist.
            return _said(500, {"message": "Unknown column 'event_type' in 'where clause'"})
        start, limit = _number(query, "start", 0), _number(query, "limit", _DEFAULT_LIMIT)
        rows = [row for row in self._rows(query) if row.id > start]
        return _good([self.faults.written(row) for row in rows[: max(limit, 0)]])

    def current_id(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v1/events/current_id`: the newest id, 0 without rows."""
        return _good(max((row.id for row in self._rows(query)), default=0))

    def now(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v1/now`: the relay's clock in whole seconds."""
        del query
        return _good({"now": int(self.clock())})

    def nodes(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v2/network/nodes/data`: the current figures of every node."""
        page = _number(query, "page", 1)
        size = _number(query, "page_size", _MOST_A_PAGE)
        if page < 1 or not 1 <= size <= _MOST_A_PAGE:
            raise _InvalidError("page" if page < 1 else "page_size")
        every = self.played.nodes_at(self.clock())
        return _good(every[(page - 1) * size : page * size])

    def node_events(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v1/stats/node_events`: starts and releases of the last hour, as text."""
        del query
        return RelayAnswer(200, self.played.node_events_at(self.clock()).encode(), _TEXT)

    def node_number(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v1/network/nodes/number`."""
        del query
        counts = self.played.counts_at(self.clock())
        busy, every = counts["running_tasks"], counts["all_nodes"]
        return _good({"all_nodes": every, "busy_nodes": busy, "active_nodes": every})

    def task_number(self, query: _Query) -> RelayAnswer:
        """Handle `GET /v1/network/tasks/number`."""
        del query
        counts = self.played.counts_at(self.clock())
        running = {"running_tasks": counts["running_tasks"], "queued_tasks": 0}
        return _good({"total_tasks": counts["total_tasks"], **running})

    def _rows(self, query: _Query) -> Sequence[PublishedRow]:
        rows = self.faults.shown(self.played.rows_at(self.clock()))
        node, task = query.get("node_address"), query.get("task_id_commitment")
        return [row for row in rows if node in {None, row.node} and task in {None, row.task}]


_NODE_PATH = "/v1/node/"
_PATHS: Mapping[str, Callable[[StandInRelay, _Query], RelayAnswer]] = {
    "/v1/events": StandInRelay.events,
    "/v1/events/current_id": StandInRelay.current_id,
    "/v1/now": StandInRelay.now,
    "/v1/stats/node_events": StandInRelay.node_events,
    "/v1/network/nodes/number": StandInRelay.node_number,
    "/v1/network/tasks/number": StandInRelay.task_number,
    "/v2/network/nodes/data": StandInRelay.nodes,
}


class _InvalidError(ValueError):
    def __init__(self, field_name: str) -> None:
        super().__init__(field_name)
        self.field = field_name


def _number(query: _Query, name: str, default: int) -> int:
    try:
        return int(query.get(name, default))
    except ValueError:
        raise _InvalidError(name) from None


def _good(answer: Any) -> RelayAnswer:  # noqa: ANN401 - whatever JSON has
    return _said(200, {"message": "success", "data": answer})


def _said(status: int, body: Mapping[str, Any]) -> RelayAnswer:
    return RelayAnswer(status, json.dumps(body).encode())


@contextmanager
def serving_relay(relay: StandInRelay, *, port: int = 0) -> Iterator[str]:
    """Serve the relay on a local port, by default any free one, and yield its URL."""
    server = ThreadingHTTPServer((_HOST, port), _handler(relay))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="relay")
    thread.start()
    try:
        yield f"http://{_HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(relay: StandInRelay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = relay.answer(self.path)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(answer.body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """A test's output is its own."""

    return Handler
