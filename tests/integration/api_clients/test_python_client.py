"""The Python client over HTTP: pages, cached responses, errors, retries and events."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from qos_oracle_client import ApiError, Client
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address

Scripted = tuple[int, dict[str, str], bytes]
OK: Scripted = (200, {"content-type": "application/json"}, b'{"nodes": [], "next": null}')
BUSY: Scripted = (503, {"retry-after": "7"}, b'{"detail": "busy"}')
LIMITED: Scripted = (429, {}, b'{"error": "too many requests"}')


class ScriptedServer(HTTPServer):
    """A server that sends the responses of a script, one after the other."""

    def __init__(self, *script: Scripted) -> None:
        super().__init__(("127.0.0.1", 0), Script)
        self.script = [*script]


class Script(BaseHTTPRequestHandler):
    """Sends the next response of the server's script."""

    server: ScriptedServer

    def do_GET(self) -> None:
        status, headers, body = self.server.script.pop(0)
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serve_script(*script: Scripted) -> Iterator[ScriptedServer]:
    with ScriptedServer(*script) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def client_of(server: ScriptedServer, waits: list[float]) -> Client:
    return Client(f"http://127.0.0.1:{server.server_port}", sleep=waits.append)


def test_every_operation_without_path_values_returns_declared_fields(url: str):
    client = Client(url)
    names = ("network", "nodes", "rounds", "incidents", "kickouts", "objections", "draws", "rules")
    for call in (getattr(client, name) for name in (*names, "status")):
        declared = call.__annotations__["return"].__annotations__
        assert set(call()) == set(declared)


def test_paginated_nodes_are_concatenated_in_order(url: str):
    client = Client(url)
    assert [*client.iter_nodes(limit=1, sort="-qos")] == client.nodes(sort="-qos")["nodes"]


def test_select_posts_task_and_returns_chances(url: str):
    chances = {row["node"]: row["chance"] for row in Client(url).select({"size": 1})["nodes"]}
    assert chances[make_node_address("A")] is not None


def test_unchanged_response_is_not_downloaded_again(
    url: str, indexed: IndexedHistory, history: History
):
    client = Client(url)
    first = client.node(make_node_address("A"))
    assert client.node(make_node_address("A")) is first
    done = len(history.events)
    indexed.index(history.scores("A", 0).events[done:], history.block, history.time)
    second = client.node(make_node_address("A"))
    assert second["row"]["scores_in_pool"] == first["row"]["scores_in_pool"] + 1


@pytest.mark.parametrize(
    ("node_text", "status", "found"),
    [("0x" + 40 * "9", 404, 0), ("0x00", 300, 3)],
)
def test_api_error_is_raised_with_status_and_reason(url, node_text, status, found):
    with pytest.raises(ApiError) as caught:
        Client(url).node(node_text)
    assert caught.value.status == status
    assert len(caught.value.found) >= found
    assert str(status) in str(caught.value)


def test_request_is_retried_after_the_retry_after_delay():
    waits: list[float] = []
    with serve_script(BUSY, LIMITED, OK) as server:
        assert client_of(server, waits).nodes()["next"] is None
    assert waits == [7, 2]


@pytest.mark.parametrize(
    ("script", "status", "waits"),
    [
        ([LIMITED] * 4, 429, [1, 2, 4]),
        ([(503, {"retry-after": "3600"}, b"")], 503, []),
        ([(500, {}, b"<html>")], 500, []),
        ([(200, {"content-type": "application/json"}, b"{")], 200, []),
        ([(200, {"content-length": "99"}, b"{}")], 0, []),
    ],
)
def test_every_failure_raises_client_error(script, status, waits):
    waited: list[float] = []
    with serve_script(*script) as server, pytest.raises(ApiError) as caught:
        client_of(server, waited).nodes()
    assert (caught.value.status, waited, server.script) == (status, waits, [])


def test_unreachable_server_raises_error_without_status():
    with serve_script() as server:
        port = server.server_port
    with pytest.raises(ApiError, match="no response") as caught:
        Client(f"http://127.0.0.1:{port}").status()
    assert caught.value.status == 0


def test_server_address_without_http_is_rejected():
    with pytest.raises(ValueError, match="expected an address that starts with http"):
        Client("file:///etc/passwd")


def test_event_stream_resumes_after_the_server_closes_it(
    url: str, indexed: IndexedHistory, history: History
):
    """The server ends each stream after a second; no event is lost or sent twice."""

    def index_timeout(_seconds: float) -> None:
        done = len(history.events)
        history.after(30).starts("late", "B").after(9).times_out("late")
        indexed.index(history.events[done:], history.block, history.time)

    ids = set()
    kinds = []
    for event_id, event in Client(url, sleep=index_timeout).events(after="0-0-0-0"):
        assert event_id not in ids
        ids.add(event_id)
        kinds.append(event["kind"])
        if event["kind"] == "timed_out":
            break
    assert (kinds[0], kinds[-1]) == ("joined", "timed_out")
