"""Reads the static words of ABI data: one value per 32-byte word, with a single valid encoding.

Unused bits must be zero (or repeat the sign), as in the code of every compiler since Solidity 0.4.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from oracle.chain.decode.abi_tails import MalformedError

WORD_BITS = 256

WordReader = Callable[[bytes], object]


class WordLayout(NamedTuple):
    """The position of a value in its word: `bits` wide, at the low or the high end."""

    family: str
    bits: int

    @property
    def unused_mask(self) -> int:
        """Return the bits that must be zero, as a mask."""
        if self.family == "int":
            return 0
        if self.family == "bytes":
            return (1 << (WORD_BITS - self.bits)) - 1
        return ((1 << WORD_BITS) - 1) ^ ((1 << self.bits) - 1)


def find_word_layout(abi_type: str) -> WordLayout | None:
    """Return the layout of a type that takes exactly one word, or None for any other type."""
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
    """Return a reader of one word, which raises MalformedError if unused bits are set.

    Raises:
        ValueError: a value of the type does not take exactly one word.
    """
    word_layout = find_word_layout(abi_type)
    if word_layout is None:
        raise ValueError(f"{abi_type}: a value of this type does not take exactly one word")
    if word_layout.family == "int":
        return _build_signed_reader(word_layout.bits)
    read_value, unused, size = (
        _READER_BY_FAMILY[word_layout.family],
        word_layout.unused_mask,
        word_layout.bits // 8,
    )

    def read_checked(word: bytes) -> object:
        if int.from_bytes(word, "big") & unused:
            raise MalformedError(f"not a clean {abi_type}")
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
            raise MalformedError(f"not a clean int{bits}")
        return value

    return read_checked
