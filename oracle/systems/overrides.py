"""Derives rule sets and policies from others by changes given as text.

Examples are `tau_seconds=900` for a rule and `weight_floor=0.01` for a parameter of a policy.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.rule_fields import (
    get_declared_rules,
    get_rule_value_type,
    is_fraction,
    is_optional,
    rule_to_json,
    to_json_value,
)
from oracle.domain.scoring.rules import Rules
from oracle.systems.crynux.crynux_policy import CrynuxPolicy, Weighting
from oracle.systems.pocket.pocket_policy import PocketPolicy
from oracle.systems.policy import SelectionPolicy

_LEGACY = "legacy."
_NONE = "none"
# Maximum number of digits. Python would raise an error of its own for much longer numbers.
_MAX_DIGITS = 18
_BOOLEANS = {"true": True, "false": False}

# Rules by their dotted names, in order.
_RULE_BY_NAME = get_declared_rules(Rules) | {
    _LEGACY + name: declared for name, declared in get_declared_rules(LegacyRules).items()
}
# Meaning of each rule, on a single line that ends with the source.
MEANINGS: Mapping[str, str] = MappingProxyType(
    {name: str(info.meaning) for name, (_, info) in _RULE_BY_NAME.items()}
)


def apply_rule_changes(base: Mapping[str, Any], changes: Mapping[str, str]) -> Rules:
    """Apply changes to `base`, a rule set as a JSON object, and return the new rules.

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


def parse_change_table(table: object) -> dict[str, str]:
    """Parse changes from a TOML or JSON table.

    Nested tables give dotted names.

    Raises:
        ValueError: `table` is not a table, or a fraction is given as a number, which is not exact.
    """
    if not isinstance(table, dict):
        raise ValueError('must be a table, such as { penalty = "0.3" }')  # noqa: TRY004 - the text is at fault
    changes: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            changes |= {f"{name}.{rule}": text for rule, text in parse_change_table(value).items()}
        else:
            changes[name] = _format_value(name, value)
    return changes


def format_rule_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Format every rule in a rule set's JSON object as text, by dotted name.

    Rules that were never published are left out.
    """
    text_by_rule = {}
    for name, field in get_changeable_rules(values).items():
        rules = values["legacy"] if name.startswith(_LEGACY) else values
        if field.name in rules:
            text_by_rule[name] = _format_value(name, rules[field.name])
        elif field.default is not MISSING:
            text_by_rule[name] = _format_value(name, rule_to_json(field, field.default))
    return text_by_rule


def fill_missing_rules(base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a rule set with all rules, in order.

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
    """Return the rules of a rule set that may be changed, by dotted name.

    They are in order.
    """
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
        # A double is rejected, because it differs from the decimal in the file.
        raise ValueError(f'{name}: write a fraction in quotes, such as "0.3"')  # noqa: TRY004 - the text is at fault
    return str(value)


def _parse_value(name: str, field: Field[Any], text: str) -> object:
    """Parse the text of a rule's value to a JSON value."""
    if text == _NONE and is_optional(field):
        return None
    value_type = get_rule_value_type(field)
    if is_fraction(field) or value_type is str:
        # In JSON, too, a fraction is a text. It is validated when the JSON is parsed.
        return text
    if value_type is bool:
        return _parse_boolean(name, text)
    if value_type is tuple:
        return [
            _parse_whole_number(name, part.strip(), "whole numbers, such as 10,5,2")
            for part in (text.split(",") if text else ())
        ]
    return _parse_whole_number(name, text, "a whole number")


def _parse_boolean(name: str, text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError(f"{name}: must be true or false, not {text!r}")
    return _BOOLEANS[text]


def _parse_whole_number(name: str, text: str, meaning: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _MAX_DIGITS):
        raise ValueError(f"{name}: must be {meaning}, not {text[:_MAX_DIGITS]!r}")
    return int(text)


# Name of the field with a policy's parameters. Policies of other types have no parameters.
_FIELD_BY_POLICY_TYPE: Mapping[type, str] = MappingProxyType(
    {CrynuxPolicy: "weighting", PocketPolicy: "params"}
)

_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,18})?", re.ASCII)
# Names of parameters in units of 10^-18. Pocket's are not among them, because they are doubles
# (docs/explanation/pocket.md).
_FRACTIONS = frozenset(
    weighting_field.name for weighting_field in fields(Weighting) if weighting_field.type is int
)


