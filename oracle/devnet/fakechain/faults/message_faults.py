"""Faults that are told: JSON-RPC errors in the words of many vendors.

`{limit}` in a message is the limit, `{first}` and `{last}` the range that was asked for.
See docs/reference/rpc-requirements.md#errors-when-reading.
"""

from collections.abc import Callable
from typing import NamedTuple, Unpack

from oracle.devnet.fakechain.fault import FaultLimits, InjectedFault, on_success, only
from oracle.devnet.fakechain.requests import FakeRequest, FakeRpcError


class Words(NamedTuple):
    """How an endpoint says no."""

    code: int
    message: str


# A range of too many blocks, as it is said.
RANGE_WORDS = (
    Words(-32005, "limited to a {limit} blocks range"),
    Words(-32600, "You can make eth_getLogs requests with up to a {limit} block range."),
    Words(-32602, "Max range: {limit}"),
    Words(-32000, "maximum block range: {limit}"),
    Words(-32000, "maximum allowed is {limit}"),
    Words(-32000, "maximum is set to {limit}"),
    Words(-32000, "exceed max block range, = {limit}"),
    Words(-32000, "at most {limit} blocks can be asked for"),
    Words(-32000, "block range exceeds the range allowed for your plan ({asked} > {limit})"),
    Words(-32000, "max blocks distance: {limit}"),
    Words(-32701, "over {limit} blocks are not supported"),
    Words(-32000, "block range is too large, max is {limit}"),
)
# Too many logs.
DENSITY_WORDS = (
    Words(-32005, "query returned more than {limit} results"),
    Words(-32602, "query exceeds max results {limit}, retry with the range {first}-{half}"),
    Words(-32000, "Log response size exceeded. this block range should work: [{hexes}]"),
    Words(-32008, "Response is too big"),
    Words(-32005, "too many logs"),
    Words(-32000, "response size too large, limit of {limit}"),
)
THROTTLE_WORDS = (
    Words(-32005, "daily request count exceeded, request rate limited"),
    Words(-32029, "Too Many Requests: limit of 25 per second"),
    Words(-32007, "50/second request limit reached - reduce calls per second"),
    Words(-32012, "credits quota exceeded"),
    Words(-32090, "Too many requests, rate limit reached"),
    Words(42903, "Your app has exceeded its throughput limit"),
    Words(429, "Your app has exceeded its compute units per second capacity"),
)
TIME_WORDS = (
    Words(-32000, "execution aborted (timeout = 5s)"),
    Words(-32002, "request timed out"),
    Words(-32603, "canceling statement due to statement timeout"),
)
NOT_THERE_WORDS = (
    Words(-32000, "cannot query unfinalized data"),
    Words(-32000, "requested to block 9 after last accepted block 8"),
    Words(-32000, "header not found"),
    Words(-32000, "unknown block"),
    Words(-32014, "missing data"),
    Words(-32602, "BlockOutOfRangeError: block is out of range"),
)
PRUNED_WORDS = (
    Words(4444, "pruned history unavailable"),
    Words(-32000, "history has been pruned for this block"),
    Words(-32000, "historical state is not available: history unavailable"),
)
UNSUPPORTED_WORDS = (
    Words(-32601, "the method {method} does not exist/is not available"),
    Words(-32004, "Method {method} is not supported"),
)
FOREIGN_WORDS = Words(-32099, "请求失败")
# -32005 says both.
QUOTA, SIZE = THROTTLE_WORDS[0], DENSITY_WORDS[0]


def fails(words: Words, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Answer an error, whatever was asked."""
    return InjectedFault(
        words.message, lambda asked, _answer: _said(words, asked, 0), limits=limits
    )


def limited_range(
    most: int, words: Words = RANGE_WORDS[0], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Refuse logs of more than so many blocks at once."""

    def is_too_wide(asked: FakeRequest, _answer: object) -> bool:
        return asked.blocks is not None and asked.blocks[1] - asked.blocks[0] + 1 > most

    return _limited(most, words, is_too_wide, limits)


def limited_results(
    most: int, words: Words = DENSITY_WORDS[0], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Refuse an answer of more than so many logs."""

    def is_too_long(_asked: FakeRequest, answer: object) -> bool:
        return isinstance(answer, list) and len(answer) > most

    return _limited(most, words, is_too_long, limits)


def _limited(
    most: int,
    words: Words,
    is_too_much: Callable[[FakeRequest, object], bool],
    limits: FaultLimits,
) -> InjectedFault:
    def changed(asked: FakeRequest, answer: object) -> object:
        return _said(words, asked, most) if is_too_much(asked, answer) else answer

    return InjectedFault(words.message, on_success(changed), limits=only(limits, "eth_getLogs"))


def _said(words: Words, asked: FakeRequest, limit: int) -> FakeRpcError:
    first, last = asked.blocks or (0, 0)
    half = (first + last) // 2
    message = words.message.format(
        limit=limit,
        first=first,
        last=last,
        half=half,
        hexes=f"{first:#x}, {half:#x}",
        asked=last - first + 1,
        method=asked.method,
    )
    return FakeRpcError(words.code, message)
