"""Faults below and around JSON-RPC: HTTP statuses, bodies, connections, batches, and delays."""

import gzip
from collections.abc import Callable, Sequence
from itertools import count
from threading import Event, local
from typing import Any, Unpack

import msgspec

from devnet.fakechain.fault import FaultLimits, InjectedFault
from devnet.fakechain.requests import FakeRequest, FakeRpcError, Http
from devnet.fakechain.virtual_clock import VirtualClock

# A gate that is never opened must not block a test forever.
_PATIENCE_SECONDS = 60.0
_GZIP_HEAD = 10
_PAGE = b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


def instead(name: str, answer: Http, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: this HTTP response replaces any other; the call may have been executed."""
    return InjectedFault(name, lambda _asked, _answer: answer, limits=limits)


# --- statuses ---


def status(code: int, body: bytes = b"", **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: every response has this HTTP status."""
    return instead(f"HTTP {code}", Http(code, body, {"Content-Type": "text/plain"}), **limits)


def throttled(
    retry_after: int | str | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault: HTTP 429, with an optional Retry-After.

    `retry_after` is in seconds, or an HTTP-date; the Date header of the response is then `NOW`.
    """
    headers = {} if retry_after is None else {"Retry-After": str(retry_after), "Date": NOW}
    return instead("HTTP 429", Http(429, b"slow down", headers), **limits)


NOW, IN_NINETY_SECONDS = "Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:01:30 GMT"


def throttled_in_200(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: HTTP 200 with an error 429 in the body."""
    body = msgspec.json.encode({"error": {"code": 429, "message": "Too Many Requests"}})
    return instead("429 in 200", Http(200, body), **limits)


def throttle_text_in_200(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: HTTP 200 with a plain text about rate limits."""
    said = Http(200, b"rate limit exceeded", {"Content-Type": "text/plain"})
    return instead("throttled, as text", said, **limits)


# --- bodies ---


def web_page(code: int = 200, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the response is an HTML page."""
    return instead("HTML", Http(code, _PAGE, {"Content-Type": "text/html"}), **limits)


def empty_body(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: HTTP 200 with an empty body."""
    return instead("no body", Http(200, b""), **limits)


def spoiled_body(
    name: str, change: Callable[[bytes], Http], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that changes the bytes of the honest response."""
    return InjectedFault(name, change_body=change, limits=limits)


def cut_off(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends half of the body and then closes the connection."""
    return spoiled_body(
        "cut off", lambda body: Http(body=body[: len(body) // 2], promised=len(body)), **limits
    )


def reset(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends half of the body and then resets the connection."""
    return spoiled_body(
        "reset",
        lambda body: Http(body=body[: len(body) // 2], promised=len(body), is_reset=True),
        **limits,
    )


def truncated(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends half of the JSON as if it were complete."""
    return spoiled_body("half a JSON", lambda body: Http(body=body[: len(body) // 2]), **limits)


def broken_gzip(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends a gzip stream that cannot be decompressed."""

    def changed(body: bytes) -> Http:
        packed = gzip.compress(body)
        # No deflate block begins with these bits.
        spoiled = packed[:_GZIP_HEAD] + b"\xff" * (len(packed) - _GZIP_HEAD)
        return Http(body=spoiled, headers={"Content-Encoding": "gzip"})

    return spoiled_body("broken gzip", changed, **limits)


def misdirected(connections: int = 1, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the first so many connections are out of step.

    They answer the previous request, or one of another client. Each connection is one thread of
    the server.
    """
    here, numbers = local(), count()

    def changed(body: bytes) -> Http:
        if not hasattr(here, "before"):
            here.before = _ELSEWHERE if next(numbers) < connections else None
        if here.before is None:
            return Http(body=body)
        before, here.before = here.before, body
        return Http(body=before)

    return spoiled_body("out of step", changed, **limits)


# The response to a request that was never sent.
_ELSEWHERE = b'{"jsonrpc":"2.0","id":987654321,"result":"0x5"}'


# --- batches ---


def shuffled_batch(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that reverses the order of a batch."""
    return InjectedFault("batch shuffled", change_batch=lambda _a, sent: sent[::-1], limits=limits)


def batch_without(nth: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that leaves one response out of a batch."""
    return InjectedFault(
        "batch with a hole",
        change_batch=lambda _a, sent: sent[:nth] + sent[nth + 1 :],
        limits=limits,
    )


def batch_with_error(nth: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that lets one call of a batch fail."""

    def changed(_asked: Sequence[FakeRequest], sent: list[dict[str, Any]]) -> object:
        error = FakeRpcError(-32603, "internal error").written()
        failed = {"jsonrpc": "2.0", "id": sent[nth]["id"], "error": error}
        return [*sent[:nth], failed, *sent[nth + 1 :]]

    return InjectedFault("an error in a batch", change_batch=changed, limits=limits)


def refused_batch(most: int = 1, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that rejects batches of more than so many calls as a whole (-32007)."""

    def changed(_asked: Sequence[FakeRequest], sent: list[dict[str, Any]]) -> object:
        if len(sent) <= most:
            return sent
        error = FakeRpcError(-32007, f"batch of more than {most} is not allowed").written()
        return {"jsonrpc": "2.0", "id": None, "error": error}

    return InjectedFault("batch refused", change_batch=changed, limits=limits)


def refused_by_status(name: str, body: bytes, code: int = 400, most: int = 1) -> InjectedFault:
    """Return a fault that rejects larger batches by an HTTP status, with any body."""

    def changed(_asked: Sequence[FakeRequest], sent: list[dict[str, Any]]) -> object:
        return sent if len(sent) <= most else Http(code, body)

    return InjectedFault(name, change_batch=changed)


# --- time ---


def held(gate: Event, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that executes the call, and holds the response until the gate opens."""

    def changed(_asked: FakeRequest, answer: object) -> object:
        gate.wait(_PATIENCE_SECONDS)
        return answer

    return InjectedFault("held back", changed, limits=limits, is_deed=True)


def slow(clock: VirtualClock, seconds: float, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that takes so many seconds of a virtual clock per call."""

    def changed(_asked: FakeRequest, answer: object) -> object:
        clock.pass_by(seconds)
        return answer

    return InjectedFault(f"{seconds} s slow", changed, limits=limits, is_deed=True)


def then(happens: Callable[[FakeRequest], object], **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that runs a callback after the result is computed, such as a reorg."""

    def changed(asked: FakeRequest, answer: object) -> object:
        happens(asked)
        return answer

    return InjectedFault("something happens", changed, limits=limits, is_deed=True)
