"""Converts rule values to JSON, and parses them strictly, field by field."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field
from typing import Any, get_args, get_origin

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rule_fields import is_fraction

_FRACTION = re.compile(r"(\d{1,3})(?:\.(\d{1,18}))?", re.ASCII)
_SAID: dict[type, str] = {str: "text", int: "a whole number", bool: "true or false"}


def json_value(value: object, *, as_decimal: bool) -> object:
    """Return a value as JSON; `as_decimal`: units of 10^-18 become decimal text."""
    if as_decimal and isinstance(value, int):
        text = f"{value // UNIT}.{value % UNIT:018d}".rstrip("0")
        return text.removesuffix(".")
    return value


def rule_value(field: Field[Any], value: object) -> object:
    """Return a rule's value as JSON."""
    return json_value(value, as_decimal=is_fraction(field))


def read_value(field: Field[Any], value: object) -> Any:  # noqa: ANN401 - any field
    """Parse the result of `rule_to_json`.

    Raises:
        ValueError: the value has another type than the field; the field is named, without a path.
    """
    if value is None and may_be_absent(field):
        return None
    if is_fraction(field):
        return fraction(field.name, value)
    kind = kind_of(field)
    if kind is tuple:
        if not isinstance(value, list) or not all(type(entry) is int for entry in value):
            raise ValueError(f"{field.name}: must be a list of whole numbers")
        return tuple(value)
    if type(value) is not kind:
        raise ValueError(f"{field.name}: must be {_SAID[kind]}")
    return value


def fraction(name: str, value: object) -> int:
    """Parse a decimal such as `0.3` as units of 10^-18.

    Raises:
        ValueError: the value is no such decimal; the field is named.
    """
    match = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{name}: must be a decimal in quotes, such as "0.3"')
    whole, digits = match.groups()
    return int(whole) * UNIT + int((digits or "").ljust(18, "0"))


def may_be_absent(field: Field[Any]) -> bool:
    """Return whether a rule may be None, which disables it."""
    return type(None) in get_args(field.type)


def kind_of(field: Field[Any]) -> type:
    """Return the type of a rule's value when set: str, int, bool or tuple (of integers)."""
    if get_origin(field.type) is tuple:
        return tuple
    if is_fraction(field):
        return int
    kinds = get_args(field.type) or (field.type,)
    kind: type = next(each for each in kinds if each is not type(None))
    return kind


def missing_rules(known: Mapping[str, Field[Any]], values: Mapping[str, object]) -> list[str]:
    """Return the fields without a default that the values lack."""
    required = [name for name, field in known.items() if field.default is MISSING]
    return [name for name in required if name not in values]
