"""Faults of headers, receipts and heads, and of load balancers and caches.

Finality tags (`Provider.tag_targets`), and history that is reported as pruned
(`Provider.pruned_below`), are settings of a provider instead.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Unpack

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.fault import (
    FaultLimits,
    InjectedFault,
    add_default_methods,
    wrap_change_to_skip_errors,
)
from devnet.fakechain.requests import FakeRequest, FakeRpcError

Json = dict[str, Any]
HEADER_METHODS = frozenset({"eth_getBlockByNumber", "eth_getBlockByHash"})
_ZERO_HASH = "0x" + "00" * 32


def build_changed_header_fault(
    fields: Json, name: str = "other header", **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that overrides these fields of headers."""

    def change_result(_request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        return {**result, **fields}

    return InjectedFault(
        name,
        wrap_change_to_skip_errors(change_result),
        limits=add_default_methods(limits, *HEADER_METHODS),
    )


def build_zero_bloom_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves an empty bloom despite logs (Aurora #271, Polygon)."""
    return build_changed_header_fault({"logsBloom": "0x" + "00" * 256}, "zero bloom", **limits)


def build_saturated_bloom_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves a bloom with all bits set (Filecoin)."""
    return build_changed_header_fault(
        {"logsBloom": "0x" + "ff" * 256}, "saturated bloom", **limits
    )


def build_wrong_bloom_fault(bits: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves a bloom of logs that do not exist (zkSync #4580)."""
    return build_changed_header_fault({"logsBloom": f"0x{bits:0512x}"}, "other bloom", **limits)


def build_wrong_receipts_root_fault(
    root: str = _ZERO_HASH, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that serves a placeholder as the receipts root (Hyperliquid PR#495)."""
    return build_changed_header_fault({"receiptsRoot": root}, "dummy receipts root", **limits)


def build_wrong_parent_fault(
    parent_hash: str = "0x" + "0d" * 32, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that serves headers with wrong parent hashes."""
    return build_changed_header_fault({"parentHash": parent_hash}, "other parent", **limits)


# --- receipts ---


def build_changed_receipts_fault(
    name: str, change: Callable[[list[Json]], Sequence[Json]], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that applies `change` to copies of a block's receipts."""

    def change_result(_request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        return list(change([dict(receipt) for receipt in result]))

    return InjectedFault(
        name,
        wrap_change_to_skip_errors(change_result),
        limits=add_default_methods(limits, "eth_getBlockReceipts"),
    )


def build_omitted_receipt_fault(index: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that omits the receipt at `index`, counted from 0."""
    return build_changed_receipts_fault(
        "a receipt left out", lambda receipts: receipts[:index] + receipts[index + 1 :], **limits
    )


def build_inverted_status_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that inverts the status of every transaction."""

    def change_result(_request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        if isinstance(result, dict):
            return _invert_status(result)
        return [_invert_status(receipt) for receipt in result]

    methods = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
    return InjectedFault(
        "inverted receipt status",
        wrap_change_to_skip_errors(change_result),
        limits=add_default_methods(limits, *methods),
    )


def _invert_status(receipt: Json) -> Json:
    return {**receipt, "status": "0x0" if receipt["status"] == "0x1" else "0x1"}


# --- heads, chains, proxies ---


def build_null_result_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns null, as if the requested block did not exist.

    By default it affects requests for blocks.
    """
    return build_fixed_result_fault(None, **add_default_methods(limits, *HEADER_METHODS))


def build_fixed_result_fault(value: object, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns a fixed value.

    The limit `methods` selects the affected calls.
    """
    return InjectedFault("fixed result", lambda _request, _result: value, limits=limits)


def build_wrong_chain_id_fault(chain_id: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that reports another chain id.

    Combine it with `build_forwarding_fault` to serve the blocks of another chain as well.
    """
    return build_fixed_result_fault(hex(chain_id), **add_default_methods(limits, "eth_chainId"))


def build_forwarding_fault(
    other_endpoint: FakeEndpoint, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that forwards calls to another endpoint, as a load balancer does.

    With the limits `methods` or `when`, only some calls go to the other endpoint (see
    `match_every_second_request`).
    """

    def change_result(request: FakeRequest, _result: object) -> object:
        return other_endpoint.handle_calls([request])[0]

    return InjectedFault("result of another endpoint", change_result, limits=limits)


def match_every_second_request() -> Callable[[FakeRequest], bool]:
    """Return a function for the limit `when` that affects every second request."""
    lock = Lock()
    request_counter = [0]

    def matches(_request: FakeRequest) -> bool:
        with lock:
            request_counter[0] += 1
            return request_counter[0] % 2 == 0

    return matches


def match_after_requests(request_count: int) -> Callable[[FakeRequest], bool]:
    """Return a function for the limit `when` that skips the first `request_count` requests."""
    lock = Lock()
    request_counter = [0]

    def matches(_request: FakeRequest) -> bool:
        with lock:
            request_counter[0] += 1
            return request_counter[0] > request_count

    return matches


def build_stale_cache_fault(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves the first result for ever, even after a reorg (safe PR#2955).

    The fault imitates a caching proxy, so calls with equal parameters get the same result. Errors
    are not cached.
    """
    result_by_call: dict[str, object] = {}

    def change_result(request: FakeRequest, result: object) -> object:
        if result is None or isinstance(result, FakeRpcError):
            return result
        return result_by_call.setdefault(f"{request.method} {request.params!r}", result)

    return InjectedFault("stale cached result", change_result, limits=limits)
