"""A proxy of an endpoint that omits one log: the first GroupValidated."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import requests
from typing_extensions import override

from oracle.chain.decode.abi import load_abi


@contextmanager
def hide_first_group_validated(behind: str, hidden: list[str]) -> Iterator[str]:
    """Yield the URL of a proxy that hides the first GroupValidated log of the chain.

    `hidden`: the log's transaction, once it was omitted.
    """
    topic = load_abi("TaskNetwork").get_event("GroupValidated").digest

    def is_hidden(log: Any) -> bool:
        if log["topics"][0] != topic:
            return False
        if not hidden:
            hidden.append(log["transactionHash"])
        return bool(log["transactionHash"] == hidden[0])

    def without(answer: dict[str, Any]) -> dict[str, Any]:
        result = answer.get("result")
        if isinstance(result, list) and result and "topics" in result[0]:
            return {**answer, "result": [log for log in result if not is_hidden(log)]}
        return answer

    class Lossy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes: the second would wait for the first to be confirmed.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request_body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {"Content-Type": "application/json"}
            upstream_response = requests.post(
                behind, data=request_body, headers=headers, timeout=120
            ).json()
            filtered_response = (
                [without(answer) for answer in upstream_response]
                if isinstance(upstream_response, list)
                else without(upstream_response)
            )
            body = json.dumps(filtered_response).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Drop the access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Lossy)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
