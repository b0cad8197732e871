"""Serves a chain in memory over HTTP, as an endpoint does, with the faults that a test wants."""

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
    """A whole HTTP answer, for what is wrong below JSON-RPC."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    # More than the body: the connection ends in the middle.
    promised: int | None = None


Request = dict[str, Any]
# Looks at a request first; None lets it pass, RpcError is answered, Http stands for all of it.
Fault = Callable[[Request], Http | None]


@dataclass
class Served:
    """An endpoint: its address, the chain that it shows, and how it misbehaves."""

    url: str
    chain: MemoryChain
    faults: list[Fault] = field(default_factory=list)
    # What was asked: (method, params), a batch as its parts.
    asked: list[tuple[str, Any]] = field(default_factory=list)
    most_in_batch: int = 1_000

    def count(self, method: str) -> int:
        return sum(method == requested_method for requested_method, _ in self.asked)

    def post(self, body: bytes) -> Http:
        request = msgspec.json.decode(body)
        if isinstance(request, list) and len(request) > self.most_in_batch:
            return Http(body=_failed(None, MemoryRpcError(-32600, "batch too large")))
        parts = request if isinstance(request, list) else [request]
        answers = []
        for part in parts:
            self.asked.append((part["method"], part["params"]))
            answer = self._one(part)
            if isinstance(answer, Http):
                return answer
            answers.append(answer)
        return Http(body=b"[" + b",".join(answers) + b"]" if request is parts else answers[0])

    def _one(self, request: Request) -> bytes | Http:
        try:
            for fault in self.faults:
                answer = fault(request)
                if answer is not None:
                    return answer
            result = self.chain.answer(request["method"], request["params"])
        except MemoryRpcError as error:
            return _failed(request["id"], error)
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (request["id"], result)


def _failed(number: int | None, error: MemoryRpcError) -> bytes:
    fault = {"code": error.code, "message": error.message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": fault})


class _Door(BaseHTTPRequestHandler):
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
        """Tests say what they have to say by themselves."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    served: Served


@contextmanager
def serving(chain: MemoryChain, port: int = 0) -> Iterator[Served]:
    """Serve the chain on a port of this machine, by default any free one, until the block ends."""
    with _Server(("127.0.0.1", port), _Door) as server:
        server.served = Served(f"http://127.0.0.1:{server.server_address[1]}", chain)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.served
        finally:
            server.shutdown()
            thread.join()
