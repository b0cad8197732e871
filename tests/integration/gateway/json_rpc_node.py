"""A node that answers JSON-RPC over HTTP with its chain and its height, or with errors."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from typing_extensions import override


class RpcNode(ThreadingHTTPServer):
    """A node. `raw`: the response to every request; None: chain and height."""

    daemon_threads = True

    def __init__(self, chain_id: int = 1, height: int = 100, raw: bytes | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.chain_id = chain_id
        self.height = height
        self.raw = raw
        self.received_requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RpcNode

    def do_POST(self) -> None:  # http.server's name
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received_requests.append(request["method"])
        result_by_method = {
            "eth_chainId": self.server.chain_id,
            "eth_blockNumber": self.server.height,
        }
        answer = {
            "jsonrpc": "2.0",
            "id": request["id"],
            "result": hex(result_by_method[request["method"]]),
        }
        body = self.server.raw if self.server.raw is not None else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: object) -> None:  # http.server's name
        """Drop the access log."""


@contextmanager
def answering(*nodes: RpcNode) -> Iterator[None]:
    """Run these nodes within the context."""
    threads = [
        Thread(target=node.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        for node in nodes
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for node in nodes:
            node.shutdown()
            node.server_close()
