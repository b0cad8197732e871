"""A proxy of Anvil with faults on demand: lost responses, swallowed or rejected requests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import requests
from typing_extensions import override


class Fault(Enum):
    LOSE_ANSWER = "the endpoint takes the request, and the connection breaks"
    SWALLOW = "the connection breaks before the endpoint takes the request"


class FaultyEndpoint:
    """The proxy.

    `faults`: by method, a Fault or the message of an error. `seen`: every requested method.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.faults: dict[str, Fault | str] = {}
        self.seen: list[str] = []
        self.url = ""
        self._session = requests.Session()
        self._session.trust_env = False

    def answer(self, body: bytes) -> bytes | None:
        """Return the response, or None to send none."""
        payload = json.loads(body)
        questions = payload if isinstance(payload, list) else [payload]
        methods = [question["method"] for question in questions]
        self.seen += methods
        fault = next((self.faults[method] for method in methods if method in self.faults), None)
        if fault is Fault.SWALLOW:
            return None
        if isinstance(fault, str):
            answers: Any = [
                {
                    "jsonrpc": "2.0",
                    "id": question["id"],
                    "error": {"code": -32003, "message": fault},
                }
                for question in questions
            ]
            return json.dumps(answers if isinstance(payload, list) else answers[0]).encode()
        answered = self._session.post(self.behind, data=body, headers=_JSON, timeout=120)
        return None if fault is Fault.LOSE_ANSWER else answered.content


_JSON = {"Content-Type": "application/json"}


@contextmanager
def run_faulty_endpoint(behind: str) -> Iterator[FaultyEndpoint]:
    """Run a proxy on a free port in front of the endpoint `behind`."""
    endpoint = FaultyEndpoint(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; without this, the second waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            answer = endpoint.answer(self.rfile.read(int(self.headers["Content-Length"])))
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        @override
        def log_message(self, *args: object) -> None:
            """Drop the access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
