"""Encodes RLP, the encoding of everything that block hashes are computed from (Yellow Paper, B).

Parts that are encoded already are joined by `encode_list`, so that nothing is copied twice.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

Nested = bytes | int | Sequence["Nested"]

_SHORT = 56
_STRING = 0x80
_LIST = 0xC0
_STRING_HEADS = [bytes([_STRING + size]) for size in range(_SHORT)]
_LIST_HEADS = [bytes([_LIST + size]) for size in range(_SHORT)]
EMPTY = b"\x80"


def encoded(content: Nested) -> bytes:
    """Encode bytes, a non-negative integer, or a nested sequence of them."""
    if isinstance(content, bytes):
        return encoded_bytes(content)
    if isinstance(content, int):
        return encoded_int(content)
    return encoded_list([encoded(part) for part in content])


def encoded_bytes(content: bytes) -> bytes:
    """Encode a string of bytes."""
    size = len(content)
    if size == 1 and content[0] < _STRING:
        return content
    if size < _SHORT:
        return _STRING_HEADS[size] + content
    return _long_head(_STRING, size) + content


def encoded_int(number: int) -> bytes:
    """Encode a non-negative integer: big-endian, without leading zeros."""
    if number < _STRING:
        return EMPTY if number == 0 else bytes([number])
    return encoded_bytes(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def encoded_list(parts: Iterable[bytes]) -> bytes:
    """Encode a list of parts that are encoded already."""
    body = b"".join(parts)
    return list_head(len(body)) + body


def list_head(size: int) -> bytes:
    """Return the head of a list whose encoded parts have this total size."""
    return _LIST_HEADS[size] if size < _SHORT else _long_head(_LIST, size)


def string_head(size: int) -> bytes:
    """Return the head of a string of this size, unless it is a single byte below 0x80."""
    return _STRING_HEADS[size] if size < _SHORT else _long_head(_STRING, size)


# The same sizes occur again and again: many receipts and nodes have the same length.
@lru_cache(maxsize=16_384)
def _long_head(kind: int, size: int) -> bytes:
    written = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([kind + _SHORT - 1 + len(written)]) + written
