"""Reads the dynamic part of ABI data: strings, bytes and arrays behind the static words.

Decoding is strict: the tails must be laid out as Solidity's `abi.encode` does, without gaps and
with zero padding, so that the data has only one interpretation and no hidden bytes.
"""

from collections.abc import Callable

WORD = 32


class MalformedError(ValueError):
    """The bytes do not match the ABI; the message gives the reason."""


# (bytes, position of the value) -> (value, position after it)
Tail = Callable[[bytes, int], tuple[object, int]]


def word_at(raw: bytes, at: int) -> int:
    """Return the unsigned 32-byte word at a byte offset."""
    if len(raw) < at + WORD:
        raise MalformedError("too short")
    return int.from_bytes(raw[at : at + WORD], "big")


def bytes_at(raw: bytes, at: int) -> tuple[bytes, int]:
    """Return the bytes whose length is at `offset`, and the offset after them."""
    start = at + WORD
    stop = start + word_at(raw, at)
    end = stop + (start - stop) % WORD
    if end > len(raw):
        raise MalformedError("too short")
    if raw[stop:end].strip(b"\0"):
        raise MalformedError("padding is not zero")
    return raw[start:stop], end


def hex_at(raw: bytes, at: int) -> tuple[str, int]:
    """Return bytes of any length as `0x` hex, and the offset after them."""
    value, end = bytes_at(raw, at)
    return "0x" + value.hex(), end


def text_at(raw: bytes, at: int) -> tuple[str, int]:
    """Return a string, see `decode_string`, and the offset after it."""
    value, end = bytes_at(raw, at)
    return text_of(value), end


# Prefix of strings that are not valid text; valid text with this prefix is escaped too.
_MARK = "\ufffd0x"


def text_of(value: bytes) -> str:
    """Return a contract's string as text that every database accepts, without collisions.

    Anyone may write any bytes into a Solidity string. A value that is not UTF-8, or contains NUL,
    which PostgreSQL rejects, becomes U+FFFD, `0x` and its bytes in hex. A model name cannot stop
    the daemon that way, no information is lost, and different values stay different.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return _MARK + value.hex()
    return _MARK + value.hex() if "\0" in text or text.startswith(_MARK) else text


def hashes_at(raw: bytes, at: int) -> tuple[object, int]:
    """Return an array of 32-byte words as `0x` hex; a fast special case of the array reader."""
    start = at + WORD
    end = start + WORD * word_at(raw, at)
    if end > len(raw):
        raise MalformedError("too short")
    text = raw[start:end].hex()
    return tuple(["0x" + text[p : p + 64] for p in range(0, len(text), 64)]), end


def words_of(word: Callable[[bytes], object]) -> Tail:
    """Return a reader of arrays whose elements are one word each."""

    def array_at(raw: bytes, at: int) -> tuple[object, int]:
        start = at + WORD
        end = start + WORD * word_at(raw, at)
        if end > len(raw):
            raise MalformedError("too short")
        return tuple(word(raw[p : p + WORD]) for p in range(start, end, WORD)), end

    return array_at


def array_of(element: Tail) -> Tail:
    """Return a reader of arrays whose elements have a dynamic size."""

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
