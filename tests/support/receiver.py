"""A subscriber's HTTP server: records what it receives, and responds as a test sets."""

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass
class Received:
    """One message as received."""

    headers: dict[str, str]
    body: bytes

    @property
    def decoded(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.body)
        return message


@dataclass
class Receiver:
    """The server.

    `statuses` are the next responses, followed by 200. While `gate` is clear, no response is sent.
    If `returns_challenge`, a response contains the challenge of its request.
    """

    url: str = ""
    got: list[Received] = field(default_factory=list)
    statuses: deque[int] = field(default_factory=deque)
    gate: Event = field(default_factory=Event)
    arrived: Event = field(default_factory=Event)
    returns_challenge: bool = False

    @property
    def kinds(self) -> list[str]:
        return [delivery.decoded["kind"] for delivery in self.got]

    @property
    def ids(self) -> list[str]:
        return [delivery.headers["X-QoS-Id"] for delivery in self.got]


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    """Run a server on a free port."""
    receiver = Receiver()
    receiver.gate.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(Received(dict(self.headers), body))
            receiver.arrived.set()
            receiver.gate.wait()
            status = receiver.statuses.popleft() if receiver.statuses else 200
            challenge = json.loads(body).get("challenge") if receiver.returns_challenge else None
            answer = json.dumps({"challenge": challenge}).encode() if challenge else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            if status in {301, 302, 307}:
                self.send_header("Location", receiver.url)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Drop the access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