def format_policy_parameters(policy: SelectionPolicy) -> dict[str, str]:
    """Format the parameters of a policy as text, by name.

    The result is empty if the policy has no parameters.
    """
    parameters = _get_parameter_object(policy)
    return {
        parameter_field.name: _format_parameter(parameters, parameter_field)
        for parameter_field in _get_parameter_fields(parameters)
    }


def override_policy_parameters(
    policy: SelectionPolicy, changes: Mapping[str, str]
) -> SelectionPolicy:
    """Return a policy with other parameters, but the same name and version.

    A change is the name of a field of `Weighting` or of Pocket's `Parameters`, and a text: a
    decimal (`0.01`), a whole number, `true` or `false`.

    Raises:
        ValueError: there is no such parameter, a text is invalid, or a value is inconsistent with
            the others; the message names the parameter.
    """
    if not changes:
        return policy
    parameters = _get_parameter_object(policy)
    field_by_name = {
        parameter_field.name: parameter_field
        for parameter_field in _get_parameter_fields(parameters)
    }
    for name in changes:
        if name not in field_by_name:
            parameter_names = ", ".join(field_by_name) or "none"
            raise ValueError(
                f"{name}: no such parameter of {policy.name} (available: {parameter_names})"
            )
    value_by_name = {
        name: _parse_parameter(field_by_name[name], text.strip()) for name, text in changes.items()
    }
    policy_object: Any = policy
    changed_policy: SelectionPolicy = replace(
        policy_object,
        **{_FIELD_BY_POLICY_TYPE[type(policy)]: replace(parameters, **value_by_name)},
    )
    return changed_policy


def split_changes(
    changes: Mapping[str, str], rules: Collection[str], policy: SelectionPolicy
) -> tuple[dict[str, str], dict[str, str]]:
    """Separate changes of rules from changes of policy parameters.

    `rules` holds the names of the rules that may be changed.

    Raises:
        ValueError: a name is neither a rule nor a parameter, or is both and thus ambiguous.
    """
    policy_parameters = format_policy_parameters(policy)
    for name in changes:
        if name not in policy_parameters and name not in rules:
            raise ValueError(
                f"{name}: no such rule (available: {', '.join((*rules, *policy_parameters))})"
            )
        if name in policy_parameters and name in rules:
            raise ValueError(
                f"{name}: ambiguous name; a rule and a parameter of policy {policy.name} have "
                "this name"
            )
    rule_changes = {name: text for name, text in changes.items() if name not in policy_parameters}
    return rule_changes, {
        name: text for name, text in changes.items() if name in policy_parameters
    }


def _get_parameter_object(policy: SelectionPolicy) -> Any:  # noqa: ANN401 - each kind of policy has its own
    """Return the dataclass with a policy's parameters, or None if it has none."""
    field_name = _FIELD_BY_POLICY_TYPE.get(type(policy))
    return None if field_name is None else getattr(policy, field_name)


def _get_parameter_fields(parameters: Any) -> tuple[Field[Any], ...]:  # noqa: ANN401 - as above
    return () if parameters is None else fields(parameters)


def _format_parameter(parameters: object, field: Field[Any]) -> str:
    parameter_value = getattr(parameters, field.name)
    if isinstance(parameter_value, bool):
        return "true" if parameter_value else "false"
    if isinstance(parameter_value, float):
        # The text is the shortest decimal that equals the double. It never has an exponent.
        return f"{Decimal(repr(parameter_value)):f}".removesuffix(".0")
    return str(to_json_value(parameter_value, as_decimal=field.name in _FRACTIONS))


def _parse_parameter(field: Field[Any], text: str) -> object:
    value_type = get_rule_value_type(field)
    if value_type is bool:
        return _parse_boolean(field.name, text)
    return _parse_number(field, value_type, text)


def _parse_number(field: Field[Any], kind: type, text: str) -> int | float:
    is_decimal = kind is float or field.name in _FRACTIONS
    if (_DECIMAL if is_decimal else _WHOLE).fullmatch(text) is None:
        expected_format = "a decimal, such as 0.01" if is_decimal else "a whole number"
        raise ValueError(f"{field.name}: must be {expected_format}, not {text!r}")
    if kind is float:
        return float(text)
    return int(Decimal(text) * UNIT) if field.name in _FRACTIONS else int(text)
