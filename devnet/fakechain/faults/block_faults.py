"""Faults of headers and receipts, of heads, and of load balancers and caches.

Finality tags (`Provider.tag_targets`), and history that is reported as pruned
(`Provider.pruned_below`), are settings of a provider instead.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Unpack

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.fault import FaultLimits, InjectedFault, skip_errors, with_default_methods
from devnet.fakechain.requests import FakeRequest, FakeRpcError

Json = dict[str, Any]
HEADER_METHODS = frozenset({"eth_getBlockByNumber", "eth_getBlockByHash"})
_ZERO_HASH = "0x" + "00" * 32


def override_header_fields(
    fields: Json, name: str = "other header", **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that overrides these header fields."""

    def change_result(_request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        return {**result, **fields}

    return InjectedFault(
        name, skip_errors(change_result), limits=with_default_methods(limits, *HEADER_METHODS)
    )


def serve_zero_bloom(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves a zero bloom although there are logs (Aurora #271, Polygon)."""
    return override_header_fields({"logsBloom": "0x" + "00" * 256}, "zero bloom", **limits)


def serve_saturated_bloom(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves a bloom that matches everything (Filecoin)."""
    return override_header_fields({"logsBloom": "0x" + "ff" * 256}, "saturated bloom", **limits)


def serve_wrong_bloom(bits: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves a bloom of logs that do not exist (zkSync #4580)."""
    return override_header_fields({"logsBloom": f"0x{bits:0512x}"}, "other bloom", **limits)


def serve_wrong_receipts_root(
    root: str = _ZERO_HASH, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that serves a placeholder as the receipts root (Hyperliquid PR#495)."""
    return override_header_fields({"receiptsRoot": root}, "dummy receipts root", **limits)


def serve_wrong_parent(
    parent_hash: str = "0x" + "0d" * 32, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that serves headers that do not link to their parents."""
    return override_header_fields({"parentHash": parent_hash}, "other parent", **limits)


# --- receipts ---


def change_receipts(
    name: str, change: Callable[[list[Json]], Sequence[Json]], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that replaces a block's receipts; `change` gets copies of all of them."""

    def change_result(_request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        return list(change([dict(receipt) for receipt in result]))

    return InjectedFault(
        name,
        skip_errors(change_result),
        limits=with_default_methods(limits, "eth_getBlockReceipts"),
    )


def omit_receipt(index: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that omits the receipt at `index`, counted from 0."""
    return change_receipts(
        "a receipt left out", lambda receipts: receipts[:index] + receipts[index + 1 :], **limits
    )


def add_receipt(receipt: Json, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that adds a receipt whose transaction is not in the block (Amoy #420)."""
    return change_receipts("a receipt too many", lambda receipts: [*receipts, receipt], **limits)


def invert_status(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that inverts the status of every transaction."""

    def change_result(_request: FakeRequest, result: Any) -> object:  # noqa: ANN401 - JSON
        if isinstance(result, dict):
            return _invert_status(result)
        return [_invert_status(receipt) for receipt in result]

    methods = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
    return InjectedFault(
        "other status", skip_errors(change_result), limits=with_default_methods(limits, *methods)
    )


def _invert_status(receipt: Json) -> Json:
    return {**receipt, "status": "0x0" if receipt["status"] == "0x1" else "0x1"}


# --- heads, chains, proxies ---


def return_null(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns null, by default for blocks, as if they were missing."""
    return return_value(None, **with_default_methods(limits, *HEADER_METHODS))


def return_value(value: object, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that returns a fixed value; the limit `methods` selects the calls."""
    return InjectedFault("another answer", lambda _request, _result: value, limits=limits)


def return_wrong_chain_id(chain_id: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that reports another chain id.

    Combine it with `forward_to` to serve the blocks of another chain as well.
    """
    return return_value(hex(chain_id), **with_default_methods(limits, "eth_chainId"))


def forward_to(other_endpoint: FakeEndpoint, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that lets another endpoint answer, as a load balancer does.

    With the limits `methods` or `when`, only some calls go to the other endpoint; see
    `match_every_second`.
    """

    def change_result(request: FakeRequest, _result: object) -> object:
        return other_endpoint.handle_calls([request])[0]

    return InjectedFault("another node", change_result, limits=limits)


def match_every_second() -> Callable[[FakeRequest], bool]:
    """Return a function for the limit `when` that matches every second request."""
    lock, counter = Lock(), [0]

    def matches(_request: FakeRequest) -> bool:
        with lock:
            counter[0] += 1
            return counter[0] % 2 == 0

    return matches


def match_after(request_count: int) -> Callable[[FakeRequest], bool]:
    """Return a `when` function that matches every request after the first `request_count`."""
    lock, counter = Lock(), [0]

    def matches(_request: FakeRequest) -> bool:
        with lock:
            counter[0] += 1
            return counter[0] > request_count

    return matches


def serve_cached(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that serves the first result forever, even after a reorg (safe PR#2955).

    As behind a caching proxy, calls with equal parameters get the same result. Errors are not
    cached.
    """
    result_by_call: dict[str, object] = {}

    def change_result(request: FakeRequest, result: object) -> object:
        if result is None or isinstance(result, FakeRpcError):
            return result
        return result_by_call.setdefault(f"{request.method} {request.params!r}", result)

    return InjectedFault("a cache", change_result, limits=limits)
