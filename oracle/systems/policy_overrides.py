"""Derives a policy from another one by changing parameters, which are given as text.

An example is `weight_floor=0.01`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import Field, fields, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rule_fields import get_value_type, to_json_value
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.selection_weight import Weighting
from oracle.systems.pocket.pocket_policy import PocketPolicy
from oracle.systems.policy import SelectionPolicy

# The field that holds the parameters of a policy type; types not listed have no parameters.
_FIELD_BY_POLICY_TYPE: Mapping[type, str] = MappingProxyType(
    {CrynuxPolicy: "weighting", PocketPolicy: "params"}
)

_BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,18})?", re.ASCII)
# Integers in units of 10^-18; Pocket's parameters are doubles (docs/explanation/pocket.md), so
# none is listed.
_FRACTIONS = frozenset(
    weighting_field.name for weighting_field in fields(Weighting) if weighting_field.type is int
)


def get_parameters(policy: SelectionPolicy) -> dict[str, str]:
    """Return the parameters of a policy by name, with their values as text; it may have none."""
    parameters = _get_parameter_object(policy)
    return {
        parameter_field.name: _format_parameter(parameters, parameter_field)
        for parameter_field in _get_fields(parameters)
    }


def override_parameters(policy: SelectionPolicy, changes: Mapping[str, str]) -> SelectionPolicy:
    """Return a policy with some of its parameters changed; its name and version stay.

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
        parameter_field.name: parameter_field for parameter_field in _get_fields(parameters)
    }
    for name in changes:
        if name not in field_by_name:
            names = ", ".join(field_by_name) or "none"
            raise ValueError(f"{name}: no such parameter of {policy.name} (available: {names})")
    values = {
        name: _parse_value(field_by_name[name], text.strip()) for name, text in changes.items()
    }
    policy_object: Any = policy
    changed: SelectionPolicy = replace(
        policy_object, **{_FIELD_BY_POLICY_TYPE[type(policy)]: replace(parameters, **values)}
    )
    return changed


def split_changes(
    changes: Mapping[str, str], rules: Collection[str], policy: SelectionPolicy
) -> tuple[dict[str, str], dict[str, str]]:
    """Split the changes into changes of rules and changes of policy parameters.

    `rules` holds the names of the rules that may be changed.

    Raises:
        ValueError: a name is neither a rule nor a parameter, or is both and thus ambiguous.
    """
    policy_parameters = get_parameters(policy)
    for name in changes:
        if name not in policy_parameters and name not in rules:
            raise ValueError(
                f"{name}: no such rule (available: {', '.join((*rules, *policy_parameters))})"
            )
        if name in policy_parameters and name in rules:
            raise ValueError(f"{name}: ambiguous; a rule and a parameter of policy {policy.name}")
    rule_changes = {name: text for name, text in changes.items() if name not in policy_parameters}
    return rule_changes, {
        name: text for name, text in changes.items() if name in policy_parameters
    }


def _get_parameter_object(policy: SelectionPolicy) -> Any:  # noqa: ANN401 - each kind of policy has its own
    """Return the dataclass that holds a policy's parameters, or None if it has none."""
    field_name = _FIELD_BY_POLICY_TYPE.get(type(policy))
    return None if field_name is None else getattr(policy, field_name)


def _get_fields(value: Any) -> tuple[Field[Any], ...]:  # noqa: ANN401 - as above
    return () if value is None else fields(value)


def _format_parameter(parameters: object, field: Field[Any]) -> str:
    number = getattr(parameters, field.name)
    if isinstance(number, bool):
        return "true" if number else "false"
    if isinstance(number, float):
        # The shortest decimal that is this double, never with an exponent.
        return f"{Decimal(repr(number)):f}".removesuffix(".0")
    return str(to_json_value(number, as_decimal=field.name in _FRACTIONS))


def _parse_value(field: Field[Any], text: str) -> object:
    """Return the value of a parameter that is given as text."""
    kind = get_value_type(field)
    if kind is bool:
        if text not in _BOOLEANS:
            raise ValueError(f"{field.name}: must be true or false, not {text!r}")
        return _BOOLEANS[text]
    return _parse_number(field, kind, text)


def _parse_number(field: Field[Any], kind: type, text: str) -> int | float:
    is_decimal = kind is float or field.name in _FRACTIONS
    if (_DECIMAL if is_decimal else _WHOLE).fullmatch(text) is None:
        meaning = "a decimal, such as 0.01" if is_decimal else "a whole number"
        raise ValueError(f"{field.name}: must be {meaning}, not {text!r}")
    if kind is float:
        return float(text)
    return int(Decimal(text) * UNIT) if field.name in _FRACTIONS else int(text)
