"""Reads the values of ABI data: static words, and the dynamic tails after them.

Decoding is strict, so that data has only one interpretation and contains no hidden bytes. Unused
bits of a word must be zero (or repeat the sign), as in the output of every compiler since Solidity
0.4. The tails (strings, bytes and arrays) must have the layout of Solidity's `abi.encode`, without
gaps and with zero padding.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

WORD = 32


class MalformedError(ValueError):
    """The bytes do not match the ABI.

    The message gives the reason.
    """


# A function that reads the value at an offset of the bytes, and returns the value and the offset
# after it.
TailReader = Callable[[bytes, int], tuple[object, int]]


def read_uint(raw: bytes, offset: int) -> int:
    """Read the 32-byte word at a byte offset as an unsigned integer."""
    if len(raw) < offset + WORD:
        raise MalformedError("the data is too short")
    return int.from_bytes(raw[offset : offset + WORD], "big")


def read_bytes(raw: bytes, offset: int) -> tuple[bytes, int]:
    """Read a dynamic byte string, and return it with the offset after it.

    Its length is at `offset`.
    """
    start = offset + WORD
    content_end = start + read_uint(raw, offset)
    end = content_end + (start - content_end) % WORD
    if end > len(raw):
        raise MalformedError("the data is too short")
    if raw[content_end:end].strip(b"\0"):
        raise MalformedError("the padding is not zero")
    return raw[start:content_end], end


def read_bytes_as_hex(raw: bytes, offset: int) -> tuple[str, int]:
    """Read a dynamic byte string as `0x` hex, and return it with the offset after it."""
    value, end = read_bytes(raw, offset)
    return "0x" + value.hex(), end


def read_string(raw: bytes, offset: int) -> tuple[str, int]:
    """Read a dynamic string with `decode_string`, and return it with the offset after it."""
    value, end = read_bytes(raw, offset)
    return decode_string(value), end


# This prefix marks strings that are not valid UTF-8. Valid text that starts with it is escaped
# too.
_INVALID_TEXT_PREFIX = "\ufffd0x"


def decode_string(value: bytes) -> str:
    """Decode a contract's string to valid text.

    Different strings give different texts. Anyone may write any bytes into a Solidity string. A
    string that is not UTF-8, or that contains NUL, which PostgreSQL rejects, is converted to
    U+FFFD, `0x` and its bytes in hex. Therefore an invalid model name cannot stop the daemon, and
    no information is lost.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return _INVALID_TEXT_PREFIX + value.hex()
    if "\0" in text or text.startswith(_INVALID_TEXT_PREFIX):
        return _INVALID_TEXT_PREFIX + value.hex()
    return text


def read_hash_array(raw: bytes, offset: int) -> tuple[object, int]:
    """Read an array of 32-byte words as `0x` hex.

    This is faster than `build_array_reader`.
    """
    start = offset + WORD
    end = start + WORD * read_uint(raw, offset)
    if end > len(raw):
        raise MalformedError("the data is too short")
    hashes_hex = raw[start:end].hex()
    return tuple(
        ["0x" + hashes_hex[position : position + 64] for position in range(0, len(hashes_hex), 64)]
    ), end


def build_word_array_reader(read_word: Callable[[bytes], object]) -> TailReader:
    """Return a reader for arrays whose elements are one word each."""

    def read_array(raw: bytes, offset: int) -> tuple[object, int]:
        start = offset + WORD
        end = start + WORD * read_uint(raw, offset)
        if end > len(raw):
            raise MalformedError("the data is too short")
        return tuple(
            read_word(raw[position : position + WORD]) for position in range(start, end, WORD)
        ), end

    return read_array


def build_array_reader(read_element: TailReader) -> TailReader:
    """Return a reader for arrays whose elements have a dynamic size."""

    def read_array(raw: bytes, offset: int) -> tuple[object, int]:
        heads_start = offset + WORD
        count = read_uint(raw, offset)
        end = heads_start + WORD * count
        if end > len(raw):
            raise MalformedError("the data is too short")
        values = []
        for position in range(heads_start, end, WORD):
            if heads_start + read_uint(raw, position) != end:
                raise MalformedError("an offset leaves a gap in the data")
            value, end = read_element(raw, end)
            values.append(value)
        return tuple(values), end

    return read_array


WORD_BITS = 256

WordReader = Callable[[bytes], object]


class WordLayout(NamedTuple):
    """The position of a value in its word.

    The value is at the low or the high end, with a width in bits.
    """

    family: str
    bits: int

    @property
    def unused_mask(self) -> int:
        """Return a mask of the bits that must be zero."""
        if self.family == "int":
            return 0
        if self.family == "bytes":
            return (1 << (WORD_BITS - self.bits)) - 1
        return ((1 << WORD_BITS) - 1) ^ ((1 << self.bits) - 1)


def find_word_layout(abi_type: str) -> WordLayout | None:
    """Return the layout of a type that occupies exactly one word, or None for other types."""
    if abi_type == "address":
        return WordLayout("address", 160)
    if abi_type == "bool":
        return WordLayout("bool", 1)
    match = re.fullmatch(r"(u?int|bytes)(\d+)", abi_type)
    if match is None:
        return None
    size = int(match[2])
    return WordLayout(match[1], 8 * size if match[1] == "bytes" else size)


def build_word_reader(abi_type: str) -> WordReader:
    """Return a function that reads one word.

    The function raises MalformedError if unused bits are set.

    Raises:
        ValueError: a value of the type does not take exactly one word.
    """
    word_layout = find_word_layout(abi_type)
    if word_layout is None:
        raise ValueError(f"{abi_type}: a value of this type does not take exactly one word")
    if word_layout.family == "int":
        return _build_signed_reader(word_layout.bits)
    read_value = _READER_BY_FAMILY[word_layout.family]
    unused_mask = word_layout.unused_mask
    size = word_layout.bits // 8

    def read_checked(word: bytes) -> object:
        if int.from_bytes(word, "big") & unused_mask:
            raise MalformedError(f"unused bits of a value of type {abi_type} are set")
        return read_value(word, size)

    return read_checked


_READER_BY_FAMILY: dict[str, Callable[[bytes, int], object]] = {
    "uint": lambda word, _: int.from_bytes(word, "big"),
    "bool": lambda word, _: word[-1] == 1,
    "address": lambda word, size: "0x" + word[-size:].hex(),
    "bytes": lambda word, size: "0x" + word[:size].hex(),
}


def _build_signed_reader(bits: int) -> WordReader:
    limit = 1 << (bits - 1)

    def read_checked(word: bytes) -> object:
        value = int.from_bytes(word, "big", signed=True)
        if not -limit <= value < limit:
            raise MalformedError(f"a value is out of range for int{bits}")
        return value

    return read_checked
