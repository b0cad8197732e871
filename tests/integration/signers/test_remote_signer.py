"""A remote signer is queried once and within limits, and its responses are verified."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Event, Thread

import pytest

from oracle.domain.ids import Address
from oracle.errors import InputError, TransientError
from oracle.signing.key_locations import RemoteKey
from oracle.signing.local import KeySigner
from oracle.signing.remote import RemoteSigner
from oracle.signing.signer import Fees, SignerRefusedError, TransactionRequest, WrongSignatureError
from oracle.signing.typed_data import Domain
from tests.integration.signers.test_signers import REPORT
from tests.support.signing.remote_signer import (
    Policy,
    RemoteHost,
    Wrong,
    flip_signature_s,
    serve_host,
)

pytestmark = pytest.mark.slow

DOMAIN = Domain(31337, Address("0x" + 40 * "7"))
CALL = TransactionRequest(
    31337, 7, Address("0x" + 40 * "7"), "0xabcdef01" + 64 * "2", 90_000, Fees(9, 2)
)
LOCAL = KeySigner(bytes.fromhex("01" * 32))


@pytest.fixture
def host() -> Iterator[RemoteHost]:
    with serve_host(RemoteHost(key="0x" + "01" * 32)) as opened:
        yield opened


WRONG_STATEMENTS = {
    "another key": Wrong(key="0x" + "02" * 32),
    "another statement": Wrong(
        fields=lambda answer: {**answer, "message": {**answer["message"], "deadline": 4}}
    ),
    "another contract": Wrong(
        fields=lambda answer: {
            **answer,
            "domain": {**answer["domain"], "verifyingContract": "0x" + 40 * "8"},
        }
    ),
    "high s": Wrong(result=flip_signature_s),
    "not hex": Wrong(result=lambda raw: raw + "zz"),
    "a number": Wrong(result=lambda _: 7),
    "null": Wrong(result=lambda _: None),
    "truncated": Wrong(result=lambda raw: raw[:80]),
}


@pytest.mark.parametrize("how", WRONG_STATEMENTS)
def test_wrong_statement_signature_is_rejected(host: RemoteHost, how):
    host.wrong = WRONG_STATEMENTS[how]
    with pytest.raises(WrongSignatureError):
        RemoteSigner(host.place()).sign_statement(REPORT, DOMAIN)


ANSWERS = {
    "an error page": (500, {"Content-Type": "text/html"}, b"<html>oh</html>"),
    "not JSON": (200, {}, b"hello"),
    "truncated": (200, {}, b'{"jsonrpc": "2.0", "id": 1, "resu'),
    "too deep": (200, {}, b"[" * 100_000),
    "too large": (200, {}, b" " * (2 << 20)),
    "a list": (200, {}, b"[]"),
    "another id": (200, {}, b'{"jsonrpc": "2.0", "id": 2, "result": "0x"}'),
    "no result": (200, {}, b'{"jsonrpc": "2.0", "id": 1}'),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_malformed_response_raises_a_transient_error_without_a_retry(host: RemoteHost, what):
    host.instead = ANSWERS[what]
    with pytest.raises(TransientError):
        RemoteSigner(host.place()).sign_transaction(CALL)
    assert len(host.received_requests) == 1


def test_redirect_is_not_followed(host: RemoteHost):
    with serve_host(RemoteHost(key=host.key)) as elsewhere:
        host.instead = (307, {"Location": elsewhere.url}, b"")
        with pytest.raises(TransientError, match=r"eth_signTransaction \(HTTP 307\)"):
            RemoteSigner(host.place()).sign_transaction(CALL)
        assert elsewhere.received_requests == []


def test_slow_signer_times_out_without_a_second_request(host: RemoteHost):
    host.gate = Event()
    with pytest.raises(TransientError, match="the same request is sent again"):
        RemoteSigner(host.place(timeout_seconds=0.05)).sign_transaction(CALL)
    # The request may still be on its way to a busy host.
    assert host.reached.wait(60)
    assert len(host.received_requests) == 1


def drip(listener: socket.socket, is_over: Event) -> None:
    """Send a byte now and then, each of them in time."""
    caller, _ = listener.accept()
    with caller, suppress(OSError):
        caller.recv(65_536)
        caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
        while not is_over.wait(0.02):
            caller.sendall(b" ")


def test_dripping_response_times_out(host: RemoteHost):
    is_over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=drip, args=(listener, is_over))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        place = RemoteKey(url, host.address, timeout_seconds=0.2)
        begin = time.monotonic()
        try:
            with pytest.raises(TransientError):
                RemoteSigner(place).sign_transaction(CALL)
        finally:
            is_over.set()
            thread.join()
    # Four thousand bytes would take more than a minute.
    assert time.monotonic() - begin < 60


def test_error_for_unreachable_signer_hides_its_url(host: RemoteHost):
    place = RemoteKey("http://127.0.0.1:1/token-in-the-path", host.address)
    with pytest.raises(TransientError) as failure:
        RemoteSigner(place).sign_transaction(CALL)
    assert "token-in-the-path" not in f"{failure.value} {place!r} {RemoteSigner(place)!r}"


POLICY = Policy(31337, CALL.to or "", frozenset({"0xabcdef01"}), most_fee=100)
FORBIDDEN = {
    "another chain": replace(CALL, chain_id=1),
    "another contract": replace(CALL, to=Address("0x" + 40 * "8")),
    "another function": replace(CALL, calldata="0xffffffff"),
    "fee too high": replace(CALL, fees=Fees(101, 1)),
}


@pytest.mark.parametrize("why", FORBIDDEN)
def test_refusal_by_signer_policy_is_reported_with_its_reason(host: RemoteHost, why):
    host.policy = POLICY
    remote = RemoteSigner(host.place())
    with pytest.raises(SignerRefusedError, match=why):
        remote.sign_transaction(FORBIDDEN[why])
    assert remote.sign_transaction(CALL) == LOCAL.sign_transaction(CALL)


def test_bearer_token_file_must_be_private(host: RemoteHost, tmp_path):
    host.token = "a-token-that-nobody-sees"  # noqa: S105  made for this test
    file = tmp_path / "token"
    file.write_text(host.token + "\n")
    file.chmod(0o644)
    with pytest.raises(InputError, match="other users have access to this file"):
        RemoteSigner(host.place(token_file=file))
    file.chmod(0o600)
    signer = RemoteSigner(host.place(token_file=file))
    assert signer.sign_transaction(CALL) == LOCAL.sign_transaction(CALL)
    with pytest.raises(TransientError):
        RemoteSigner(host.place()).sign_transaction(CALL)


def test_proxy_set_in_environment_is_not_used(host: RemoteHost, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert RemoteSigner(host.place()).sign_transaction(CALL) == LOCAL.sign_transaction(CALL)
