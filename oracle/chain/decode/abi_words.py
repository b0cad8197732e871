"""Reads the static words of ABI data: one value per 32-byte word, with a single valid encoding.

Unused bits must be zero (or repeat the sign), as every compiler since Solidity 0.4 leaves them.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from oracle.chain.decode.abi_tails import MalformedError

BITS = 256

Word = Callable[[bytes], object]


class Layout(NamedTuple):
    """The position of a value in its word: `bits` wide, at the low or the high end."""

    family: str
    bits: int

    @property
    def unused(self) -> int:
        """Return the bits that must be zero, as a mask."""
        if self.family == "int":
            return 0
        if self.family == "bytes":
            return (1 << (BITS - self.bits)) - 1
        return ((1 << BITS) - 1) ^ ((1 << self.bits) - 1)


def layout(kind: str) -> Layout | None:
    """Return the layout of a one-word type; None if the type takes more or less than one word."""
    if kind == "address":
        return Layout("address", 160)
    if kind == "bool":
        return Layout("bool", 1)
    found = re.fullmatch(r"(u?int|bytes)(\d+)", kind)
    if found is None:
        return None
    size = int(found[2])
    return Layout(found[1], 8 * size if found[1] == "bytes" else size)


def word_reader(kind: str) -> Word:
    """Return the reader of one word; it raises MalformedError if unused bits are set.

    Raises:
        ValueError: the type is not one word.
    """
    plan = layout(kind)
    if plan is None:
        raise ValueError(f"{kind} is not one word")
    if plan.family == "int":
        return _signed(plan.bits)
    read, unused, size = _READERS[plan.family], plan.unused, plan.bits // 8

    def checked(word: bytes) -> object:
        if int.from_bytes(word, "big") & unused:
            raise MalformedError(f"not a clean {kind}")
        return read(word, size)

    return checked


_READERS: dict[str, Callable[[bytes, int], object]] = {
    "uint": lambda word, _: int.from_bytes(word, "big"),
    "bool": lambda word, _: word[-1] == 1,
    "address": lambda word, size: "0x" + word[-size:].hex(),
    "bytes": lambda word, size: "0x" + word[:size].hex(),
}


def _signed(bits: int) -> Word:
    most = 1 << (bits - 1)

    def checked(word: bytes) -> object:
        value = int.from_bytes(word, "big", signed=True)
        if not -most <= value < most:
            raise MalformedError(f"not a clean int{bits}")
        return value

    return checked
