"""Valid values of rules for hypothesis, derived from the declarations of the rules."""

from dataclasses import Field
from typing import Any

from hypothesis import strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.rule_fields import (
    RuleInfo,
    get_declared_rules,
    get_rule_value_type,
    is_fraction,
    is_optional,
    to_json_value,
)
from oracle.domain.scoring.rules import Rules

# Rules whose bounds depend on other rules: each value fits all values of the others.
_DEPENDENT_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "absent_score": st.integers(0, 10),
    # `relay` has 49 copies.
    "pool_size": st.integers(50, 255),
    "reseed_copies": st.integers(0, 49),
    "exclude_enter": st.integers(1, UNIT // 10),
    "exclude_exit": st.integers(UNIT // 2, UNIT),
}


def _draw_values(rule_field: Field[Any], info: RuleInfo) -> st.SearchStrategy[Any]:
    values: st.SearchStrategy[Any]
    if rule_field.name in _DEPENDENT_VALUES:
        return _DEPENDENT_VALUES[rule_field.name]
    if info.bounds is not None and info.bounds.choices:
        return st.sampled_from(info.bounds.choices)
    if is_fraction(rule_field):
        values = st.integers(0, UNIT)
    elif get_rule_value_type(rule_field) is tuple:
        values = st.sets(st.integers(0, 10), max_size=5).map(lambda each: tuple(sorted(each)))
    elif get_rule_value_type(rule_field) is bool:
        values = st.booleans()
    else:
        values = st.integers(10, 255)
    if info.bounds is not None:
        values = values.filter(info.bounds.accepts)
    return st.none() | values if is_optional(rule_field) else values


RULE_VALUES = {
    name: _draw_values(rule_field, info)
    for name, (rule_field, info) in get_declared_rules(Rules).items()
}
rule_sets = st.builds(
    Rules, name=st.text(min_size=1, max_size=9), version=st.integers(1, 99), **RULE_VALUES
)


def _format_value(rule_field: Field[Any], value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(to_json_value(value, as_decimal=is_fraction(rule_field)))


def _draw_texts(name: str, rule_field: Field[Any]) -> st.SearchStrategy[str]:
    return RULE_VALUES[name].map(lambda value: _format_value(rule_field, value))


# Changes of a rule set as `--set` takes them, from the name to the text of the value.
changed_rules = st.fixed_dictionaries(
    {},
    optional={
        name: _draw_texts(name, rule_field)
        for name, (rule_field, _) in get_declared_rules(Rules).items()
    },
)
