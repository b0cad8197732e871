"""Declares each rule in one place, with its default, meaning, source, bounds and JSON form.

The errors of a rule, `rules show`, `--set` and the rules of the read API are all derived from its
field. Values are parsed from JSON strictly, field by field.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

from oracle.domain.fixed_point import UNIT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# A number in units of 10^-18. Fractions are decimal strings in JSON; all other numbers are
# integers.
Fraction = Annotated[int, "units of 10^-18"]

_KEY = "rule"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RuleBounds:
    """The valid values of a rule, and the error message for invalid values."""

    accepts: Callable[[Any], bool]
    error_message: str
    # The valid values of a string rule.
    choices: tuple[str, ...] = ()


def one_of(*words: str) -> RuleBounds:
    """Return bounds that accept only the given texts."""
    return RuleBounds(words.__contains__, f"must be one of {', '.join(words)}", words)


def in_range(low: int, high: int, unit: int = 1) -> RuleBounds:
    """Return bounds that accept numbers from `low` to `high`.

    Both are included, and are in units of `unit`.
    """
    return RuleBounds(
        lambda value: low * unit <= value <= high * unit, f"must be {low} to {high}"
    )  # fmt: skip


def _is_ascending(values: tuple[int, ...]) -> bool:
    return all(a < b for a, b in pairwise(values))


POSITIVE = RuleBounds(lambda value: value >= 1, "must be 1 or more")
NOT_NEGATIVE = RuleBounds(lambda value: value >= 0, "must be 0 or more")
NOT_EMPTY = RuleBounds(bool, "must not be empty")
SHARE = in_range(0, 1, UNIT)
FACTOR = RuleBounds(lambda value: 0 < value <= UNIT, "must be above 0, at most 1")
AT_MOST_ONE = RuleBounds(lambda value: value <= UNIT, "must be at most 1")
ASCENDING_TIMES = RuleBounds(_is_ascending, "must be ascending block times")


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """The metadata of a rule, besides its name, type and default."""

    # One line for the operator who chooses the value. It ends with the source
    # (docs/reference/sources.md; `relay` is Crynux's production relay, `ours` a decision of this
    # project). None if the field is not a rule.
    meaning: str | None
    bounds: RuleBounds | None = None
    # A string that names the replacement if legacy rules ignore this rule, or None.
    idle: str | None = None
    # True if the default is left out of the JSON, so that rule sets older than this rule keep
    # their hash.
    omit_default: bool = False


def declare_rule(
    default: _Value,
    meaning: str,
    source: str,
    *,
    bounds: RuleBounds | None = None,
    idle: str | None = None,
    omit_default: bool = False,
) -> _Value:
    """Return a dataclass field for a rule, with its default and its `RuleInfo`."""
    info = RuleInfo(f"{meaning} ({source})", bounds, idle, omit_default)
    return field(default=default, metadata={_KEY: info})


def build_rule_metadata(meaning: str, source: str, bounds: RuleBounds) -> Mapping[str, RuleInfo]:
    """Return the metadata of a rule that has no default, for `field(metadata=…)`."""
    return {_KEY: RuleInfo(f"{meaning} ({source})", bounds)}


def build_non_rule_metadata(
    *, bounds: RuleBounds | None = None, omit_default: bool = False
) -> Mapping[str, RuleInfo]:
    """Return the metadata of a field that is no rule, such as the rule set's name."""
    return {_KEY: RuleInfo(None, bounds, omit_default=omit_default)}


def get_rule_info(rule_field: Field[Any]) -> RuleInfo | None:
    """Return the `RuleInfo` of a field, or None if the field has none."""
    rule_info: RuleInfo | None = rule_field.metadata.get(_KEY)
    return rule_info


def is_fraction(rule_field: Field[Any]) -> bool:
    """Return whether a rule is in units of 10^-18."""
    return Fraction in (rule_field.type, *get_args(rule_field.type))


