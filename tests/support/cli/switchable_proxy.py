"""A proxy of an endpoint that forwards all requests until a test sets another mood."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import requests
from typing_extensions import override

_JSON = {"Content-Type": "application/json"}


class EndpointMode(Enum):
    GOOD = "passes everything on"
    SILENT = "takes the request and never answers"
    AWAY = "answers 503"


class SwitchableProxy:
    """The proxy; the first request in the current mood sets `request_seen`."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.url = ""
        self.request_seen = Event()
        self.over = Event()
        self._mood = EndpointMode.GOOD

    @property
    def mood(self) -> EndpointMode:
        return self._mood

    @mood.setter
    def mood(self, mood: EndpointMode) -> None:
        self.request_seen.clear()
        self._mood = mood


@contextmanager
def run_switchable_proxy(behind: str) -> Iterator[SwitchableProxy]:
    """Run a proxy on a free port in front of the endpoint `behind`."""
    endpoint = SwitchableProxy(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; without this, the second waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            mood = endpoint.mood
            body = self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.request_seen.set()
            if mood is EndpointMode.SILENT:
                endpoint.over.wait()
                self.close_connection = True
                return
            if mood is EndpointMode.AWAY:
                self._say(503, b"")
                return
            answer = requests.post(
                endpoint.behind,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=120,
            )
            self._say(200, answer.content)

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Drop the access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield endpoint
        finally:
            endpoint.over.set()
            server.shutdown()
