"""The bloom filter of logs: 2048 bits, three for each address and topic (Yellow Paper, 4.3.1).

A bloom is handled as one whole number: bit 0 is the last bit of its last byte.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from oracle.chain.proofs.keccak import keccak

BYTES = 256
_LAST_BIT = BYTES * 8 - 1
# Addresses and first topics come again and again; of arguments only some.
_REMEMBERED = 65_536


class Logged(Protocol):
    """What a bloom looks at in a log; both in `0x` hex."""

    @property
    def address(self) -> str: ...
    @property
    def topics(self) -> Sequence[str]: ...


@lru_cache(_REMEMBERED)
def mask(written: str) -> int:
    """Return the bits that an address or topic, in `0x` hex, sets."""
    hashed = keccak(bytes.fromhex(written[2:]))
    bits = 0
    for place in (0, 2, 4):
        bits |= 1 << (int.from_bytes(hashed[place : place + 2], "big") & _LAST_BIT)
    return bits


def bloom(logs: Iterable[Logged]) -> int:
    """Return the bloom of these logs."""
    bits = 0
    for log in logs:
        bits |= mask(log.address)
        for topic in log.topics:
            bits |= mask(topic)
    return bits


def may_hold(bits: int, masks: int) -> bool:
    """Tell whether the bloom can hold what set these bits; False is certain, True is not."""
    return bits & masks == masks


def may_log(bits: int, addresses: Iterable[int], topics: Iterable[int]) -> bool:
    """Tell whether a log of one of these addresses with one of these topics can be in there."""
    return any(may_hold(bits, one) for one in addresses) and any(
        may_hold(bits, one) for one in topics
    )


def written(bits: int) -> str:
    """Return the bloom as endpoints write it: `0x` and 512 hex digits."""
    return f"0x{bits:0512x}"
