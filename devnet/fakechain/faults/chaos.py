"""An endpoint that is honest most of the time, but sometimes misbehaves briefly.

It misbehaves for a few requests. Each period of misbehaviour is called a mood. It consists of a
single kind of fault, drawn from a seed. Some faults are excluded because a client must stop using
the endpoint after them: another chain, a rejected key, and invalid blooms and roots.
"""

from collections.abc import Callable, Mapping
from random import Random
from threading import Event, Lock
from typing import Any

import msgspec
from typing_extensions import override

from devnet.fakechain.fault import InjectedFault, wrap_change_to_skip_errors
from devnet.fakechain.faults import (
    block_faults as blocks,
    log_faults as logs,
    message_faults as messages,
    transport_faults as transport,
)
from devnet.fakechain.requests import FakeRequest, HttpResponse
from devnet.fakechain.upstream import UpstreamProxy
from oracle.rpc.provider_dialects import RefusedFeature

# Probability that a request starts a mood (a series of faults of one kind), and maximum number of
# requests in a mood.
MOOD_RATE = 0.02
MAX_MOOD_REQUESTS = 6
_LAG_BLOCKS = 3
_DELAY_SECONDS = 1.5

OnMood = Callable[[str], None]


class ChaosEndpoint(UpstreamProxy):
    """Forwards requests to the endpoint `url`, in moods that are drawn from `seed`.

    `on_mood` is called when a mood begins.
    """

    def __init__(self, url: str, seed: int, on_mood: OnMood = lambda _mood: None) -> None:
        super().__init__(url)
        self._random = Random(seed)  # noqa: S311 - chance, not a secret
        self._lock = Lock()
        self._fault_by_mood = [*_build_chaos_faults(self).items()]
        self._mood: tuple[str, InjectedFault] | None = None
        self._remaining_requests = 0
        self._on_mood = on_mood
        # Number of times that each mood has begun.
        self.mood_counts: dict[str, int] = {}
        # While this is True, no new faults begin.
        self.is_calm = False

    @override
    def select_faults(self) -> tuple[InjectedFault, ...]:
        with self._lock:
            if self.is_calm:
                return ()
            if self._remaining_requests == 0:
                if self._random.random() >= MOOD_RATE:
                    return ()
                self._mood = self._random.choice(self._fault_by_mood)
                self._remaining_requests = self._random.randint(1, MAX_MOOD_REQUESTS)
                self.mood_counts[self._mood[0]] = self.mood_counts.get(self._mood[0], 0) + 1
                self._on_mood(f"{self._mood[0]}, {self._remaining_requests} requests")
            self._remaining_requests -= 1
            return () if self._mood is None else (self._mood[1],)


def _build_chaos_faults(upstream: UpstreamProxy) -> Mapping[str, InjectedFault]:
    return (
        _build_log_faults()
        | _build_head_faults(upstream)
        | _build_message_faults()
        | _build_transport_faults()
    )


def _build_log_faults() -> dict[str, InjectedFault]:
    return {
        "omits all logs of a range": logs.build_omitted_range_logs_fault(),
        "omits a log of a range": logs.build_omitted_log_fault(
            0, when=lambda request: not request.is_by_block_hash
        ),
        "omits a log of any result": logs.build_omitted_log_fault(0),
        "marks logs as removed": logs.build_removed_logs_fault(),
        "returns pending logs": logs.build_pending_logs_fault(),
        "moves logs to other blocks": logs.build_shifted_block_numbers_fault(1_000),
        "returns a log twice": logs.build_duplicated_log_fault(),
        "returns two logs at one position": logs.build_conflicting_log_fault(),
        "returns logs in reverse order": logs.build_reversed_logs_fault(),
        "writes hex in upper case": logs.build_uppercase_hex_fault(),
        "appends half a byte": logs.build_odd_hex_length_fault(),
        "omits a receipt": blocks.build_omitted_receipt_fault(0),
    }


def _build_head_faults(upstream: UpstreamProxy) -> dict[str, InjectedFault]:
    return {
        f"lags {_LAG_BLOCKS} blocks behind": _build_lagging_head_fault(upstream, _LAG_BLOCKS),
        "returns null for blocks": blocks.build_null_result_fault(),
        "returns headers that do not link": blocks.build_wrong_parent_fault(),
        "has no finalized block": blocks.build_fixed_result_fault(
            None,
            methods="eth_getBlockByNumber",
            when=lambda request: request.params[0] in _FINALITY_TAGS,
        ),
    }


_FINALITY_TAGS = {"safe", "finalized"}


def _build_message_faults() -> dict[str, InjectedFault]:
    return {
        "throttles with -32005": messages.build_error_fault(messages.RATE_MESSAGE),
        "fails with an unknown message": messages.build_error_fault(
            messages.UNKNOWN_MESSAGE, methods="eth_getLogs"
        ),
        "rejects more than 2 blocks": messages.build_range_limit_fault(2),
        "rejects more than 1 log": messages.build_result_limit_fault(1),
        "reports blocks as not found": messages.build_error_fault(
            messages.ErrorMessage(-32000, "header not found"),
            methods=["eth_getLogs", "eth_getBlockByNumber"],
        ),
        "has no receipts": messages.build_error_fault(
            messages.get_provider_messages(RefusedFeature.METHOD)[0],
            methods="eth_getBlockReceipts",
        ),
    }


def _build_transport_faults() -> dict[str, InjectedFault]:
    return {
        "returns HTTP 429": transport.build_429_fault(1),
        "returns HTTP 503": transport.build_http_status_fault(503, b"Service Unavailable"),
        "returns a web page": transport.build_html_fault(),
        "returns an empty body": transport.build_empty_body_fault(),
        "closes the connection in mid-response": transport.build_cut_connection_fault(),
        "resets the connection": transport.build_reset_connection_fault(),
        "truncates the JSON": transport.build_truncated_body_fault(),
        "returns broken gzip": transport.build_corrupt_gzip_fault(),
        "reverses batches": transport.build_reversed_batch_fault(),
        "omits a response of a batch": transport.build_omitted_response_fault(0),
        "fails one call of a batch": transport.build_failed_call_fault(0),
        "rejects batches": transport.build_batch_limit_fault(),
        f"is {_DELAY_SECONDS} s late": _build_delayed_body_fault(_DELAY_SECONDS),
    }


def _build_lagging_head_fault(upstream: UpstreamProxy, lag_blocks: int) -> InjectedFault:
    """Return a fault that serves the chain as of `lag_blocks` blocks ago."""

    def change_result(request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        if request.method == "eth_blockNumber":
            return hex(max(0, int(result, 16) - lag_blocks))
        if request.method != "eth_getBlockByNumber":
            return result
        claimed_head = int(str(upstream.handle_call("eth_blockNumber", [])), 16) - lag_blocks
        if request.params[0] == "latest":
            return upstream.handle_call(
                request.method, [hex(max(0, claimed_head)), *request.params[1:]]
            )
        return result if int(result["number"], 16) <= claimed_head else None

    return InjectedFault("lagging head", wrap_change_to_skip_errors(change_result))


def _build_delayed_body_fault(seconds: float) -> InjectedFault:
    """Return a fault that delays the response by `seconds` of the wall clock."""

    def change_body(body: bytes) -> HttpResponse:
        Event().wait(seconds)
        return HttpResponse(body=body)

    return transport.build_changed_body_fault("late", change_body)


def format_fault_counts(fault_names: Mapping[str, int]) -> str:
    """Format how often each kind of fault began, as a line of JSON."""
    return msgspec.json.encode(dict(sorted(fault_names.items()))).decode()
