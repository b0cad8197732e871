"""Faults of HTTP statuses, bodies, connections and batches, as well as delays."""

import gzip
from collections.abc import Callable, Sequence
from itertools import count
from threading import Event, local
from typing import Any, Unpack

import msgspec

from devnet.fakechain.fault import FaultLimits, InjectedFault
from devnet.fakechain.requests import FakeRequest, FakeRpcError, HttpResponse
from devnet.fakechain.virtual_clock import VirtualClock

# Maximum seconds for which a gate holds a response. If a test never opens the gate, the test must
# not wait forever.
_MAX_HOLD_SECONDS = 60.0
_GZIP_HEADER_BYTES = 10
_HTML_PAGE = b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


def build_http_response_fault(
    name: str, response: HttpResponse, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that sends this HTTP response instead of the result.

    The call may still have been executed.
    """
    return InjectedFault(name, lambda _request, _result: response, limits=limits)


# --- statuses ---


def build_http_status_fault(
    code: int, body: bytes = b"", **limits: Unpack[FaultLimits]
) -> InjectedFault:
    return build_http_response_fault(
        f"HTTP {code}", HttpResponse(code, body, {"Content-Type": "text/plain"}), **limits
    )


def build_429_fault(
    retry_after: int | str | None = None, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that sends HTTP 429, optionally with Retry-After.

    `retry_after` is in seconds, or an HTTP-date; the Date header of the response is then `NOW`.
    """
    headers = {} if retry_after is None else {"Retry-After": str(retry_after), "Date": NOW}
    return build_http_response_fault(
        "HTTP 429", HttpResponse(429, b"slow down", headers), **limits
    )


NOW, IN_NINETY_SECONDS = "Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:01:30 GMT"


def build_429_in_200_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns HTTP 200 with an error 429 in the body."""
    body = msgspec.json.encode({"error": {"code": 429, "message": "Too Many Requests"}})
    return build_http_response_fault("429 in 200", HttpResponse(200, body), **limits)


def build_rate_limit_text_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns HTTP 200 with a plain text about rate limits."""
    response = HttpResponse(200, b"rate limit exceeded", {"Content-Type": "text/plain"})
    return build_http_response_fault("throttled, as text", response, **limits)


# --- bodies ---


def build_html_fault(code: int = 200, **limits: Unpack[FaultLimits]) -> InjectedFault:
    return build_http_response_fault(
        "HTML", HttpResponse(code, _HTML_PAGE, {"Content-Type": "text/html"}), **limits
    )


def build_empty_body_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns HTTP 200 with an empty body."""
    return build_http_response_fault("no body", HttpResponse(200, b""), **limits)


def build_changed_body_fault(
    name: str, change: Callable[[bytes], HttpResponse], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that changes the bytes of the honest response."""
    return InjectedFault(name, change_body=change, limits=limits)


def build_cut_connection_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends half of the body and then closes the connection."""
    return build_changed_body_fault(
        "cut off",
        lambda body: HttpResponse(body=body[: len(body) // 2], content_length=len(body)),
        **limits,
    )


def build_reset_connection_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends half of the body and then resets the connection."""
    return build_changed_body_fault(
        "reset",
        lambda body: HttpResponse(
            body=body[: len(body) // 2], content_length=len(body), is_reset=True
        ),
        **limits,
    )


def build_truncated_body_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends half of the JSON as if it were all."""
    return build_changed_body_fault(
        "half a JSON", lambda body: HttpResponse(body=body[: len(body) // 2]), **limits
    )


def build_corrupt_gzip_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that sends an invalid gzip stream."""

    def corrupt_body(body: bytes) -> HttpResponse:
        compressed_body = gzip.compress(body)
        # No deflate block begins with these bits.
        corrupted_body = compressed_body[:_GZIP_HEADER_BYTES] + b"\xff" * (
            len(compressed_body) - _GZIP_HEADER_BYTES
        )
        return HttpResponse(body=corrupted_body, headers={"Content-Encoding": "gzip"})

    return build_changed_body_fault("broken gzip", corrupt_body, **limits)


def build_misdirected_responses_fault(
    max_connections: int = 1, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that makes the first `max_connections` connections respond late.

    A late response belongs to the previous request, or to a request of another client. Each
    connection is one thread of the server.
    """
    thread_state = local()
    thread_numbers = count()

    def swap_body(body: bytes) -> HttpResponse:
        if not hasattr(thread_state, "before"):
            thread_state.before = (
                _FOREIGN_RESPONSE if next(thread_numbers) < max_connections else None
            )
        if thread_state.before is None:
            return HttpResponse(body=body)
        previous_body, thread_state.before = thread_state.before, body
        return HttpResponse(body=previous_body)

    return build_changed_body_fault("out of step", swap_body, **limits)


# This response has the id of a request that the client never sent.
_FOREIGN_RESPONSE = b'{"jsonrpc":"2.0","id":987654321,"result":"0x5"}'


# --- batches ---


def build_reversed_batch_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that reverses the order of a batch."""
    return InjectedFault(
        "reversed batch", change_batch=lambda _requests, responses: responses[::-1], limits=limits
    )


def build_omitted_response_fault(index: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that leaves one response out of a batch."""
    return InjectedFault(
        "batch with a missing response",
        change_batch=lambda _requests, responses: responses[:index] + responses[index + 1 :],
        limits=limits,
    )


def build_failed_call_fault(index: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that makes one call of a batch fail."""

    def change_responses(
        _requests: Sequence[FakeRequest], responses: list[dict[str, Any]]
    ) -> object:
        error = FakeRpcError(-32603, "internal error").to_json()
        error_response = {"jsonrpc": "2.0", "id": responses[index]["id"], "error": error}
        return [*responses[:index], error_response, *responses[index + 1 :]]

    return InjectedFault("batch with a failed call", change_batch=change_responses, limits=limits)


def build_batch_limit_fault(max_calls: int = 1, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that rejects whole batches of more than `max_calls` calls (-32007)."""

    def change_responses(
        _requests: Sequence[FakeRequest], responses: list[dict[str, Any]]
    ) -> object:
        if len(responses) <= max_calls:
            return responses
        error = FakeRpcError(-32007, f"batch of more than {max_calls} is not allowed").to_json()
        return {"jsonrpc": "2.0", "id": None, "error": error}

    return InjectedFault(
        "batch refused as too large", change_batch=change_responses, limits=limits
    )


def build_batch_limit_status_fault(
    name: str, body: bytes, code: int = 400, max_calls: int = 1
) -> InjectedFault:
    """Return a fault that rejects batches of more than `max_calls` calls by HTTP status."""

    def change_responses(
        _requests: Sequence[FakeRequest], responses: list[dict[str, Any]]
    ) -> object:
        return responses if len(responses) <= max_calls else HttpResponse(code, body)

    return InjectedFault(name, change_batch=change_responses)


# --- time ---


def build_held_response_fault(gate: Event, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that executes the call, but holds its response until the gate opens.

    The gate opens when it is set.
    """

    def wait_for_gate(_request: FakeRequest, result: object) -> object:
        gate.wait(_MAX_HOLD_SECONDS)
        return result

    return InjectedFault(
        "response held until released", wait_for_gate, limits=limits, counts_unchanged=True
    )


def build_delayed_response_fault(
    clock: VirtualClock, seconds: float, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that advances a virtual clock by `seconds` in each call."""

    def advance_clock(_request: FakeRequest, result: object) -> object:
        clock.advance(seconds)
        return result

    return InjectedFault(
        f"response delayed by {seconds} s", advance_clock, limits=limits, counts_unchanged=True
    )


def build_callback_fault(
    callback: Callable[[FakeRequest], object], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that runs a callback after the result was computed.

    The callback may cause a reorg, for example.
    """

    def run_callback(request: FakeRequest, result: object) -> object:
        callback(request)
        return result

    return InjectedFault(
        "callback before the response", run_callback, limits=limits, counts_unchanged=True
    )
