"""Converts contract values to fields of domain events, limiting them where needed.

Descriptive numbers (memory, versions, sizes) are limited to the maximum of their field, because
anyone may submit any number, and the task or node has to be counted anyway. Names and positions in
rounds are never changed. See docs/reference/events-and-jsonl.md#types.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from oracle.chain.decode.abi_values import MalformedError, find_word_layout
from oracle.chain.decode.call_arguments import parse_array_type
from oracle.chain.decode.decoder_plan import Getter, TypedValue
from oracle.domain.events import event_fields as kinds
from oracle.domain.events.event_fields import FieldKind
from oracle.domain.events.jsonl_fields import INT63_MAX, UINT32_MAX
from oracle.domain.events.network_events import FIELD_KINDS
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH

_VERSION_PARTS = 3
_MAX_PLACE = 2

_format_as_hash: Callable[[int], str] = "0x%064x".__mod__


def build_field_getter(field: str, typed_value: TypedValue) -> Getter:
    """Return a function that gets a field's value from a decoded log or call.

    The function raises MalformedError if the value is invalid.

    Raises:
        ValueError: no value of this type fits the field.
    """
    find_getter, expected_type = _FIT_BY_FIELD_KIND.get(FIELD_KINDS[field], _NO_FIT)
    getter = find_getter(typed_value)
    if getter is None:
        raise ValueError(f"expected {expected_type}, got {typed_value.type_description}")
    return getter


def find_zero_value(abi_type: str) -> str | int | None:
    """Return the zero value of a type, decoded, or None if it has none."""
    if abi_type == "address":
        return ZERO_ADDRESS
    if abi_type == "bytes32":
        return ZERO_HASH
    return 0 if _find_unsigned_bit_width(abi_type) else "" if abi_type == "string" else None


def is_unsigned_type(abi_type: str) -> bool:
    """Return whether a type is an unsigned integer."""
    return _find_unsigned_bit_width(abi_type) is not None


def _find_unsigned_bit_width(abi_type: str) -> int | None:
    """Return the bit width of an unsigned integer type, or None for any other type."""
    word_layout = find_word_layout(abi_type)
    return word_layout.bits if word_layout is not None and word_layout.family == "uint" else None


def _find_address_getter(typed_value: TypedValue) -> Getter | None:
    return typed_value.getter if typed_value.abi_type == "address" else None


def _find_hash_getter(typed_value: TypedValue) -> Getter | None:
    if typed_value.abi_type == "bytes32":
        return typed_value.getter
    if _find_unsigned_bit_width(typed_value.abi_type):
        return typed_value.build_converting_getter(_format_as_hash)
    return None


def _find_amount_getter(typed_value: TypedValue) -> Getter | None:
    return typed_value.getter if _find_unsigned_bit_width(typed_value.abi_type) else None


def _build_capped_getter_finder(max_value: int) -> Callable[[TypedValue], Getter | None]:
    def find_capped_getter(typed_value: TypedValue) -> Getter | None:
        bits = _find_unsigned_bit_width(typed_value.abi_type)
        if bits is None:
            return None
        if 2**bits - 1 <= max_value:
            return typed_value.getter
        return typed_value.build_converting_getter(lambda value: min(max_value, value))

    return find_capped_getter


def _find_size_getter(typed_value: TypedValue) -> Getter | None:
    """Return the getter of an unsigned size field.

    The getter returns None if the size is zero.
    """
    bits = _find_unsigned_bit_width(typed_value.abi_type)
    if bits is None or 2**bits - 1 <= INT63_MAX:
        return typed_value.build_converting_getter(lambda size: size or None) if bits else None
    return typed_value.build_converting_getter(lambda size: min(size, INT63_MAX) or None)


def _find_round_position_getter(typed_value: TypedValue) -> Getter | None:
    if _find_unsigned_bit_width(typed_value.abi_type):
        return typed_value.build_converting_getter(_validate_round_position)
    return None


def _find_text_getter(typed_value: TypedValue) -> Getter | None:
    return typed_value.getter if typed_value.abi_type == "string" else None


def _find_text_list_getter(typed_value: TypedValue) -> Getter | None:
    element, _ = parse_array_type(typed_value.abi_type) or ("", None)
    is_text_list = element == "string" or (
        typed_value.abi_types and set(typed_value.abi_types) == {"string"}
    )
    return typed_value.getter if is_text_list else None


def _find_version_getter(typed_value: TypedValue) -> Getter | None:
    element, length = parse_array_type(typed_value.abi_type) or ("", None)
    abi_types = typed_value.abi_types or (element,) * (length or 0)
    widths = [_find_unsigned_bit_width(abi_type) for abi_type in abi_types]
    if len(widths) != _VERSION_PARTS or None in widths:
        return None
    if all(2 ** (bits or 0) - 1 <= UINT32_MAX for bits in widths):
        return typed_value.getter
    return typed_value.build_converting_getter(
        lambda version: tuple([min(part, UINT32_MAX) for part in version])
    )


def _find_task_list_getter(typed_value: TypedValue) -> Getter | None:
    element, _ = parse_array_type(typed_value.abi_type) or ("", None)
    abi_types = set(typed_value.abi_types) or {element}
    if abi_types == {"bytes32"}:
        return typed_value.build_converting_getter(_validate_tasks)
    if all(_find_unsigned_bit_width(abi_type) for abi_type in abi_types):
        return typed_value.build_converting_getter(
            lambda tasks: _validate_tasks(tuple(map(_format_as_hash, tasks)))
        )
    return None


def _validate_round_position(value: int) -> int:
    if value > _MAX_PLACE:
        raise MalformedError(f"the round position is {value}; expected at most {_MAX_PLACE}")
    return value


def _validate_tasks(tasks: tuple[str, ...]) -> tuple[str, ...]:
    if not tasks:
        raise MalformedError("the group has no tasks")
    return tasks


def _reject_all_types(_typed_value: TypedValue) -> None:
    return None


# Returns the getter for a contract argument, or None if the argument's type does not fit the
# field. The string describes the expected type.
_FieldFit: TypeAlias = tuple[Callable[[TypedValue], Getter | None], str]
_NUMBER = "an unsigned number"
_FIT_BY_FIELD_KIND: Mapping[FieldKind, _FieldFit] = {
    kinds.ADDRESS: (_find_address_getter, "an address"),
    kinds.HASH: (_find_hash_getter, f"bytes32 or {_NUMBER}"),
    kinds.HASHES: (_find_task_list_getter, "a list of bytes32 or of unsigned numbers"),
    kinds.AMOUNT: (_find_amount_getter, _NUMBER),
    kinds.TEXT: (_find_text_getter, "a string"),
    kinds.TEXTS: (_find_text_list_getter, "a list of strings"),
    kinds.GIGABYTES: (_build_capped_getter_finder(UINT32_MAX), _NUMBER),
    kinds.SECONDS: (_build_capped_getter_finder(INT63_MAX), _NUMBER),
    kinds.COUNT: (_find_size_getter, _NUMBER),
    kinds.PLACE: (_find_round_position_getter, _NUMBER),
    kinds.VERSION: (_find_version_getter, "three unsigned numbers"),
}
# Boolean fields, and enumeration fields for which the profile has no enum, accept no argument
# type.
_NO_FIT: _FieldFit = (_reject_all_types, "a constant, or an argument with an enum")


def can_equal_literal(abi_type: str, literal: object) -> bool:
    """Return whether a value of this type can equal a literal of the profile."""
    if isinstance(literal, bool):
        return abi_type == "bool"
    if isinstance(literal, int):
        return _find_unsigned_bit_width(abi_type) is not None and 0 <= literal < 2 ** (
            _find_unsigned_bit_width(abi_type) or 0
        )
    if not isinstance(literal, str):
        return False
    word_layout = find_word_layout(abi_type)
    if word_layout is not None and word_layout.family in {"address", "bytes"}:
        return re.fullmatch(rf"0x[0-9a-fA-F]{{{word_layout.bits // 4}}}", literal) is not None
    return abi_type == "string"
