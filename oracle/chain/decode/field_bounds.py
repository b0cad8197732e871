"""Fits contract values to the fields of domain events, and caps them where needed.

Descriptive values (memory, versions, sizes) are capped at the maximum of their field: anyone may
submit any number there, and the task or node counts all the same. Names and round positions are
never changed. See docs/reference/events-and-jsonl.md#types.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from oracle.chain.decode.abi_tails import MalformedError
from oracle.chain.decode.abi_words import layout
from oracle.chain.decode.call_arguments import array_of
from oracle.chain.decode.log_parts import Getter, TypedValue
from oracle.domain.events import event_fields as kinds
from oracle.domain.events.event_fields import FieldKind
from oracle.domain.events.event_names import FIELD_KINDS
from oracle.domain.events.jsonl_fields import INT63_MAX, UINT32_MAX
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH

_VERSION_PARTS = 3
_LAST_PLACE = 2

# Format a number as a 32-byte hash.
_AS_HASH: Callable[[int], str] = "0x%064x".__mod__


def fitted(field: str, given: TypedValue) -> Getter:
    """Return the getter of the field's value; it raises MalformedError for an invalid value.

    Raises:
        ValueError: no value of this type fits the field.
    """
    fit, expected = _FITTING.get(FIELD_KINDS[field], _NO_FITTING)
    getter = fit(given)
    if getter is None:
        raise ValueError(f"{field} takes {expected}, and this is {given.shown}")
    return getter


def zero_of(kind: str) -> str | int | None:
    """Return the decoded zero value of a type, or None if the type has none."""
    if kind == "address":
        return ZERO_ADDRESS
    if kind == "bytes32":
        return ZERO_HASH
    return 0 if _bits(kind) else "" if kind == "string" else None


def is_unsigned(kind: str) -> bool:
    """Return whether a type is an unsigned integer."""
    return _bits(kind) is not None


def _bits(kind: str) -> int | None:
    """Return the bits of an unsigned integer type; None for any other type."""
    shape = layout(kind)
    return shape.bits if shape is not None and shape.family == "uint" else None


def _address(given: TypedValue) -> Getter | None:
    return given.read if given.kind == "address" else None


def _hash(given: TypedValue) -> Getter | None:
    if given.kind == "bytes32":
        return given.read
    return given.then(_AS_HASH) if _bits(given.kind) else None


def _amount(given: TypedValue) -> Getter | None:
    return given.read if _bits(given.kind) else None


def _bounded(most: int) -> Callable[[TypedValue], Getter | None]:
    def fit(given: TypedValue) -> Getter | None:
        bits = _bits(given.kind)
        if bits is None:
            return None
        if 2**bits - 1 <= most:
            return given.read
        return given.then(lambda value: min(most, value))

    return fit


def _size(given: TypedValue) -> Getter | None:
    """Return the getter of a size; a zero means that the size is absent."""
    bits = _bits(given.kind)
    if bits is None or 2**bits - 1 <= INT63_MAX:
        return given.then(lambda size: size or None) if bits else None
    return given.then(lambda size: min(size, INT63_MAX) or None)


def _place(given: TypedValue) -> Getter | None:
    return given.then(_checked_place) if _bits(given.kind) else None


def _text(given: TypedValue) -> Getter | None:
    return given.read if given.kind == "string" else None


def _texts(given: TypedValue) -> Getter | None:
    element, _ = array_of(given.kind) or ("", None)
    fits = element == "string" or (given.kinds and set(given.kinds) == {"string"})
    return given.read if fits else None


def _version(given: TypedValue) -> Getter | None:
    element, length = array_of(given.kind) or ("", None)
    kinds = given.kinds or (element,) * (length or 0)
    widths = [_bits(kind) for kind in kinds]
    if len(widths) != _VERSION_PARTS or None in widths:
        return None
    if all(2 ** (bits or 0) - 1 <= UINT32_MAX for bits in widths):
        return given.read
    return given.then(lambda version: tuple([min(part, UINT32_MAX) for part in version]))


def _tasks(given: TypedValue) -> Getter | None:
    element, _ = array_of(given.kind) or ("", None)
    kinds = set(given.kinds) or {element}
    if kinds == {"bytes32"}:
        return given.then(_checked_tasks)
    if all(_bits(kind) for kind in kinds):
        return given.then(lambda tasks: _checked_tasks(tuple(map(_AS_HASH, tasks))))
    return None


def _checked_place(value: int) -> int:
    if value > _LAST_PLACE:
        raise MalformedError(f"a round of {value}")
    return value


def _checked_tasks(tasks: tuple[str, ...]) -> tuple[str, ...]:
    if not tasks:
        raise MalformedError("a group without a task")
    return tasks


def _nothing(_given: TypedValue) -> None:
    return None


class _Fitting(NamedTuple):
    """How a contract argument is fitted to one kind of field, and the types it accepts."""

    fit: Callable[[TypedValue], Getter | None]
    expected: str


_NUMBER = "an unsigned number"
_FITTING: Mapping[FieldKind, _Fitting] = {
    kinds.ADDRESS: _Fitting(_address, "an address"),
    kinds.HASH: _Fitting(_hash, f"bytes32 or {_NUMBER}"),
    kinds.HASHES: _Fitting(_tasks, "a list of bytes32 or of unsigned numbers"),
    kinds.AMOUNT: _Fitting(_amount, _NUMBER),
    kinds.TEXT: _Fitting(_text, "a string"),
    kinds.TEXTS: _Fitting(_texts, "a list of strings"),
    kinds.GIGABYTES: _Fitting(_bounded(UINT32_MAX), _NUMBER),
    kinds.SECONDS: _Fitting(_bounded(INT63_MAX), _NUMBER),
    kinds.COUNT: _Fitting(_size, _NUMBER),
    kinds.PLACE: _Fitting(_place, _NUMBER),
    kinds.VERSION: _Fitting(_version, "three unsigned numbers"),
}
# A boolean field, or an enumeration, which needs an enum of the profile.
_NO_FITTING = _Fitting(_nothing, "a constant, or an argument by an enum")


def is_literal_in_bounds(kind: str, literal: object) -> bool:
    """Return whether a value of this type can be equal to a literal of a profile."""
    if isinstance(literal, bool):
        return kind == "bool"
    if isinstance(literal, int):
        return _bits(kind) is not None and 0 <= literal < 2 ** (_bits(kind) or 0)
    if not isinstance(literal, str):
        return False
    shape = layout(kind)
    if shape is not None and shape.family in {"address", "bytes"}:
        return re.fullmatch(rf"0x[0-9a-fA-F]{{{shape.bits // 4}}}", literal) is not None
    return kind == "string"
