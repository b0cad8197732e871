"""Faults of headers and receipts, of heads, and of load balancers and caches.

Finality tags are settings of a provider (`Provider.tags`), and so is pruned history that is
reported as such (`Provider.pruned_below`).
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Unpack

from devnet.fakechain.answering import FakeEndpoint
from devnet.fakechain.fault import FaultLimits, InjectedFault, on_success, with_default_methods
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
        name, on_success(change_result), limits=with_default_methods(limits, *HEADER_METHODS)
    )


def serve_zero_bloom(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the bloom is zero although there are logs (Aurora #271, Polygon)."""
    return override_header_fields({"logsBloom": "0x" + "00" * 256}, "zero bloom", **limits)


def serve_saturated_bloom(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the bloom matches everything (Filecoin)."""
    return override_header_fields({"logsBloom": "0x" + "ff" * 256}, "saturated bloom", **limits)


def serve_wrong_bloom(bits: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the bloom is of logs that do not exist (zkSync #4580)."""
    return override_header_fields({"logsBloom": f"0x{bits:0512x}"}, "other bloom", **limits)


def serve_wrong_receipts_root(
    root: str = _ZERO_HASH, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault: the receipts root is a placeholder (Hyperliquid PR#495)."""
    return override_header_fields({"receiptsRoot": root}, "dummy receipts root", **limits)


def serve_wrong_parent(
    parent_hash: str = "0x" + "0d" * 32, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault: headers do not link to their parents."""
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
        on_success(change_result),
        limits=with_default_methods(limits, "eth_getBlockReceipts"),
    )


def omit_receipt(index: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that leaves one receipt out, counted from 0."""
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
        "other status", on_success(change_result), limits=with_default_methods(limits, *methods)
    )


def _invert_status(receipt: Json) -> Json:
    return {**receipt, "status": "0x0" if receipt["status"] == "0x1" else "0x1"}


# --- heads, chains, proxies ---


def return_null(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the result is null, by default for blocks that were just announced."""
    return return_value(None, **with_default_methods(limits, *HEADER_METHODS))


def return_value(value: object, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the result is this value; `methods` names the calls."""
    return InjectedFault("another answer", lambda _request, _result: value, limits=limits)


def return_wrong_chain_id(chain_id: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: another chain id.

    With `forward_to`, the blocks are those of the other chain as well.
    """
    return return_value(hex(chain_id), **with_default_methods(limits, "eth_chainId"))


def forward_to(other_endpoint: FakeEndpoint, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: another endpoint answers, as behind a load balancer.

    With `methods` or `matches`, only some calls go to the other endpoint; see
    `match_every_second`.
    """

    def change_result(request: FakeRequest, _result: object) -> object:
        return other_endpoint.handle_calls([request])[0]

    return InjectedFault("another node", change_result, limits=limits)


def match_every_second() -> Callable[[FakeRequest], bool]:
    """Return a `matches` function that matches every second request."""
    lock, counter = Lock(), [0]

    def matches(_request: FakeRequest) -> bool:
        with lock:
            counter[0] += 1
            return counter[0] % 2 == 0

    return matches


def match_after(request_count: int) -> Callable[[FakeRequest], bool]:
    """Return a `matches` function that matches all requests after the first so many."""
    lock, counter = Lock(), [0]

    def matches(_request: FakeRequest) -> bool:
        with lock:
            counter[0] += 1
            return counter[0] > request_count

    return matches


def serve_cached(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the first result is served forever, even after a reorg (safe PR#2955).

    Like a caching proxy: calls with equal parameters get the same result, except errors.
    """
    result_by_call: dict[str, object] = {}

    def change_result(request: FakeRequest, result: object) -> object:
        if result is None or isinstance(result, FakeRpcError):
            return result
        return result_by_call.setdefault(f"{request.method} {request.params!r}", result)

    return InjectedFault("a cache", change_result, limits=limits)
