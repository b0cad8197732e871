"""Serves a relay's public interface from a history or record, with optional faults.

See docs/reference/crynux-relay.md#interface. Paths, parameters, responses and errors are those of
the relay in August 2026, as far as an auditor uses them. A reader must detect each fault
(docs/reference/crynux-relay.md#faults-of-the-stand-in).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from devnet.relay.published_rows import PublishedRow
from devnet.relay.relay_history import RelaySource


class RelayFault(StrEnum):
    """A fault of the stream.

    Some faults affect only the row with a given id.
    """

    # Every response is an error (`SILENT`), or every response is truncated (`CUT`).
    SILENT = "silent"
    CUT = "cut"
    # The current id no longer changes, so no newer rows are shown.
    FROZEN = "frozen"
    # The row's transaction stays open. Later rows are shown, but this row is not.
    LATE_ROW = "late_row"
    # The row is changed (`CHANGED_ROW`) or deleted (`VANISHED_ROW`) after it was committed.
    CHANGED_ROW = "changed_row"
    VANISHED_ROW = "vanished_row"
    # The relay is restored from a backup that was taken at this row. Its current id therefore goes
    # back to this row.
    WENT_BACK = "went_back"
    # All rows up to this row are deleted because of their age.
    RETENTION = "retention"
    # The `args` of the row are not valid JSON.
    BAD_ROW = "bad_row"


_HIDING_FAULTS = (RelayFault.LATE_ROW, RelayFault.VANISHED_ROW)
_CAPPING_FAULTS = (RelayFault.FROZEN, RelayFault.WENT_BACK)


class FaultSwitch:
    """Switches faults on and off.

    One thread may change them while others serve rows.
    """

    def __init__(self) -> None:
        self._row_by_fault: dict[RelayFault, int] = {}
        self._lock = Lock()

    def switch_on(self, fault: RelayFault, row_id: int = 0) -> None:
        """Switch a fault on.

        If the fault affects a single row, this is the row `row_id`.
        """
        with self._lock:
            self._row_by_fault[fault] = row_id

    def switch_off(self, fault: RelayFault) -> None:
        """Switch a fault off if it is on."""
        with self._lock:
            self._row_by_fault.pop(fault, None)

    def is_on(self, fault: RelayFault) -> bool:
        return fault in self._row_by_fault

    def apply_to_rows(self, rows: Sequence[PublishedRow]) -> list[PublishedRow]:
        """Return the rows as the faulty stream shows them, ordered by id."""
        with self._lock:
            row_by_fault = dict(self._row_by_fault)
        hidden_ids = {row_by_fault[fault] for fault in _HIDING_FAULTS if fault in row_by_fault}
        max_id = min(
            (row_by_fault[fault] for fault in _CAPPING_FAULTS if fault in row_by_fault),
            default=None,
        )
        min_id = row_by_fault.get(RelayFault.RETENTION, 0)
        changed_id = row_by_fault.get(RelayFault.CHANGED_ROW)
        return [
            _forge_row(row) if row.id == changed_id else row
            for row in rows
            if row.id not in hidden_ids
            and row.id > min_id
            and (max_id is None or row.id <= max_id)
        ]

    def encode_row(self, row: PublishedRow) -> dict[str, Any]:
        """Encode a row as JSON.

        The fault `BAD_ROW` truncates the `args` of the affected row.
        """
        row_json = row.to_json()
        if self._row_by_fault.get(RelayFault.BAD_ROW) == row.id:
            row_json["args"] = row_json["args"][:-1]
        return row_json


def _forge_row(row: PublishedRow) -> PublishedRow:
    """Copy a row with another node in it, as a forger would write it."""
    other_address = "0x" + "00" * 19 + "01"
    address_args = [
        name for name in ("selected_node", "node_address", "abort_issuer") if name in row.args
    ]
    return replace(
        row, node=other_address, args={**row.args, **dict.fromkeys(address_args, other_address)}
    )


_HOST = "127.0.0.1"
_DEFAULT_LIMIT, _MAX_PAGE_SIZE = 50, 100
_JSON, _TEXT = "application/json; charset=utf-8", "text/plain; charset=utf-8"
_Query = Mapping[str, str]


class RelayResponse(NamedTuple):
    """A complete HTTP response."""

    status: int
    body: bytes
    content_type: str = _JSON


@dataclass(slots=True)
class StandInRelay:
    """A stand-in relay.

    `clock` returns its time in seconds; rows up to this time are served.
    """

    source: RelaySource
    clock: Callable[[], float]
    faults: FaultSwitch = field(default_factory=FaultSwitch)
    # Paths of all requests, in order.
    requested_paths: list[str] = field(default_factory=list)

    def handle_get(self, target: str) -> RelayResponse:
        """Handle a GET request for a path, with or without a query string."""
        self.requested_paths.append(target)
        if self.faults.is_on(RelayFault.SILENT):
            return _build_response(500, {"message": "invalid connection"})
        url_parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(url_parts.query).items()}
        response = self._route_request(url_parts.path, query)
        if self.faults.is_on(RelayFault.CUT):
            return response._replace(body=response.body[: len(response.body) // 2])
        return response

    def _route_request(self, path: str, query: _Query) -> RelayResponse:
        path_handler = _PATHS.get(path)
        try:
            if path_handler is not None:
                return path_handler(self, query)
            if path.startswith(_NODE_PATH) and path.count("/") == _NODE_PATH.count("/"):
                node = path.removeprefix(_NODE_PATH)
                return _build_success_response(self.source.get_node(node, self.clock()))
        except _InvalidError as error:
            validation_error = {"field_name": error.field, "message": "invalid value"}
            return _build_response(400, {"message": "validation_error", "data": validation_error})
        return _build_response(404, {"message": "not found"})

    def list_events(self, query: _Query) -> RelayResponse:
        """Handle `GET /v1/events`, which returns the rows above `after_id` in order."""
        if "event_type" in query:
            # The real relay filters by a column that does not exist, so it returns this error.
            return _build_response(
                500, {"message": "Unknown column 'event_type' in 'where clause'"}
            )
        after_id = _parse_number(query, "start", 0)
        limit = _parse_number(query, "limit", _DEFAULT_LIMIT)
        rows = [row for row in self._select_rows(query) if row.id > after_id]
        return _build_success_response(
            [self.faults.encode_row(row) for row in rows[: max(limit, 0)]]
        )

    def get_current_id(self, query: _Query) -> RelayResponse:
        """Handle `GET /v1/events/current_id`, which returns the newest id.

        The id is 0 if there are no rows.
        """
        return _build_success_response(
            max((row.id for row in self._select_rows(query)), default=0)
        )

    def get_time(self, query: _Query) -> RelayResponse:
        """Handle `GET /v1/now`, which returns the relay's time in whole seconds."""
        del query
        return _build_success_response({"now": int(self.clock())})

    def list_nodes(self, query: _Query) -> RelayResponse:
        """Handle `GET /v2/network/nodes/data`, which returns current figures of all nodes."""
        page = _parse_number(query, "page", 1)
        page_size = _parse_number(query, "page_size", _MAX_PAGE_SIZE)
        if page < 1 or not 1 <= page_size <= _MAX_PAGE_SIZE:
            raise _InvalidError("page" if page < 1 else "page_size")
        all_nodes = self.source.list_nodes(self.clock())
        return _build_success_response(all_nodes[(page - 1) * page_size : page * page_size])

    def list_node_events(self, query: _Query) -> RelayResponse:
        """Handle `GET /v1/stats/node_events`, a text of recent starts and releases.

        It covers the last hour.
        """
        del query
        return RelayResponse(200, self.source.format_node_events(self.clock()).encode(), _TEXT)

    def count_nodes(self, query: _Query) -> RelayResponse:
        """Handle `GET /v1/network/nodes/number`."""
        del query
        counts = self.source.count_nodes_and_tasks(self.clock())
        busy_count = counts["running_tasks"]
        node_count = counts["all_nodes"]
        return _build_success_response(
            {"all_nodes": node_count, "busy_nodes": busy_count, "active_nodes": node_count}
        )

    def count_tasks(self, query: _Query) -> RelayResponse:
        """Handle `GET /v1/network/tasks/number`."""
        del query
        counts = self.source.count_nodes_and_tasks(self.clock())
        running_counts = {"running_tasks": counts["running_tasks"], "queued_tasks": 0}
        return _build_success_response({"total_tasks": counts["total_tasks"], **running_counts})

    def _select_rows(self, query: _Query) -> Sequence[PublishedRow]:
        rows = self.faults.apply_to_rows(self.source.list_rows(self.clock()))
        node = query.get("node_address")
        task = query.get("task_id_commitment")
        return [row for row in rows if node in {None, row.node} and task in {None, row.task}]


