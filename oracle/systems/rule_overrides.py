"""Derives a rule set from another one by changes that are given as text (`tau_seconds=900`)."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field
from types import MappingProxyType
from typing import Any

from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.rule_fields import (
    get_declared_rules,
    get_value_type,
    is_fraction,
    is_optional,
    rule_to_json,
)
from oracle.domain.scoring.rules import Rules

_LEGACY = "legacy."
_NONE = "none"
# Python raises its own error for very long numbers.
_MAX_DIGITS = 18
_BOOLEANS = {"true": True, "false": False}

# Every rule by dotted name, in order.
_RULE_BY_NAME = get_declared_rules(Rules) | {
    _LEGACY + name: declared for name, declared in get_declared_rules(LegacyRules).items()
}
# The meaning of each rule in one line, with its source.
MEANINGS: Mapping[str, str] = MappingProxyType(
    {name: str(info.meaning) for name, (_, info) in _RULE_BY_NAME.items()}
)


def apply_rule_changes(base: Mapping[str, Any], changes: Mapping[str, str]) -> Rules:
    """Return the rules that result from applying changes to `base`, the JSON object of a rule set.

    A change is a dotted name and a text: a decimal for a fraction (`0.3`), a whole number, `true`
    or `false`, a list such as `10,5,2`, or `none` if the rule is optional.

    Raises:
        ValueError: there is no such rule, a text or value is invalid, or a rule without a default
            is missing; the message names the rule and the valid values.
    """
    field_by_name = get_changeable_rules(base)
    values = dict(base)
    for name, text in changes.items():
        if name not in field_by_name:
            raise ValueError(f"{name}: no such rule (available: {', '.join(field_by_name)})")
        value = _parse_value(name, field_by_name[name], text.strip())
        if name.startswith(_LEGACY):
            values["legacy"] = {**values["legacy"], name.removeprefix(_LEGACY): value}
        else:
            values[name] = value
    return Rules.from_json(json.dumps(values))


def parse_changes(table: object) -> dict[str, str]:
    """Return the changes in a TOML or JSON table; nested tables give dotted names.

    Raises:
        ValueError: not a table, or a fraction is given as a number, which would not be exact.
    """
    if not isinstance(table, dict):
        raise ValueError('must be a table, such as { penalty = "0.3" }')  # noqa: TRY004 - the text is at fault
    changes: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            changes |= {f"{name}.{rule}": text for rule, text in parse_changes(value).items()}
        else:
            changes[name] = _format_value(name, value)
    return changes


def format_rules(values: Mapping[str, Any]) -> dict[str, str]:
    """Return every rule of a rule set's JSON object by dotted name, with its value as text.

    Rules that were never published are left out.
    """
    texts = {}
    for name, field in get_changeable_rules(values).items():
        rules = values["legacy"] if name.startswith(_LEGACY) else values
        if field.name in rules:
            texts[name] = _format_value(name, rules[field.name])
        elif field.default is not MISSING:
            texts[name] = _format_value(name, rule_to_json(field, field.default))
    return texts


def fill_missing_rules(base: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule set's JSON object with every rule, in order.

    A value that was never published is None; the rule set is incomplete until a value is chosen.
    """
    values: dict[str, Any] = {"name": base["name"], "version": base["version"]}
    for name, field in get_changeable_rules(base).items():
        is_legacy = name.startswith(_LEGACY)
        source, target = (
            (base["legacy"], values.setdefault("legacy", {})) if is_legacy else (base, values)
        )
        default = None if field.default is MISSING else field.default
        target[field.name] = source.get(field.name, rule_to_json(field, default))
    return values


def get_changeable_rules(base: Mapping[str, Any]) -> dict[str, Field[Any]]:
    """Return the rules of a rule set that may be changed, by dotted name, in order."""
    is_legacy = base.get("legacy") is not None
    return {
        name: field
        for name, (field, _) in _RULE_BY_NAME.items()
        if is_legacy or not name.startswith(_LEGACY)
    }


def _format_value(name: str, value: object) -> str:
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, float):
        # A double differs from the decimal in the file.
        raise ValueError(f'{name}: write a fraction in quotes, such as "0.3"')  # noqa: TRY004 - the text is at fault
    return str(value)


def _parse_value(name: str, field: Field[Any], text: str) -> object:
    """Return the JSON value of a rule that is given as text."""
    if text == _NONE and is_optional(field):
        return None
    kind = get_value_type(field)
    if is_fraction(field) or kind is str:
        # Fractions are text in JSON too, and are validated there.
        return text
    if kind is bool:
        if text not in _BOOLEANS:
            raise ValueError(f"{name}: must be true or false, not {text!r}")
        return _BOOLEANS[text]
    if kind is tuple:
        return [
            _parse_whole_number(name, part.strip(), "whole numbers, such as 10,5,2")
            for part in _split_list(text)
        ]
    return _parse_whole_number(name, text, "a whole number")


def _split_list(text: str) -> list[str]:
    return text.split(",") if text else []


def _parse_whole_number(name: str, text: str, meaning: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _MAX_DIGITS):
        raise ValueError(f"{name}: must be {meaning}, not {text[:_MAX_DIGITS]!r}")
    return int(text)
