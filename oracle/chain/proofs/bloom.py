"""The bloom filter of logs: 2048 bits, three for each address and topic (Yellow Paper, 4.3.1).

A bloom is represented as one integer: bit 0 is the last bit of its last byte.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from oracle.chain.proofs.keccak import keccak

BYTES = 256
_LAST_BIT = BYTES * 8 - 1
# Addresses and first topics occur again and again, indexed arguments less often.
_REMEMBERED = 65_536


class Logged(Protocol):
    """The fields of a log that its bloom depends on; both in `0x` hex."""

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
    """Return whether the bloom may contain these mask bits; only False is certain."""
    return bits & masks == masks


def may_log(bits: int, addresses: Iterable[int], topics: Iterable[int]) -> bool:
    """Return whether the bloom may contain a log of one of the addresses and one of the topics."""
    return any(may_hold(bits, one) for one in addresses) and any(
        may_hold(bits, one) for one in topics
    )


def written(bits: int) -> str:
    """Return the bloom in the format of endpoints: `0x` and 512 hex digits."""
    return f"0x{bits:0512x}"
