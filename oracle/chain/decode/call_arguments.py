"""Decodes call arguments like the EVM does: at the offsets given in the input.

A caller may lay out the input in any way, and the contract accepts it, so the log decoders, which
accept only one layout, would lose valid calls. Single words are checked as strictly as in logs.
See docs/explanation/ingest.md#decoding.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oracle.chain.decode.abi_tails import WORD, MalformedError, text_of
from oracle.chain.decode.abi_words import layout, word_reader

# Many offsets may point at the same data: a small input must not decode to a large value.
MOST_BYTES = 4 * 1024 * 1024

# The bytes after the selector -> the values, in order.
Arguments = Callable[[bytes], tuple[Any, ...]]


@dataclass(slots=True)
class _Input:
    """The call data, and the number of bytes that may still be read from it."""

    raw: bytes
    left: int

    def take(self, at: int, size: int) -> bytes:
        if at + size > len(self.raw):
            raise MalformedError("too short")
        self.left -= size
        if self.left < 0:
            raise MalformedError("too much of it")
        return self.raw[at : at + size]

    def number(self, at: int) -> int:
        return int.from_bytes(self.take(at, WORD), "big")


@dataclass(frozen=True, slots=True)
class _Kind:
    """The reader of one ABI type, and the size of its head.

    `read(source, offset)`: `offset` is that of the value itself, after following the offset word
    of a dynamic type.
    """

    size: int
    is_far: bool
    read: Callable[[_Input, int], Any]


def arguments_reader(kinds: Sequence[str]) -> Arguments:
    """Return the decoder of arguments of these canonical types.

    Values have the same types as those of `build_log_decoder`; structs are tuples. The decoder
    raises ValueError for bytes that are not such arguments.

    Raises:
        ValueError: one of the types is unknown.
    """
    whole = _struct([_kind_of(kind) for kind in kinds])

    def read(raw: bytes) -> tuple[Any, ...]:
        values: tuple[Any, ...] = whole.read(_Input(raw, MOST_BYTES), 0)
        return values

    return read


def parts_of(kind: str) -> list[str] | None:
    """Return the types of a tuple's components, or None if the type is not a tuple."""
    if not (kind.startswith("(") and kind.endswith(")")):
        return None
    parts, depth, start = [], 0, 1
    for place, letter in enumerate(kind[1:-1] + ",", start=1):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append(kind[start:place])
            start = place + 1
    return [] if parts == [""] else parts


def array_of(kind: str) -> tuple[str, int | None] | None:
    """Return an array's element type and fixed length, if any; None if it is not an array."""
    found = re.fullmatch(r"(.+)\[(\d*)\]", kind)
    if found is None:
        return None
    return found[1], int(found[2]) if found[2] else None


def _kind_of(kind: str) -> _Kind:
    array = array_of(kind)
    if array is not None:
        element, length = _kind_of(array[0]), array[1]
        return _list(element) if length is None else _struct([element] * length)
    parts = parts_of(kind)
    if parts is not None:
        return _struct([_kind_of(part) for part in parts])
    if kind in {"string", "bytes"}:
        return _Kind(WORD, is_far=True, read=_text if kind == "string" else _bytes)
    if layout(kind) is None:
        raise ValueError(f"no decoder for the type {kind}")
    word = word_reader(kind)
    return _Kind(WORD, is_far=False, read=lambda given, at: word(given.take(at, WORD)))


def _content(given: _Input, at: int) -> bytes:
    return given.take(at + WORD, given.number(at))


def _text(given: _Input, at: int) -> str:
    return text_of(_content(given, at))


def _bytes(given: _Input, at: int) -> str:
    return "0x" + _content(given, at).hex()


def _list(element: _Kind) -> _Kind:
    def read(given: _Input, at: int) -> tuple[Any, ...]:
        count = given.number(at)
        if count * element.size > len(given.raw):
            raise MalformedError("too short")
        return _row(given, at + WORD, [element] * count)

    return _Kind(WORD, is_far=True, read=read)


def _struct(parts: Sequence[_Kind]) -> _Kind:
    is_far = any(part.is_far for part in parts)
    size = WORD if is_far else sum(part.size for part in parts)
    return _Kind(size, is_far, lambda given, at: _row(given, at, parts))


def _row(given: _Input, start: int, parts: Sequence[_Kind]) -> tuple[Any, ...]:
    values, at = [], start
    for part in parts:
        values.append(part.read(given, start + given.number(at) if part.is_far else at))
        at += part.size
    return tuple(values)
