"""A proxy of Anvil that applies rules to each JSON-RPC request over HTTP.

The proxy records every request, so that a test can count the sends and compare their bytes.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import requests
from typing_extensions import override

from tests.support.sending.faults import Answer, Fault, Question, Reply

SEND = "eth_sendRawTransaction"
EVERY = "*"
_JSON = {"Content-Type": "application/json"}
_SECONDS = 120


@dataclass
class Rule:
    """A fault for a method: `skip` requests pass, then `times` are affected (None: all)."""

    method: str
    fault: Fault
    times: int | None
    skip: int
    when: Callable[[Question], bool] | None = None
    hit: int = 0

    def takes(self, request: Question) -> bool:
        """Return whether the fault applies to this request, and count it if so."""
        if self.method not in {EVERY, request["method"]}:
            return False
        if self.when is not None and not self.when(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hit >= self.times:
            return False
        self.hit += 1
        return True


class Proxy:
    """One endpoint, whose rules are checked in order; the first that matches applies.

    `received_requests` are in the order of arrival. Requests are forwarded to the URL `behind`,
    which a test may change.
    """

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.url = ""
        self.received_requests: list[Question] = []
        self._rules: list[Rule] = []
        self._lock = Lock()
        self._session = requests.Session()

    # --- for tests ---

    def rule(
        self,
        method: str,
        fault: Fault,
        *,
        times: int | None = None,
        skip: int = 0,
        when: Callable[[Question], bool] | None = None,
    ) -> Rule:
        """Add a fault for requests of a method (`EVERY`: of all methods)."""
        rule = Rule(method, fault, times, skip, when)
        with self._lock:
            self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """Remove all rules, and release all held requests."""
        with self._lock:
            rules, self._rules = self._rules, []
        for rule in rules:
            for gate in (rule.fault.before, rule.fault.after):
                if gate is not None:
                    gate.release()

    def forget(self) -> None:
        """Reset the recorded requests."""
        with self._lock:
            self.received_requests = []

    def count(self, method: str) -> int:
        """Return the number of requests of a method."""
        return sum(request["method"] == method for request in self.received_requests)

    @property
    def sent(self) -> list[str]:
        """Return the bytes of every send that reached the proxy, 0x-prefixed, in order."""
        return [
            request["params"][0] for request in self.received_requests if request["method"] == SEND
        ]

    # --- for the server ---

    def reply(self, body: bytes) -> Reply:
        """Answer one HTTP request."""
        payload = json.loads(body)
        requests: list[Question] = payload if isinstance(payload, list) else [payload]
        with self._lock:
            self.received_requests += requests
            faults = [self._fault_of(request) for request in requests]
        for fault in faults:
            if fault.before is not None:
                fault.before.wait()
        answers = self._answers(requests, faults, is_batch=isinstance(payload, list))
        for fault in faults:
            if fault.after is not None:
                fault.after.wait()
        encoded = json.dumps(answers if isinstance(payload, list) else answers[0]).encode()
        wire = next((fault.wire for fault in faults if fault.wire is not None), None)
        return Reply(encoded) if wire is None else wire(encoded)

    def close(self) -> None:
        """Close the connections to the chain."""
        self.heal()
        self._session.close()

    def _fault_of(self, request: Question) -> Fault:
        matching_rule = next((rule for rule in self._rules if rule.takes(request)), None)
        return Fault() if matching_rule is None else matching_rule.fault

    def _answers(
        self, requests: list[Question], faults: list[Fault], *, is_batch: bool
    ) -> list[Answer]:
        passed_on = [
            fault.ask(request) if fault.ask is not None else request
            for request, fault in zip(requests, faults, strict=True)
            if fault.forwards
        ]
        response_by_id = {
            response.get("id"): response
            for response in self._from_chain(passed_on, is_batch=is_batch)
        }
        answers = [response_by_id.get(request.get("id"), {}) for request in requests]
        return [
            answer if fault.answer is None else fault.answer(request, answer)
            for request, fault, answer in zip(requests, faults, answers, strict=True)
        ]

    def _from_chain(self, questions: list[Question], *, is_batch: bool) -> list[Answer]:
        if not questions:
            return []
        body: Any = questions if is_batch else questions[0]
        answered = self._session.post(self.behind, json=body, timeout=_SECONDS).json()
        return answered if isinstance(answered, list) else [answered]


@contextmanager
def run_proxy(behind: str) -> Iterator[Proxy]:
    """Run a proxy on a free port in front of an endpoint."""
    new_proxy = Proxy(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; without this, the second waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            reply = new_proxy.reply(self.rfile.read(int(self.headers["Content-Length"])))
            if reply.body is None:
                self._hang_up()
                return
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            for name, value in reply.headers:
                self.send_header(name, value)
            length = len(reply.body) if reply.length is None else reply.length
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(reply.body)
            if reply.length is not None:
                self._hang_up()

        def _hang_up(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.close()

        @override
        def log_message(self, *args: object) -> None:
            """Drop the access log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        new_proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield new_proxy
        finally:
            new_proxy.close()
            server.shutdown()
            thread.join()
