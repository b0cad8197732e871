"""Reads one line of JSON strictly: an object, no key twice, no depth that breaks a stack.

See docs/reference/events-and-jsonl.md#the-file-format.
"""

import json
from typing import NamedTuple

_LONGEST_QUOTE = 80
_MOST_BRACKETS = 1_000


def json_object(line: str) -> dict[str, object]:
    """Return the object that a line is, each key once.

    Raises:
        ValueError: it is none, or too deep; the message says what is wrong.
    """
    # Deeper nesting than any event has. A library that we import raises the interpreter's limit
    # on recursion beyond what its stack bears, so this cannot be left to RecursionError.
    if line.count("[") + line.count("{") > _MOST_BRACKETS:
        raise ValueError("broken JSON: too many brackets")
    try:
        said = _DECODER.decode(line)
    except _RepeatedKeyError as error:
        raise ValueError(f"{error}: given twice") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "cannot be read"
        raise ValueError(f"broken JSON: {reason}") from None
    if not isinstance(said, dict):
        raise ValueError(f"not an object: {quoted(said)}")  # noqa: TRY004 - the line is at fault
    return said


class _RepeatedKeyError(ValueError):
    """A key that stands twice in one object."""


class _EndlessInteger(NamedTuple):
    """An integer of more digits than Python reads; no field takes it, so that one is named."""

    digits: str


def _integer(digits: str) -> int | _EndlessInteger:
    try:
        return int(digits)
    except ValueError:
        return _EndlessInteger(digits)


def _reject_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    said = dict(pairs)
    if len(said) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return said


# NaN and Infinity become floats, which no field takes either.
_DECODER = json.JSONDecoder(object_pairs_hook=_reject_repeated_keys, parse_int=_integer)


def quoted(value: object) -> str:
    """Return a value as it was written, cut where it is long."""
    text = value.digits if isinstance(value, _EndlessInteger) else json.dumps(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
