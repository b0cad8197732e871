"""The bloom filter of logs: 2048 bits, three for each address and topic (Yellow Paper, 4.3.1).

A bloom is represented as one integer: bit 0 is the last bit of its last byte.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from oracle.chain.proofs.keccak import keccak

BLOOM_BYTES = 256
_BIT_INDEX_MASK = BLOOM_BYTES * 8 - 1
# Addresses and first topics occur again and again, indexed arguments less often.
_MAX_CACHED_MASKS = 65_536


class BloomInput(Protocol):
    """The fields of a log that determine its bloom, in `0x` hex."""

    @property
    def address(self) -> str: ...
    @property
    def topics(self) -> Sequence[str]: ...


@lru_cache(_MAX_CACHED_MASKS)
def compute_bloom_mask(hex_text: str) -> int:
    """Return the bits that an address or topic, in `0x` hex, sets."""
    digest = keccak(bytes.fromhex(hex_text[2:]))
    bits = 0
    for position in (0, 2, 4):
        bits |= 1 << (int.from_bytes(digest[position : position + 2], "big") & _BIT_INDEX_MASK)
    return bits


def compute_bloom(logs: Iterable[BloomInput]) -> int:
    """Return the bloom of these logs."""
    bits = 0
    for log in logs:
        bits |= compute_bloom_mask(log.address)
        for topic in log.topics:
            bits |= compute_bloom_mask(topic)
    return bits


def may_contain_bits(bits: int, mask_bits: int) -> bool:
    """Return whether the bloom may contain these mask bits; only False is certain."""
    return bits & mask_bits == mask_bits


def may_contain_log(bits: int, address_masks: Iterable[int], topic_masks: Iterable[int]) -> bool:
    """Return whether the bloom may contain a log of one of the addresses and one of the topics."""
    return any(may_contain_bits(bits, mask_bits) for mask_bits in address_masks) and any(
        may_contain_bits(bits, mask_bits) for mask_bits in topic_masks
    )


def format_bloom(bits: int) -> str:
    """Return the bloom in the format of endpoints: `0x` and 512 hex digits."""
    return f"0x{bits:0512x}"
