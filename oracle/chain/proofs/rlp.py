"""Encodes RLP, which underlies all block hashes (Yellow Paper, appendix B).

`encode_rlp_list` joins parts that are already encoded, so that no data is copied twice.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

RlpItem = bytes | int | Sequence["RlpItem"]

_SHORT_LIMIT = 56
_STRING_BASE = 0x80
_LIST_BASE = 0xC0
_STRING_HEADS = [bytes([_STRING_BASE + size]) for size in range(_SHORT_LIMIT)]
_LIST_HEADS = [bytes([_LIST_BASE + size]) for size in range(_SHORT_LIMIT)]
EMPTY_STRING = b"\x80"


def encode_rlp(item: RlpItem) -> bytes:
    """Encode bytes, a non-negative integer or a nested sequence of these as RLP."""
    if isinstance(item, bytes):
        return encode_rlp_bytes(item)
    if isinstance(item, int):
        return encode_int(item)
    return encode_rlp_list([encode_rlp(part) for part in item])


def encode_rlp_bytes(content: bytes) -> bytes:
    """Encode a byte string as RLP."""
    byte_count = len(content)
    if byte_count == 1 and content[0] < _STRING_BASE:
        return content
    if byte_count < _SHORT_LIMIT:
        return _STRING_HEADS[byte_count] + content
    return _encode_long_head(_STRING_BASE, byte_count) + content


def encode_int(number: int) -> bytes:
    """Encode a non-negative integer as RLP (big-endian, without leading zeros)."""
    if number < _STRING_BASE:
        return EMPTY_STRING if number == 0 else bytes([number])
    return encode_rlp_bytes(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def encode_rlp_list(parts: Iterable[bytes]) -> bytes:
    """Encode a list as RLP, from its encoded parts."""
    content = b"".join(parts)
    return encode_list_head(len(content)) + content


def encode_list_head(size: int) -> bytes:
    """Return the RLP prefix of a list whose encoded parts have this total size."""
    return _LIST_HEADS[size] if size < _SHORT_LIMIT else _encode_long_head(_LIST_BASE, size)


def encode_string_head(size: int) -> bytes:
    """Return the RLP prefix of a string of this size.

    A single byte below 0x80 has no prefix.
    """
    return _STRING_HEADS[size] if size < _SHORT_LIMIT else _encode_long_head(_STRING_BASE, size)


# The result is cached because many receipts and nodes have the same length.
@lru_cache(maxsize=16_384)
def _encode_long_head(base: int, size: int) -> bytes:
    size_bytes = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([base + _SHORT_LIMIT - 1 + len(size_bytes)]) + size_bytes
