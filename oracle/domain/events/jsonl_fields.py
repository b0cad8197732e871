"""Codecs of single values in JSON lines.

A decoder converts one JSON value, or raises ValueError with the valid values. See
docs/reference/events-and-jsonl.md#types.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from sys import intern
from typing import Any, NamedTuple

# The largest integer that every JSON reader keeps exact; larger ones are decimal strings.
_EXACT = 2**53
UINT32_MAX = 2**32 - 1
INT63_MAX = 2**63 - 1
_UINT256 = 2**256 - 1
_DIGITS = re.compile(r"[0-9]{1,78}")
_VERSION_PARTS = 3


class Spelling(NamedTuple):
    """A codec of one kind of value: from a JSON value, and to a value for `json.dumps`."""

    read: Callable[[object], Any]
    write: Callable[[object], object] = lambda value: value


def wire_int(value: object) -> object:
    """Encode an integer, as a decimal string if it is above 2^53."""
    return str(value) if isinstance(value, int) and value > _EXACT else value


def integer_field(low: int, high: int) -> Spelling:
    """Return the codec of an integer in a range; a decimal string is valid only above 2^53."""
    said = f"must be a whole number from {low} to {_power(high)}"

    def read(value: object) -> int:
        number = value
        if isinstance(value, str) and _DIGITS.fullmatch(value) and int(value) > _EXACT:
            number = int(value)
        # `type`, because a bool is an int.
        if type(number) is not int or not low <= number <= high:
            raise ValueError(said)
        return number

    return Spelling(read, wire_int)


def _power(number: int) -> str:
    return str(number) if number < UINT32_MAX else f"2^{number.bit_length()}-1"


def hex_field(size: int) -> Spelling:
    """Return the codec of `size` bytes as 0x and hex digits, converted to lower case."""
    pattern = re.compile(rf"0x[0-9a-f]{{{2 * size}}}")

    def read(value: object) -> str:
        text = value.lower() if isinstance(value, str) else ""
        if not pattern.fullmatch(text):
            raise ValueError(f"must be 0x and {2 * size} hex digits")
        # A node or a task occurs in many events, but only once in memory.
        return intern(text)

    return Spelling(read)


def enum_field(kind: type[StrEnum]) -> Spelling:
    """Return the codec of a member of an enumeration."""
    known = {member.value: member for member in kind}

    def read(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return known[value]

    return Spelling(read)


def list_field(entry: Spelling, said: str, *, least: int = 0, most: int | None = None) -> Spelling:
    """Return the codec of a list of entries; `description` completes "must be a list of"."""

    def read(value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) < least or (most and len(value) > most):
            raise ValueError(f"must be a list of {said}")
        return tuple(entry.read(part) for part in value)

    return Spelling(read)


def _read_truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - as of every other field
    return value


def _read_wei(value: object) -> int:
    number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if type(number) is not int or not 0 <= number <= _UINT256:
        raise ValueError("must be a decimal string or a whole number from 0 to 2^256-1")
    return number


def _read_text(value: object) -> str:
    # JSON can escape lone surrogates, which databases and terminals reject.
    if not isinstance(value, str) or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("must be text")
    return value


ADDRESS = hex_field(20)
HASH = hex_field(32)
TRUTH = Spelling(_read_truth)
TEXT = Spelling(_read_text)
TEXTS = list_field(TEXT, "strings")
WEI = Spelling(_read_wei, str)
UINT32 = integer_field(0, UINT32_MAX)
INT63 = integer_field(0, INT63_MAX)
LOG_INDEX = integer_field(-1, INT63_MAX)
# Below 0 for events of a feed, which precede the block's transactions.
TX_INDEX = integer_field(-INT63_MAX, INT63_MAX)
AT_LEAST_ONE = integer_field(1, INT63_MAX)
PLACE = integer_field(0, 2)
VERSION = list_field(UINT32, "three integers", least=_VERSION_PARTS, most=_VERSION_PARTS)
TASKS = list_field(HASH, "one or more tasks", least=1)
