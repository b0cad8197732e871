"""Converts rule values to JSON, and parses them strictly, field by field."""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field
from typing import Any, get_args, get_origin

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rule_fields import is_fraction

_FRACTION = re.compile(r"(\d{1,3})(?:\.(\d{1,18}))?", re.ASCII)
_TYPE_DESCRIPTIONS: dict[type, str] = {str: "text", int: "a whole number", bool: "true or false"}


def to_json_value(value: object, *, as_decimal: bool) -> object:
    """Return a value as JSON; with `as_decimal`, units of 10^-18 become a decimal string."""
    if as_decimal and isinstance(value, int):
        text = f"{value // UNIT}.{value % UNIT:018d}".rstrip("0")
        return text.removesuffix(".")
    return value


def rule_to_json(field: Field[Any], value: object) -> object:
    """Return a rule's value as JSON."""
    return to_json_value(value, as_decimal=is_fraction(field))


def parse_rule_value(field: Field[Any], value: object) -> Any:  # noqa: ANN401 - any field
    """Parse the result of `rule_to_json`.

    Raises:
        ValueError: the value has another type than the field; the message starts with the field's
            name.
    """
    if value is None and is_optional(field):
        return None
    if is_fraction(field):
        return parse_fraction(field.name, value)
    kind = get_value_type(field)
    if kind is tuple:
        if not isinstance(value, list) or not all(type(entry) is int for entry in value):
            raise ValueError(f"{field.name}: must be a list of whole numbers")
        return tuple(value)
    if type(value) is not kind:
        raise ValueError(f"{field.name}: must be {_TYPE_DESCRIPTIONS[kind]}")
    return value


def parse_fraction(name: str, value: object) -> int:
    """Parse a decimal such as `0.3` as units of 10^-18.

    Raises:
        ValueError: the value is not such a decimal; the message names the field.
    """
    match = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{name}: must be a decimal in quotes, such as "0.3"')
    integer_part, digits = match.groups()
    return int(integer_part) * UNIT + int((digits or "").ljust(18, "0"))


def is_optional(field: Field[Any]) -> bool:
    """Return whether a rule may be None, which disables it."""
    return type(None) in get_args(field.type)


def get_value_type(field: Field[Any]) -> type:
    """Return the type of a rule's value unless None: str, int, bool or tuple (of integers)."""
    if get_origin(field.type) is tuple:
        return tuple
    if is_fraction(field):
        return int
    kinds = get_args(field.type) or (field.type,)
    value_type: type = next(member_type for member_type in kinds if member_type is not type(None))
    return value_type


def find_missing_rules(
    field_by_name: Mapping[str, Field[Any]], values: Mapping[str, object]
) -> list[str]:
    """Return the fields that have no default and are missing from the values."""
    required = [name for name, field in field_by_name.items() if field.default is MISSING]
    return [name for name in required if name not in values]
