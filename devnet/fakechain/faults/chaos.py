"""An endpoint that is honest most of the time, but sometimes misbehaves for a few requests.

Each period of misbehaviour is a mood: a single kind of fault, drawn from a seed. Faults after
which a client must stop using the endpoint are left out: another chain, a rejected key, and
invalid blooms and roots.
"""

from collections.abc import Callable, Mapping
from random import Random
from threading import Event, Lock
from typing import Any

import msgspec
from typing_extensions import override

from devnet.fakechain.fault import InjectedFault, skip_errors
from devnet.fakechain.faults import (
    block_faults as blocks,
    log_faults as logs,
    message_faults as messages,
    transport_faults as transport,
)
from devnet.fakechain.requests import FakeRequest, HttpResponse
from devnet.fakechain.upstream import UpstreamProxy
from oracle.rpc.provider_dialects import RefusedFeature

# The probability that a mood begins at a request, and the maximum length of a mood in requests.
MOOD_RATE = 0.02
MAX_MOOD_REQUESTS = 6
_LAG_BLOCKS = 3
_DELAY_SECONDS = 1.5

OnMood = Callable[[str], None]


class ChaosEndpoint(UpstreamProxy):
    """The endpoint at `url`, with moods drawn from `seed`. `on_mood` is called when one begins."""

    def __init__(self, url: str, seed: int, on_mood: OnMood = lambda _mood: None) -> None:
        super().__init__(url)
        self._random = Random(seed)  # noqa: S311 - chance, not a secret
        self._lock = Lock()
        self._fault_by_mood = [*_build_moods(self).items()]
        self._mood: tuple[str, InjectedFault] | None = None
        self._remaining_requests = 0
        self._on_mood = on_mood
        # Number of times that each mood began.
        self.mood_counts: dict[str, int] = {}
        # No new faults once set.
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


def _build_moods(upstream: UpstreamProxy) -> Mapping[str, InjectedFault]:
    """Return the fault of each mood."""
    return (
        _build_log_moods()
        | _build_head_moods(upstream)
        | _build_message_moods()
        | _build_transport_moods()
    )


def _build_log_moods() -> dict[str, InjectedFault]:
    return {
        "omits all logs of a range": logs.omit_logs_of_ranges(),
        "omits a log of a range": logs.omit_log(0, when=lambda request: not request.is_by_hash),
        "omits a log of any result": logs.omit_log(0),
        "marks logs as removed": logs.mark_logs_removed(),
        "returns pending logs": logs.mark_logs_pending(),
        "moves logs to other blocks": logs.shift_log_blocks(1_000),
        "returns a log twice": logs.duplicate_log(),
        "returns two logs at one position": logs.add_conflicting_log(),
        "returns logs in reverse order": logs.reverse_logs(),
        "writes hex in upper case": logs.uppercase_hex(),
        "appends half a byte": logs.append_half_byte(),
        "omits a receipt": blocks.omit_receipt(0),
    }


def _build_head_moods(upstream: UpstreamProxy) -> dict[str, InjectedFault]:
    return {
        f"lags {_LAG_BLOCKS} blocks behind": _serve_old_head(upstream, _LAG_BLOCKS),
        "returns null for blocks": blocks.return_null(),
        "returns headers that do not link": blocks.serve_wrong_parent(),
        "has no finalized block": blocks.return_value(
            None,
            methods="eth_getBlockByNumber",
            when=lambda request: request.params[0] in _FINALITY_TAGS,
        ),
    }


_FINALITY_TAGS = {"safe", "finalized"}


def _build_message_moods() -> dict[str, InjectedFault]:
    return {
        "throttles with -32005": messages.fail_with(messages.RATE_MESSAGE),
        "fails with an unknown message": messages.fail_with(
            messages.UNKNOWN_MESSAGE, methods="eth_getLogs"
        ),
        "rejects more than 2 blocks": messages.limit_range(2),
        "rejects more than 1 log": messages.limit_results(1),
        "reports blocks as not found": messages.fail_with(
            messages.ErrorMessage(-32000, "header not found"),
            methods=["eth_getLogs", "eth_getBlockByNumber"],
        ),
        "has no receipts": messages.fail_with(
            messages.get_provider_messages(RefusedFeature.METHOD)[0],
            methods="eth_getBlockReceipts",
        ),
    }


def _build_transport_moods() -> dict[str, InjectedFault]:
    return {
        "returns HTTP 429": transport.return_429(1),
        "returns HTTP 503": transport.return_status(503, b"Service Unavailable"),
        "returns a web page": transport.return_html(),
        "returns an empty body": transport.return_empty_body(),
        "closes the connection in mid-response": transport.cut_connection(),
        "resets the connection": transport.reset_connection(),
        "truncates the JSON": transport.truncate_body(),
        "returns broken gzip": transport.corrupt_gzip(),
        "reverses batches": transport.reverse_batch(),
        "omits a response of a batch": transport.omit_response(0),
        "fails one call of a batch": transport.fail_one_call(0),
        "rejects batches": transport.reject_batch(),
        f"is {_DELAY_SECONDS} s late": _delay_body(_DELAY_SECONDS),
    }


def _serve_old_head(upstream: UpstreamProxy, lag_blocks: int) -> InjectedFault:
    """Return a fault that serves the chain as it was `lag_blocks` blocks ago."""

    def change_result(request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        if request.method == "eth_blockNumber":
            return hex(max(0, int(result, 16) - lag_blocks))
        if request.method != "eth_getBlockByNumber":
            return result
        head = int(str(upstream.handle_call("eth_blockNumber", [])), 16) - lag_blocks
        if request.params[0] == "latest":
            return upstream.handle_call(request.method, [hex(max(0, head)), *request.params[1:]])
        return result if int(result["number"], 16) <= head else None

    return InjectedFault("lagging", skip_errors(change_result))


def _delay_body(seconds: float) -> InjectedFault:
    """Return a fault that delays the response by some seconds of the wall clock."""

    def change_body(body: bytes) -> HttpResponse:
        Event().wait(seconds)
        return HttpResponse(body=body)

    return transport.spoiled_body("late", change_body)


def format_mood_counts(moods: Mapping[str, int]) -> str:
    """Return the number of times each mood began, as a line of JSON."""
    return msgspec.json.encode(dict(sorted(moods.items()))).decode()