def get_declared_rules(kind: "type[DataclassInstance]") -> dict[str, tuple[Field[Any], RuleInfo]]:
    """Return the rules declared in a rule set's class, in order.

    Fields that are not rules are left out.
    """
    info_by_name = {
        rule_field.name: (rule_field, get_rule_info(rule_field)) for rule_field in fields(kind)
    }
    return {
        name: (rule_field, info)
        for name, (rule_field, info) in info_by_name.items()
        if info is not None and info.meaning is not None
    }


def iter_bound_checks(rules: "DataclassInstance") -> Iterator[tuple[str, bool, str]]:
    """Check each field that has bounds: yield its name, whether it is valid, and the error.

    An optional rule that is None is not checked.
    """
    for rule_field in fields(rules):
        info = get_rule_info(rule_field)
        rule_value = getattr(rules, rule_field.name)
        if info is not None and info.bounds is not None and rule_value is not None:
            yield rule_field.name, info.bounds.accepts(rule_value), info.bounds.error_message


_FRACTION = re.compile(r"(\d{1,3})(?:\.(\d{1,18}))?", re.ASCII)
_TYPE_DESCRIPTIONS: dict[type, str] = {str: "text", int: "a whole number", bool: "true or false"}


def to_json_value(value: object, *, as_decimal: bool) -> object:
    """Convert a value for JSON.

    With `as_decimal`, units of 10^-18 become a decimal string.
    """
    if as_decimal and isinstance(value, int):
        decimal_text = f"{value // UNIT}.{value % UNIT:018d}".rstrip("0")
        return decimal_text.removesuffix(".")
    return value


def rule_to_json(field: Field[Any], value: object) -> object:
    """Return a rule's value in its JSON form."""
    return to_json_value(value, as_decimal=is_fraction(field))


def parse_rule_value(field: Field[Any], value: object) -> Any:  # noqa: ANN401 - any field
    """Parse a rule's value from the JSON form that `rule_to_json` returns.

    Raises:
        ValueError: the value does not have the field's type. The message starts with the field's
            name.
    """
    if value is None and is_optional(field):
        return None
    if is_fraction(field):
        return parse_fraction(field.name, value)
    value_type = get_rule_value_type(field)
    if value_type is tuple:
        if not isinstance(value, list) or not all(type(entry) is int for entry in value):
            raise ValueError(f"{field.name}: must be a list of whole numbers")
        return tuple(value)
    if type(value) is not value_type:
        raise ValueError(f"{field.name}: must be {_TYPE_DESCRIPTIONS[value_type]}")
    return value


def parse_fraction(name: str, value: object) -> int:
    """Parse a decimal, such as `0.3`, as units of 10^-18.

    Raises:
        ValueError: the value is not such a decimal; the message names the field.
    """
    match = _FRACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{name}: must be a decimal in quotes, such as "0.3"')
    integer_part, digits = match.groups()
    return int(integer_part) * UNIT + int((digits or "").ljust(18, "0"))


def is_optional(field: Field[Any]) -> bool:
    """Return whether a rule may be None, which turns it off."""
    return type(None) in get_args(field.type)


def get_rule_value_type(field: Field[Any]) -> type:
    """Return the type of a rule's value, ignoring None.

    The type is str, int, bool or tuple.
    """
    if get_origin(field.type) is tuple:
        return tuple
    if is_fraction(field):
        return int
    value_types = get_args(field.type) or (field.type,)
    value_type: type = next(
        member_type for member_type in value_types if member_type is not type(None)
    )
    return value_type


def find_missing_rules(
    field_by_name: Mapping[str, Field[Any]], values: Mapping[str, object]
) -> list[str]:
    """Return the names of required fields that are missing from `values`.

    A field is required if it has no default.
    """
    required_names = [name for name, field in field_by_name.items() if field.default is MISSING]
    return [name for name in required_names if name not in values]
