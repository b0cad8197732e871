"""Responses of another reporter are never trusted, and the wait for them is bounded."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from oracle.domain.ids import Address, Hash
from oracle.errors import InputError
from oracle.quorum.peer_client import Peer, PeerClients
from oracle.quorum.wire_format import (
    Board,
    ReportMessage,
    decode_statements,
    encode_statements,
    is_genuine_message,
)
from oracle.signing.local import KeySigner
from oracle.signing.typed_data import Domain, ReportStatement
from oracle.telemetry.metrics import REGISTRY
from tests.support.examples import examples

SIGNER = KeySigner(b"\x01" * 32)
DOMAIN = Domain(31337, Address("0x" + 40 * "a"))
HASH = Hash("0x" + 64 * "b")
Answer = tuple[int, bytes, dict[str, str]]
# Longer than a busy machine takes to respond.
SECONDS = 60.0


@cache
def signed_report() -> ReportMessage:
    statement = ReportStatement(HASH, 7, HASH, 9, HASH, 600, HASH)
    return ReportMessage(
        chain_id=DOMAIN.chain_id,
        contract=DOMAIN.contract,
        config=HASH,
        round=7,
        prev=HASH,
        as_of=9,
        as_of_hash=HASH,
        deadline=600,
        root=HASH,
        period=0,
        digest=statement.compute_digest(DOMAIN),
        signer=SIGNER.address,
        signature="0x" + SIGNER.sign_statement(statement, DOMAIN).hex(),
    )


@contextmanager
def serve_answers(answer: Callable[[str], Answer]) -> Iterator[str]:
    """Run a real HTTP server that answers each path with `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, headers = answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: object) -> None:
            """Drop the access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def read_peer_metric(peer: Peer, result: str) -> float:
    name = "oracle_quorum_peer_responses_total"
    return REGISTRY.get_sample_value(name, {"host": peer.name, "result": result}) or 0.0


def test_statement_survives_encoding_and_decoding():
    report = signed_report()
    assert decode_statements(encode_statements([report])) == [report]
    assert is_genuine_message(report)


FIELDS = ["chain_id", "round", "as_of", "deadline"]


@examples(10)
@given(st.sampled_from(FIELDS), st.integers(0, 2**16 - 1))
def test_statement_with_a_tampered_field_is_not_authentic(name: str, value: int):
    report = signed_report()
    changed = _with(report, name, value)

    assert is_genuine_message(changed) is (getattr(report, name) == value)


def _with(report: ReportMessage, name: str, value: int) -> ReportMessage:
    fields = {field: getattr(report, field) for field in report.__struct_fields__}
    return ReportMessage(**(fields | {name: value}))


@pytest.mark.parametrize(
    ("status", "body", "result"),
    [
        (404, b"{}", "good"),
        (302, b"", "bad"),
        (500, b"{}", "bad"),
        (200, b"<html>", "bad"),
        (200, b'{"statements":[]}', "bad"),
        (200, encode_statements([signed_report()]).replace(b'"round":7', b'"round":-7'), "bad"),
        (
            200,
            encode_statements([signed_report()]).replace(b'"period"', b'"extra":1,"period"'),
            "bad",
        ),
        (200, encode_statements([signed_report()] * 8)[:-1] + b" " * 70_000 + b"}", "bad"),
        (200, encode_statements([signed_report()]).replace(b'"round":7', b'"round":8'), "forged"),
    ],
)
def test_malformed_peer_response_is_counted_and_ignored(status: int, body: bytes, result: str):
    with serve_answers(lambda _: (status, body, {"Location": "http://127.0.0.1:1/"})) as url:
        peer = Peer(url, SECONDS)
        before = read_peer_metric(peer, result)

        assert peer.fetch_statements(7) == []
        assert read_peer_metric(peer, result) == before + 1
        peer.close()


def test_path_and_token_of_peer_url_are_kept_and_never_shown():
    requested_paths: list[str] = []

    def answer(path: str) -> Answer:
        requested_paths.append(path)
        return 200, encode_statements([signed_report()]), {}

    with serve_answers(answer) as url:
        peer = Peer(f"{url}/secret-path?token=secret-token", SECONDS)
        assert peer.fetch_statements(7) == [signed_report()]
        peer.close()
    assert requested_paths == ["/secret-path/v1/report/7?token=secret-token"]
    assert "secret" not in f"{peer!r} {peer.name}"


def test_unreachable_peer_does_not_block_other_peers():
    with serve_answers(lambda _: (200, encode_statements([signed_report()]), {})) as url:
        gone = Peer("http://127.0.0.1:9", 0.5)
        before = read_peer_metric(gone, "none")
        peers = PeerClients([gone, Peer(url, SECONDS)], 0.0, SECONDS)

        assert [statement for _, statement in peers.fetch_statements(7)] == [signed_report()]
        assert read_peer_metric(gone, "none") == before + 1
        peers.close()


def test_peers_are_not_polled_before_the_interval_elapses():
    requested_paths: list[str] = []
    now = [0.0]

    def answer(path: str) -> Answer:
        requested_paths.append(path)
        return 404, b"", {}

    with serve_answers(answer) as url:
        peers = PeerClients([Peer(url, SECONDS)], 2.0, SECONDS, clock=lambda: now[0])
        for now[0] in (0.0, 1.9, 2.0):
            peers.fetch_statements(7)
        peers.close()
    assert len(requested_paths) == 2


def test_invalid_peer_url_raises_input_error():
    with pytest.raises(InputError, match=r"\[reporters\] peers"):
        PeerClients.from_urls(["ftp://x"], 1.0, 1.0)


def test_statement_board_drops_the_oldest_statements_first():
    board = Board()
    for round_number in range(300):
        board.publish(_with(signed_report(), "round", round_number))
    assert board.get_statements(0) == []
    assert board.get_statements(299) == [_with(signed_report(), "round", 299)]


@contextmanager
def serve_slow_header() -> Iterator[str]:
    """Run a server that sends its header byte by byte, and never ends it."""
    until = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            # The client closes the connection after its timeout.
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not until.wait(0.05):
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        until.set()
        thread.join(5)


def test_slow_peer_does_not_block_other_peers():
    with (
        serve_answers(lambda _: (200, encode_statements([signed_report()]), {})) as url,
        serve_slow_header() as slow,
    ):
        late = Peer(slow, 0.3)
        prompt_peer = Peer(url, SECONDS)
        assert PeerClients([late], 0.0, 0.3).fetch_statements(7) == []
        peers = PeerClients([late, prompt_peer], 0.0, SECONDS)
        started_at = time.monotonic()
        statements = [statement for _ in range(20) for _, statement in peers.fetch_statements(7)]
        took = time.monotonic() - started_at
    assert statements == 20 * [signed_report()]
    # If it were requested once more.
    assert took < SECONDS
    peers.close()


def test_silent_peer_is_not_polled_during_backoff(monkeypatch: pytest.MonkeyPatch):
    # A minute, not the second for which a busy machine may not respond.
    monkeypatch.setattr("oracle.quorum.peer_client._BACKOFF_FACTOR", 600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        peer = Peer(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.1)
        first = peer.start_fetch(7)
        assert first is not None
        assert first.result(SECONDS) == []
        assert peer.start_fetch(7) is None
        peer.close()


def test_statements_of_a_round_are_refetched_only_twice():
    request_times: list[float] = []
    now = [0.0]

    def answer(_: str) -> Answer:
        request_times.append(now[0])
        return 404, b"", {}

    with serve_answers(answer) as url:
        peers = PeerClients([Peer(url, SECONDS)], 2.0, SECONDS, clock=lambda: now[0])
        for second in range(500):
            now[0] = float(second)
            peers.refetch_statements(7)
        peers.close()
    assert request_times == [20.0, 80.0]
