"""Reads what a call was given, as the EVM does: wherever its offsets point.

Whoever calls a contract may lay out the input as he likes, and the contract takes it; so the
decoders of logs, which know one layout only, would lose his call. Words are as strict here.
See docs/explanation/ingest.md#decoding.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oracle.chain.decode.abi_tails import WORD, MalformedError, text_of
from oracle.chain.decode.abi_words import layout, word_reader

# Offsets may point at one place again and again: a small input must not become a large value.
MOST_BYTES = 4 * 1024 * 1024

# The bytes after the selector -> the values, in order.
Arguments = Callable[[bytes], tuple[Any, ...]]


@dataclass(slots=True)
class _Input:
    """The bytes that are read, and how many more may be taken of them."""

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
    """A type: how many bytes it takes where it stands, and how it is read from there.

    `read(given, at)`: `at` is the value itself, where an offset led to it if `is_far`.
    """

    size: int
    is_far: bool
    read: Callable[[_Input, int], Any]


def arguments_reader(kinds: Sequence[str]) -> Arguments:
    """Return the reader of arguments of these canonical types.

    Values are as `decoder_of` gives them (decode.py); structs are tuples. It raises ValueError
    for bytes that are no such arguments.

    Raises:
        ValueError: one is no type.
    """
    whole = _struct([_kind_of(kind) for kind in kinds])

    def read(raw: bytes) -> tuple[Any, ...]:
        values: tuple[Any, ...] = whole.read(_Input(raw, MOST_BYTES), 0)
        return values

    return read


def parts_of(kind: str) -> list[str] | None:
    """Return the types of a struct's members; None for what is no struct."""
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
    """Return an array's element type and its fixed length, if any; None for what is no array."""
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
