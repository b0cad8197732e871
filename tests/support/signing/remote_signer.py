"""A remote signer for tests: JSON-RPC over HTTP(S), with a policy and faults.

It signs with eth_account, independently of the transaction encoding of our own signers.
"""

import json
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

from eth_account import Account
from eth_account.messages import encode_typed_data
from typing_extensions import override

from oracle.domain.ids import Address
from oracle.signing.key_locations import RemoteKey
from tests.support.leaks import learn

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECONDS = 60

Fields = dict[str, Any]
# Status, headers, body.
Reply = tuple[int, dict[str, str], bytes]


class RefusedByPolicyError(Exception):
    """The signer's policy forbids the request."""


@dataclass(frozen=True)
class Policy:
    """The example in docs/explanation/security.md: the transmitter's calls, nothing else."""

    chain_id: int
    to: str
    selectors: frozenset[str]
    most_fee: int = 10**12

    def check(self, tx_fields: Fields) -> None:
        if int(tx_fields["chainId"], 16) != self.chain_id:
            raise RefusedByPolicyError("another chain")
        if tx_fields.get("to", "").lower() != self.to.lower():
            raise RefusedByPolicyError("another contract")
        if tx_fields["data"][:10] not in self.selectors:
            raise RefusedByPolicyError("another function")
        if int(tx_fields["value"], 16) != 0:
            raise RefusedByPolicyError("ether is attached")
        if int(tx_fields["maxFeePerGas"], 16) > self.most_fee:
            raise RefusedByPolicyError("fee too high")


class Wrong(NamedTuple):
    """Faults of the request, of the key, or of the response."""

    fields: Callable[[Fields], Fields] = lambda fields: fields
    key: str | None = None
    result: Callable[[Any], Any] = lambda result: result


@dataclass
class RemoteHost:
    """A host with one key; `received_requests` are (method, parameters), oldest first."""

    key: str = field(default_factory=lambda: "0x" + secrets.token_hex(32), repr=False)
    policy: Policy | None = None
    token: str | None = field(default=None, repr=False)
    wrong: Wrong = field(default_factory=Wrong)
    # Delays the response until it is set.
    gate: Event | None = None
    # Sent over HTTP instead of a response.
    instead: Reply | None = None
    received_requests: list[tuple[str, list[Any]]] = field(default_factory=list)
    # Set by the first request.
    reached: Event = field(default_factory=Event)
    seen_headers: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self) -> None:
        learn(bytes.fromhex(self.key.removeprefix("0x")), "a key of a remote signer")
        if self.token is not None:
            learn(self.token, "a token of a remote signer")

    @property
    def address(self) -> Address:
        return Address(Account.from_key(self.key).address.lower())

    def place(self, **wire: Any) -> RemoteKey:
        return RemoteKey(self.url, self.address, **{"timeout_seconds": 60.0, **wire})

    def answer(self, body: bytes) -> Reply:
        request = json.loads(body)
        self.received_requests.append((request["method"], request["params"]))
        self.reached.set()
        if self.gate is not None:
            self.gate.wait(SECONDS)
        if self.instead is not None:
            return self.instead
        response: Fields = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            response["result"] = self.wrong.result(
                self._signed(request["method"], request["params"])
            )
        except RefusedByPolicyError as refusal:
            response["error"] = {"code": -32_000, "message": str(refusal)}
        return 200, {"Content-Type": "application/json"}, json.dumps(response).encode()

    def _signed(self, method: str, params: list[Any]) -> str:
        account = Account.from_key(self.wrong.key or self.key)
        if method == "eth_signTransaction":
            if self.policy is not None:
                self.policy.check(params[0])
            tx_fields = self.wrong.fields({**params[0]})
            if tx_fields.pop("from").lower() != self.address:
                raise RefusedByPolicyError("no such account")
            if "to" in tx_fields:
                tx_fields["to"] = bytes.fromhex(tx_fields["to"][2:])
            return "0x" + bytes(account.sign_transaction(tx_fields).raw_transaction).hex()
        typed_data = json.loads(params[1])
        signed = account.sign_message(
            encode_typed_data(full_message=self.wrong.fields(typed_data))
        )
        return "0x" + bytes(signed.signature).hex()


@contextmanager
def serve_host(host: RemoteHost, tls: ssl.SSLContext | None = None) -> Iterator[RemoteHost]:
    """Serve the host on a free port; with `tls`, clients need a certificate."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; without this, the second waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            host.seen_headers = dict(self.headers)
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if host.token is not None and host.seen_headers.get("Authorization") != (
                f"Bearer {host.token}"
            ):
                answer: Reply = (401, {}, b"")
            else:
                answer = host.answer(body)
            status, headers, content = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @override
        def log_message(self, *args: object) -> None:
            """Drop the access log."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        @override
        def handle_error(self, *args: object) -> None:
            """Ignore clients that disconnect because they no longer wait."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        scheme = "http" if tls is None else "https"
        host.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        try:
            yield host
        finally:
            if host.gate is not None:
                host.gate.set()
            server.shutdown()
            thread.join()


def flip_signature_s(raw: str) -> str:
    """Return the other valid form of the same signature, with a high s."""
    r = raw[2:66]
    s = int(raw[66:130], 16)
    v = int(raw[130:], 16)
    return f"0x{r}{ORDER - s:064x}{55 - v:02x}"