_NODE_PATH = "/v1/node/"
_PATHS: Mapping[str, Callable[[StandInRelay, _Query], RelayResponse]] = {
    "/v1/events": StandInRelay.list_events,
    "/v1/events/current_id": StandInRelay.get_current_id,
    "/v1/now": StandInRelay.get_time,
    "/v1/stats/node_events": StandInRelay.list_node_events,
    "/v1/network/nodes/number": StandInRelay.count_nodes,
    "/v1/network/tasks/number": StandInRelay.count_tasks,
    "/v2/network/nodes/data": StandInRelay.list_nodes,
}


class _InvalidError(ValueError):
    def __init__(self, field_name: str) -> None:
        super().__init__(field_name)
        self.field = field_name


def _parse_number(query: _Query, name: str, default: int) -> int:
    try:
        return int(query.get(name, default))
    except ValueError:
        raise _InvalidError(name) from None


def _build_success_response(payload: Any) -> RelayResponse:  # noqa: ANN401 - whatever JSON has
    return _build_response(200, {"message": "success", "data": payload})


def _build_response(status: int, body: Mapping[str, Any]) -> RelayResponse:
    return RelayResponse(status, json.dumps(body).encode())


@contextmanager
def serve_relay(relay: StandInRelay, *, port: int = 0) -> Iterator[str]:
    """Serve the relay on a local port, and yield its URL.

    By default any free port is used.
    """
    server = ThreadingHTTPServer((_HOST, port), _create_handler_class(relay))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="relay")
    thread.start()
    try:
        yield f"http://{_HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _create_handler_class(relay: StandInRelay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = relay.handle_get(self.path)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(answer.body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Write no access log, so that the output of tests stays readable."""

    return Handler
