"""Serves a chain in memory over HTTP, with the faults that a test sets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec
from typing_extensions import override

from tests.support.chain.memory_chain import MemoryChain, MemoryRpcError


@dataclass
class Http:
    """A complete HTTP response, for faults below JSON-RPC."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    # A length above the body's, so that the connection ends in the middle.
    promised: int | None = None


Request = dict[str, Any]
# Called with each request first. None lets the request pass, a raised error is returned, and an
# Http replaces the complete response.
Fault = Callable[[Request], Http | None]


@dataclass
class Served:
    """An endpoint: its URL, the chain that it shows, and its faults."""

    url: str
    chain: MemoryChain
    faults: list[Fault] = field(default_factory=list)
    # The requests so far as (method, params); a batch counts as its parts.
    received_requests: list[tuple[str, Any]] = field(default_factory=list)
    most_in_batch: int = 1_000

    def count(self, method: str) -> int:
        return sum(method == requested_method for requested_method, _ in self.received_requests)

    def post(self, body: bytes) -> Http:
        request = msgspec.json.decode(body)
        if isinstance(request, list) and len(request) > self.most_in_batch:
            return Http(body=encode_error(None, MemoryRpcError(-32600, "batch too large")))
        parts = request if isinstance(request, list) else [request]
        answers = []
        for part in parts:
            self.received_requests.append((part["method"], part["params"]))
            answer = self._answer_request(part)
            if isinstance(answer, Http):
                return answer
            answers.append(answer)
        return Http(body=b"[" + b",".join(answers) + b"]" if request is parts else answers[0])

    def _answer_request(self, request: Request) -> bytes | Http:
        try:
            for fault in self.faults:
                answer = fault(request)
                if answer is not None:
                    return answer
            result = self.chain.answer(request["method"], request["params"])
        except MemoryRpcError as error:
            return encode_error(request["id"], error)
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request["id"], result)


def encode_error(number: int | None, error: MemoryRpcError) -> bytes:
    fault = {"code": error.code, "message": error.message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": fault})


class _RpcHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "_Server"

    def do_POST(self) -> None:  # http.server's name
        answer = self.server.served.post(self.rfile.read(int(self.headers["Content-Length"])))
        size = answer.promised or len(answer.body)
        headers = {"Content-Type": "application/json", "Content-Length": size, **answer.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.wfile.write(f"HTTP/1.1 {answer.status} -\r\n{head}\r\n".encode() + answer.body)
        self.close_connection = answer.promised is not None

    @override
    def log_message(self, format: str, *args: Any) -> None:  # http.server's name
        """Drop the access log."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    served: Served


@contextmanager
def serve_memory_chain(chain: MemoryChain, port: int = 0) -> Iterator[Served]:
    """Serve the chain on a local port, by default any free one, within the context."""
    with _Server(("127.0.0.1", port), _RpcHandler) as server:
        server.served = Served(f"http://127.0.0.1:{server.server_address[1]}", chain)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.served
        finally:
            server.shutdown()
            thread.join()
