"""Writes RLP, the encoding of everything that a block's hashes are made of (Yellow Paper, B).

What is encoded already is put into a list by `encoded_list`: nothing is copied twice.
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
    """Encode bytes, a number from 0 on, or a list of such."""
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
    """Encode a number from 0 on: big-endian, without leading zeros."""
    if number < _STRING:
        return EMPTY if number == 0 else bytes([number])
    return encoded_bytes(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def encoded_list(parts: Iterable[bytes]) -> bytes:
    """Make a list of parts that are encoded already."""
    body = b"".join(parts)
    return list_head(len(body)) + body


def list_head(size: int) -> bytes:
    """Return what stands before a list whose encoded parts are so many bytes long."""
    return _LIST_HEADS[size] if size < _SHORT else _long_head(_LIST, size)


def string_head(size: int) -> bytes:
    """Return what stands before a string of so many bytes, unless it is one byte below 0x80."""
    return _STRING_HEADS[size] if size < _SHORT else _long_head(_STRING, size)


# The same sizes come again and again: most receipts and nodes are as long as others.
@lru_cache(maxsize=16_384)
def _long_head(kind: int, size: int) -> bytes:
    written = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([kind + _SHORT - 1 + len(written)]) + written
