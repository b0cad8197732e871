"""Codecs for single values in JSON lines.

A decoder converts one JSON value, or raises ValueError with a message that lists the valid values.
See docs/reference/events-and-jsonl.md#types.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from sys import intern
from typing import Any, NamedTuple

# JSON parsers represent integers up to this one exactly; larger ones become decimal strings.
_MAX_EXACT_INT = 2**53
UINT32_MAX = 2**32 - 1
INT63_MAX = 2**63 - 1
_UINT256_MAX = 2**256 - 1
_DIGITS = re.compile(r"[0-9]{1,78}")
_VERSION_PARTS = 3


class FieldCodec(NamedTuple):
    """Decodes one kind of value from JSON, and encodes it as a value for `json.dumps`."""

    decode: Callable[[object], Any]
    encode: Callable[[object], object] = lambda value: value


def encode_int(value: object) -> object:
    """Return an integer for JSON, as a decimal string if it is above 2^53."""
    return str(value) if isinstance(value, int) and value > _MAX_EXACT_INT else value


def build_integer_codec(minimum: int, maximum: int) -> FieldCodec:
    """Return a codec for integers in a range.

    A decimal string is only valid above 2^53.
    """
    message = f"must be a whole number from {minimum} to {_format_bound(maximum)}"

    def decode(value: object) -> int:
        number = value
        if isinstance(value, str) and _DIGITS.fullmatch(value) and int(value) > _MAX_EXACT_INT:
            number = int(value)
        # `type` instead of `isinstance`, because a bool is an instance of int.
        if type(number) is not int or not minimum <= number <= maximum:
            raise ValueError(message)
        return number

    return FieldCodec(decode, encode_int)


def _format_bound(number: int) -> str:
    return str(number) if number < UINT32_MAX else f"2^{number.bit_length()}-1"


def build_hex_codec(size: int) -> FieldCodec:
    """Return a codec for byte strings of `size` bytes, written as lower-case `0x` hex."""
    pattern = re.compile(rf"0x[0-9a-f]{{{2 * size}}}")

    def decode(value: object) -> str:
        text = value.lower() if isinstance(value, str) else ""
        if not pattern.fullmatch(text):
            raise ValueError(f"must be 0x and {2 * size} hex digits")
        # The same node or task occurs in many events, so its text is interned.
        return intern(text)

    return FieldCodec(decode)


def build_enum_codec(enum_type: type[StrEnum]) -> FieldCodec:
    """Return a codec for the members of an enumeration."""
    member_by_value = {member.value: member for member in enum_type}

    def decode(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in member_by_value:
            raise ValueError(f"must be one of {', '.join(member_by_value)}")
        return member_by_value[value]

    return FieldCodec(decode)


def build_list_codec(
    entry: FieldCodec, description: str, *, min_length: int = 0, max_length: int | None = None
) -> FieldCodec:
    """Return a codec for lists of entries.

    Error messages name the list by `description`.
    """

    def decode(value: object) -> tuple[object, ...]:
        if (
            not isinstance(value, list)
            or len(value) < min_length
            or (max_length and len(value) > max_length)
        ):
            raise ValueError(f"must be a list of {description}")
        return tuple(entry.decode(item) for item in value)

    return FieldCodec(decode)


def _decode_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - as of every other field
    return value


def _decode_wei(value: object) -> int:
    number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if type(number) is not int or not 0 <= number <= _UINT256_MAX:
        raise ValueError("must be a decimal string or a whole number from 0 to 2^256-1")
    return number


def _decode_text(value: object) -> str:
    # JSON can escape lone surrogates, which databases and terminals reject.
    if not isinstance(value, str) or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("must be a string of valid Unicode")
    return value


ADDRESS = build_hex_codec(20)
HASH = build_hex_codec(32)
BOOL = FieldCodec(_decode_bool)
TEXT = FieldCodec(_decode_text)
TEXTS = build_list_codec(TEXT, "strings")
WEI = FieldCodec(_decode_wei, str)
UINT32 = build_integer_codec(0, UINT32_MAX)
INT63 = build_integer_codec(0, INT63_MAX)
LOG_INDEX = build_integer_codec(-1, INT63_MAX)
# Negative for feed events, which precede the block's transactions.
TX_INDEX = build_integer_codec(-INT63_MAX, INT63_MAX)
AT_LEAST_ONE = build_integer_codec(1, INT63_MAX)
PLACE = build_integer_codec(0, 2)
VERSION = build_list_codec(
    UINT32, "three integers", min_length=_VERSION_PARTS, max_length=_VERSION_PARTS
)
TASKS = build_list_codec(HASH, "one or more tasks", min_length=1)
