"""Reads the dynamic part of ABI data: strings, bytes and arrays behind the static words.

Decoding is strict: the tails must be laid out as Solidity's `abi.encode` does, without gaps and
with zero padding, so that the data has only one interpretation and no hidden bytes.
"""

from collections.abc import Callable

WORD = 32


class MalformedError(ValueError):
    """The bytes do not match the ABI; the message gives the reason."""


# (bytes, position of the value) -> (value, position after it)
TailReader = Callable[[bytes, int], tuple[object, int]]


def read_uint(raw: bytes, offset: int) -> int:
    """Return the unsigned 32-byte word at a byte offset."""
    if len(raw) < offset + WORD:
        raise MalformedError("too short")
    return int.from_bytes(raw[offset : offset + WORD], "big")


def read_bytes(raw: bytes, offset: int) -> tuple[bytes, int]:
    """Return the bytes whose length is at `offset`, and the offset after them."""
    start = offset + WORD
    stop = start + read_uint(raw, offset)
    end = stop + (start - stop) % WORD
    if end > len(raw):
        raise MalformedError("too short")
    if raw[stop:end].strip(b"\0"):
        raise MalformedError("padding is not zero")
    return raw[start:stop], end


def read_hex(raw: bytes, offset: int) -> tuple[str, int]:
    """Return bytes of any length as `0x` hex, and the offset after them."""
    value, end = read_bytes(raw, offset)
    return "0x" + value.hex(), end


def read_string(raw: bytes, offset: int) -> tuple[str, int]:
    """Return the string at `offset`, decoded by `decode_string`, and the offset after it."""
    value, end = read_bytes(raw, offset)
    return decode_string(value), end


# Prefix of strings that are not valid text; valid text with this prefix is escaped too.
_INVALID_TEXT_PREFIX = "\ufffd0x"


def decode_string(value: bytes) -> str:
    """Return a contract's string as text that every database accepts, without collisions.

    Anyone may write any bytes into a Solidity string. A value that is not UTF-8, or contains NUL,
    which PostgreSQL rejects, becomes U+FFFD, `0x` and its bytes in hex. An invalid model name
    therefore cannot stop the daemon, no information is lost, and different values stay different.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return _INVALID_TEXT_PREFIX + value.hex()
    return (
        _INVALID_TEXT_PREFIX + value.hex()
        if "\0" in text or text.startswith(_INVALID_TEXT_PREFIX)
        else text
    )


def read_hash_array(raw: bytes, offset: int) -> tuple[object, int]:
    """Return an array of 32-byte words as `0x` hex; a fast special case of the array reader."""
    start = offset + WORD
    end = start + WORD * read_uint(raw, offset)
    if end > len(raw):
        raise MalformedError("too short")
    text = raw[start:end].hex()
    return tuple(
        ["0x" + text[position : position + 64] for position in range(0, len(text), 64)]
    ), end


def build_word_array_reader(read_word: Callable[[bytes], object]) -> TailReader:
    """Return a reader of arrays whose elements are one word each."""

    def read_array(raw: bytes, offset: int) -> tuple[object, int]:
        start = offset + WORD
        end = start + WORD * read_uint(raw, offset)
        if end > len(raw):
            raise MalformedError("too short")
        return tuple(
            read_word(raw[position : position + WORD]) for position in range(start, end, WORD)
        ), end

    return read_array


def build_array_reader(read_element: TailReader) -> TailReader:
    """Return a reader of arrays whose elements have a dynamic size."""

    def read_array(raw: bytes, offset: int) -> tuple[object, int]:
        heads_start = offset + WORD
        count = read_uint(raw, offset)
        end = heads_start + WORD * count
        if end > len(raw):
            raise MalformedError("too short")
        values = []
        for position in range(heads_start, end, WORD):
            if heads_start + read_uint(raw, position) != end:
                raise MalformedError("an offset leaves a gap")
            value, end = read_element(raw, end)
            values.append(value)
        return tuple(values), end

    return read_array
