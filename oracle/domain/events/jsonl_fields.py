"""How single values stand in JSON lines: what is read, refused and written.

A reader turns one JSON value into ours, or raises ValueError saying what it must be.
See docs/reference/events-and-jsonl.md#types.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from sys import intern
from typing import Any, NamedTuple

# The largest integer that every JSON reader keeps exact; above it they are decimal strings.
_EXACT = 2**53
UINT32_MAX = 2**32 - 1
INT63_MAX = 2**63 - 1
_UINT256 = 2**256 - 1
_DIGITS = re.compile(r"[0-9]{1,78}")
_VERSION_PARTS = 3


class Spelling(NamedTuple):
    """How a kind of value is read from JSON, and turned back into what `json.dumps` takes."""

    read: Callable[[object], Any]
    write: Callable[[object], object] = lambda value: value


def wire_int(value: object) -> object:
    """Write a whole number; as a decimal string where it is above 2^53."""
    return str(value) if isinstance(value, int) and value > _EXACT else value


def integer_field(low: int, high: int) -> Spelling:
    """A whole number from `low` to `high`; a decimal string only above 2^53."""
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
    """So many bytes as 0x and hex digits, any case read, lower case kept."""
    pattern = re.compile(rf"0x[0-9a-f]{{{2 * size}}}")

    def read(value: object) -> str:
        text = value.lower() if isinstance(value, str) else ""
        if not pattern.fullmatch(text):
            raise ValueError(f"must be 0x and {2 * size} hex digits")
        # A node or a task stands in many events, and in memory once.
        return intern(text)

    return Spelling(read)


def enum_field(kind: type[StrEnum]) -> Spelling:
    """One of the words of an enumeration."""
    known = {member.value: member for member in kind}

    def read(value: object) -> StrEnum:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return known[value]

    return Spelling(read)


def list_field(entry: Spelling, said: str, *, least: int = 0, most: int | None = None) -> Spelling:
    """A list of such entries; `said` finishes the sentence "must be a list of"."""

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
    # JSON can escape half a character; no database and no terminal takes it.
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
# Below 0: told by a feed, before the block's transactions.
TX_INDEX = integer_field(-INT63_MAX, INT63_MAX)
AT_LEAST_ONE = integer_field(1, INT63_MAX)
PLACE = integer_field(0, 2)
VERSION = list_field(UINT32, "three integers", least=_VERSION_PARTS, most=_VERSION_PARTS)
TASKS = list_field(HASH, "one or more tasks", least=1)
