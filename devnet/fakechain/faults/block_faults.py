"""Faults of headers and receipts, of heads, and of load balancers and caches.

Finality tags are settings of a provider (`Provider.tags`), and so is pruned history that is
reported as such (`Provider.pruned_below`).
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Unpack

from devnet.fakechain.answering import Answering
from devnet.fakechain.fault import FaultLimits, InjectedFault, on_success, only
from devnet.fakechain.requests import FakeRequest, FakeRpcError

Json = dict[str, Any]
HEADERS = frozenset({"eth_getBlockByNumber", "eth_getBlockByHash"})
_ZERO_HASH = "0x" + "00" * 32


def header_with(
    fields: Json, name: str = "other header", **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that overrides these header fields."""

    def changed(_asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        return {**answer, **fields}

    return InjectedFault(name, on_success(changed), limits=only(limits, *HEADERS))


def zero_bloom(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the bloom is zero although there are logs (Aurora #271, Polygon)."""
    return header_with({"logsBloom": "0x" + "00" * 256}, "zero bloom", **limits)


def saturated_bloom(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the bloom matches everything (Filecoin)."""
    return header_with({"logsBloom": "0x" + "ff" * 256}, "saturated bloom", **limits)


def other_bloom(bits: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the bloom is of logs that do not exist (zkSync #4580)."""
    return header_with({"logsBloom": f"0x{bits:0512x}"}, "other bloom", **limits)


def dummy_receipts_root(root: str = _ZERO_HASH, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the receipts root is a placeholder (Hyperliquid PR#495)."""
    return header_with({"receiptsRoot": root}, "dummy receipts root", **limits)


def other_parent(
    parent_hash: str = "0x" + "0d" * 32, **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault: headers do not link to their parents."""
    return header_with({"parentHash": parent_hash}, "other parent", **limits)


# --- receipts ---


def spoiled_receipts(
    name: str, change: Callable[[list[Json]], Sequence[Json]], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that replaces a block's receipts; `change` gets copies of all of them."""

    def changed(_asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        return list(change([dict(receipt) for receipt in answer]))

    return InjectedFault(name, on_success(changed), limits=only(limits, "eth_getBlockReceipts"))


def omits_receipts(nth: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that leaves one receipt out, counted from 0."""
    return spoiled_receipts(
        "a receipt left out", lambda receipts: receipts[:nth] + receipts[nth + 1 :], **limits
    )


def with_system_receipt(extra: Json, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that adds a receipt whose transaction is not in the block (Amoy #420)."""
    return spoiled_receipts("a receipt too many", lambda receipts: [*receipts, extra], **limits)


def other_status(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault that inverts the status of every transaction."""

    def changed(_asked: FakeRequest, answer: Any) -> object:  # noqa: ANN401 - JSON
        if isinstance(answer, dict):
            return _turned(answer)
        return [_turned(receipt) for receipt in answer]

    methods = ("eth_getBlockReceipts", "eth_getTransactionReceipt")
    return InjectedFault("other status", on_success(changed), limits=only(limits, *methods))


def _turned(receipt: Json) -> Json:
    return {**receipt, "status": "0x0" if receipt["status"] == "0x1" else "0x1"}


# --- heads, chains, proxies ---


def nothing(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the result is null, by default for blocks that were just announced."""
    return result(None, **only(limits, *HEADERS))


def result(value: object, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the result is this value; `methods` names the calls."""
    return InjectedFault("another answer", lambda _asked, _answer: value, limits=limits)


def other_chain(chain_id: int, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: another chain id.

    With `forward_to`, the blocks are those of the other chain as well.
    """
    return result(hex(chain_id), **only(limits, "eth_chainId"))


def switched(other: Answering, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: another endpoint answers, as behind a load balancer.

    With `methods` or `when`, only some calls go to the other endpoint; see `match_every_second`.
    """

    def changed(asked: FakeRequest, _answer: object) -> object:
        return other.answers([asked])[0]

    return InjectedFault("another node", changed, limits=limits)


def every_second() -> Callable[[FakeRequest], bool]:
    """Return a `matches` function that matches every second request."""
    lock, seen = Lock(), [0]

    def when(_asked: FakeRequest) -> bool:
        with lock:
            seen[0] += 1
            return seen[0] % 2 == 0

    return when


def after(answers: int) -> Callable[[FakeRequest], bool]:
    """Return a `matches` function that matches all requests after the first so many."""
    lock, seen = Lock(), [0]

    def when(_asked: FakeRequest) -> bool:
        with lock:
            seen[0] += 1
            return seen[0] > answers

    return when


def cached(**limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: the first result is served forever, even after a reorg (safe PR#2955).

    Like a caching proxy: calls with equal parameters get the same result, except errors.
    """
    kept: dict[str, object] = {}

    def changed(asked: FakeRequest, answer: object) -> object:
        if answer is None or isinstance(answer, FakeRpcError):
            return answer
        return kept.setdefault(f"{asked.method} {asked.params!r}", answer)

    return InjectedFault("a cache", changed, limits=limits)
