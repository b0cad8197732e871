"""Encodes column values such as hashes, positions, lists and amounts in wei.

Hex is stored as bytes, positions and lists as text, and wei as 32 bytes. Each encoding has one
pair of functions, which all repositories use.
"""

from functools import lru_cache
from typing import Any

import msgspec

from oracle.domain.blocks import Position
from oracle.domain.events import event_fields
from oracle.domain.events.jsonl_fields import INT63_MAX
from oracle.domain.events.network_events import Version

_WEI_BYTES = 32
HASH_BYTES = 32
# The largest BIGINT. A larger size or time limit is stored as this value, because no rule
# distinguishes such absurd values.
_MAX_BIGINT = INT63_MAX


def decode_hex(text: str) -> bytes:
    """Convert `0x` hex to bytes."""
    return bytes.fromhex(text[2:])


def encode_hex(value: bytes) -> str:
    """Convert bytes to lower-case `0x` hex."""
    return "0x" + value.hex()


def compute_prefix_range(digits: str, size: int) -> tuple[bytes, bytes]:
    """Return the lowest and the highest key of `size` bytes with this hex prefix."""
    return (
        bytes.fromhex(digits.ljust(2 * size, "0")),
        bytes.fromhex(digits.ljust(2 * size, "f")),
    )


def decode_optional_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])


def encode_optional_hex(value: bytes | None) -> str | None:
    return None if value is None else "0x" + value.hex()


def join_hashes(hashes: tuple[str, ...]) -> bytes:
    """Concatenate 32-byte hashes, given as `0x` hex, to bytes."""
    return bytes.fromhex("".join([text[2:] for text in hashes]))


def split_hashes(value: bytes) -> tuple[str, ...]:
    """Split concatenated 32-byte hashes into `0x` hex, as the inverse of `join_hashes`."""
    hashes_hex = value.hex()
    hash_digits = 2 * HASH_BYTES
    return tuple(
        [
            "0x" + hashes_hex[offset : offset + hash_digits]
            for offset in range(0, len(hashes_hex), hash_digits)
        ]
    )


def encode_wei(amount: int) -> bytes:
    """Encode an amount as 32 big-endian bytes, which sort like the numbers."""
    return amount.to_bytes(_WEI_BYTES, "big")


def encode_optional_wei(amount: int | None) -> bytes | None:
    return None if amount is None else amount.to_bytes(_WEI_BYTES, "big")


def decode_optional_wei(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value, "big")


def clamp_to_bigint(number: int | None) -> int | None:
    """Limit a number to 2^63 - 1, the largest value of BIGINT."""
    return number if number is None or number <= _MAX_BIGINT else _MAX_BIGINT


def format_position(position: Position | None) -> str | None:
    """Format a position as `block:tx:log:sub`."""
    # `%` is a third faster than an f-string, and each task has four positions.
    return None if position is None else "%d:%d:%d:%d" % position  # noqa: UP031


def decode_position(row: Any) -> Position:  # noqa: ANN401  a row of any driver
    """Decode the position in the columns `block`, `tx`, `log` and `sub` of a row."""
    return Position(row.block, row.tx, row.log, row.sub)


def parse_position(text: str) -> Position:
    return Position(*map(int, text.split(":")))


def parse_optional_position(text: str | None) -> Position | None:
    return None if text is None else parse_position(text)


@lru_cache(maxsize=256)
def format_version(version: Version | None) -> str | None:
    return None if version is None else event_fields.format_version(version)


@lru_cache(maxsize=256)
def parse_version(text: str | None) -> Version | None:
    return None if text is None else event_fields.parse_version(text)


@lru_cache(maxsize=1024)
def encode_name_list(names: tuple[str, ...]) -> str:
    """Encode names as a JSON list."""
    return msgspec.json.encode(names).decode()


@lru_cache(maxsize=1024)
def decode_name_list(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])


def escape_nul(text: str | None) -> str | None:
    """Escape NUL characters, which PostgreSQL's text type rejects."""
    if text is None or ("\x00" not in text and "\\" not in text):
        return text
    return text.replace("\\", "\\\\").replace("\x00", "\\0")


def unescape_nul(text: str | None) -> str | None:
    """Restore the text that `escape_nul` has escaped."""
    if text is None or "\\" not in text:
        return text
    return "\\".join(part.replace("\\0", "\x00") for part in text.split("\\\\"))
