"""Reads the variable part of ABI data: strings, bytes and arrays behind the fixed words.

Strict: what follows must be laid out as Solidity's `abi.encode` does, without gaps and with
zero padding, so that there is one reading of it and nothing is hidden between the fields.
"""

from collections.abc import Callable

WORD = 32


class MalformedError(ValueError):
    """The bytes are not what the ABI says; the sentence tells what is wrong."""


# (bytes, position of the value) -> (value, position after it)
Tail = Callable[[bytes, int], tuple[object, int]]


def word_at(raw: bytes, at: int) -> int:
    """Return the unsigned word at a byte position."""
    if len(raw) < at + WORD:
        raise MalformedError("too short")
    return int.from_bytes(raw[at : at + WORD], "big")


def bytes_at(raw: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes whose length stands at `at`."""
    start = at + WORD
    stop = start + word_at(raw, at)
    end = stop + (start - stop) % WORD
    if end > len(raw):
        raise MalformedError("too short")
    if raw[stop:end].strip(b"\0"):
        raise MalformedError("padding is not zero")
    return raw[start:stop], end


def hex_at(raw: bytes, at: int) -> tuple[str, int]:
    """Return bytes of any length as `0x` hex."""
    value, end = bytes_at(raw, at)
    return "0x" + value.hex(), end


def text_at(raw: bytes, at: int) -> tuple[str, int]:
    """Return a string; see `text_of`."""
    value, end = bytes_at(raw, at)
    return text_of(value), end


# Marks a string that is no text; nobody's own text may begin like that.
_MARK = "\ufffd0x"


def text_of(value: bytes) -> str:
    """Return a contract's string as text that any database takes, each as no other one.

    Anybody may write any bytes into a Solidity string. What is no UTF-8, or holds NUL, which
    PostgreSQL refuses, becomes U+FFFD, `0x` and its bytes in hex: nobody can stop the daemon by
    the name of a model, nothing is lost, and no two of them look the same.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return _MARK + value.hex()
    return _MARK + value.hex() if "\0" in text or text.startswith(_MARK) else text


def hashes_at(raw: bytes, at: int) -> tuple[object, int]:
    """Return an array of 32-byte words as `0x` hex; what `words_of` does, much faster."""
    start = at + WORD
    end = start + WORD * word_at(raw, at)
    if end > len(raw):
        raise MalformedError("too short")
    text = raw[start:end].hex()
    return tuple(["0x" + text[p : p + 64] for p in range(0, len(text), 64)]), end


def words_of(word: Callable[[bytes], object]) -> Tail:
    """Return the reader of an array of one-word elements."""

    def array_at(raw: bytes, at: int) -> tuple[object, int]:
        start = at + WORD
        end = start + WORD * word_at(raw, at)
        if end > len(raw):
            raise MalformedError("too short")
        return tuple(word(raw[p : p + WORD]) for p in range(start, end, WORD)), end

    return array_at


def array_of(element: Tail) -> Tail:
    """Return the reader of an array whose elements have no fixed size."""

    def array_at(raw: bytes, at: int) -> tuple[object, int]:
        heads = at + WORD
        count = word_at(raw, at)
        end = heads + WORD * count
        if end > len(raw):
            raise MalformedError("too short")
        values = []
        for place in range(heads, end, WORD):
            if heads + word_at(raw, place) != end:
                raise MalformedError("an offset leaves a gap")
            value, end = element(raw, end)
            values.append(value)
        return tuple(values), end

    return array_at
