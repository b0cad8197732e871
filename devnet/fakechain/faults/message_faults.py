"""Reported faults: JSON-RPC errors with the messages of many providers.

In a message, `{limit}` is the limit, and `{first}` and `{last}` are the requested range. See
docs/reference/rpc-requirements.md#errors-when-reading.
"""

from collections.abc import Callable
from typing import NamedTuple, Unpack

from devnet.fakechain.fault import FaultLimits, InjectedFault, on_success, only
from devnet.fakechain.requests import FakeRequest, FakeRpcError
from oracle.rpc.provider_dialects import DIALECTS, RefusedFeature


class Words(NamedTuple):
    """Code and message of a JSON-RPC error."""

    code: int
    message: str


def provider_messages(refused: RefusedFeature) -> tuple[Words, ...]:
    """Return every provider's message for a kind of refusal, from the table of dialects."""
    return tuple(
        Words(row.code, row.example) for row in DIALECTS if row.refused_feature is refused
    )


RATE_WORDS = provider_messages(RefusedFeature.RATE)
# Messages that state their limit.
RANGE_WORDS = tuple(
    one for one in provider_messages(RefusedFeature.BLOCKS) if "{limit}" in one.message
)
DENSITY_WORDS = provider_messages(RefusedFeature.RESULTS)
# Providers use -32005 for rate limits as well as for the size of a result.
QUOTA, SIZE = RATE_WORDS[0], DENSITY_WORDS[0]
# A message that no row of the table matches.
FOREIGN_WORDS = Words(-32099, "请求失败")


def fails(words: Words, **limits: Unpack[FaultLimits]) -> InjectedFault:
    """Return a fault: every call fails with this error."""
    return InjectedFault(
        words.message, lambda asked, _answer: _said(words, asked, 0), limits=limits
    )


def limited_range(
    most: int, words: Words = RANGE_WORDS[0], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that rejects `eth_getLogs` over more than so many blocks."""

    def is_too_wide(asked: FakeRequest, _answer: object) -> bool:
        return asked.blocks is not None and asked.blocks[1] - asked.blocks[0] + 1 > most

    return _limited(most, words, is_too_wide, limits)


def limited_results(
    most: int, words: Words = DENSITY_WORDS[0], **limits: Unpack[FaultLimits]
) -> InjectedFault:
    """Return a fault that rejects results of more than so many logs."""

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
