"""Builds the columns of a comparison, from named systems, rule set files and a grid.

A grid names systems, and the values to try for some of their rules.
"""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Self

from oracle.domain.scoring.rules import RULES_IGNORED_BY_LEGACY, Rules
from oracle.systems.overrides import (
    apply_rule_changes,
    format_policy_parameters,
    get_changeable_rules,
    split_changes,
)
from oracle.systems.registry import build_rules, get_policy, get_systems, list_rule_set_names

# This rule set determines the state of the nodes in systems without rules.
_STATE_RULE_SET = "crynux"
_LEGACY = "legacy"
# The policies of custom rule sets whose name is not that of a published system.
_DEFAULT_POLICY, _LEGACY_POLICY = "crynux", "legacy"
# The policies of custom rule sets whose name is not that of a published system.
_DEFAULT_POLICY, _LEGACY_POLICY = "crynux", "legacy"
_POLICY_SEPARATOR = "@"
_CHANGED_MARK = "*"
MAX_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """One system in a comparison.

    `name` is unique in the comparison. If `has_rules` is True, the rules provide the scores;
    otherwise the policy provides them, and the rules only determine the nodes' state. `policy` is
    the name of the policy, and `policy_changes` are its changed parameters. `changes` are all
    changes of rules and parameters, as text.
    """

    name: str
    rules: Rules
    policy: str
    has_rules: bool = True
    changes: Mapping[str, str] = field(default_factory=dict)
    policy_changes: Mapping[str, str] = field(default_factory=dict)

    @property
    def policy_parameters(self) -> dict[str, str]:
        """The parameters of the policy as text.

        The text is empty for a policy without parameters.

        Raises:
            ValueError: the policy or a changed parameter does not exist.
        """
        return format_policy_parameters(get_policy(self.policy, self.policy_changes))


@dataclass(frozen=True, slots=True)
class Setting:
    """A change of one rule or policy parameter, as given by `--set`.

    `target` is the name of the systems to change, or None for all systems that have the key.
    """

    target: str | None
    key: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `key=value` or `NAME:key=value`.

        Raises:
            ValueError: the text has a different form.
        """
        left_side, equals_sign, value = text.partition("=")
        target, colon, key = left_side.rpartition(":")
        if not equals_sign or not key.strip() or (colon and not target):
            raise ValueError(f"--set {text!r}: must be key=value or NAME:key=value")
        return cls(target if colon else None, key.strip(), value)

    @property
    def qualified_key(self) -> str:
        """The part before the equals sign, for example `relay:penalty`."""
        return self.key if self.target is None else f"{self.target}:{self.key}"


@dataclass(frozen=True, slots=True)
class SystemBase:
    """A system to which no changes by `--set` or a grid have been applied.

    `custom_rules` is the JSON object of a custom rule set, or None. `own_changes` are the changes
    that were given together with the system's name. They are part of the system, so that other
    changes cannot override them.
    """

    name: str
    policy: str
    has_rules: bool = True
    custom_rules: Mapping[str, Any] | None = None
    own_changes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Return the published system or rule set with this name.

        The name `NAME@POLICY` replaces the usual policy of the system by another policy.

        Raises:
            ValueError: the system or policy does not exist; the message lists the known ones.
        """
        system_name, separator, policy = name.partition(_POLICY_SEPARATOR)
        system = get_systems().get(system_name)
        if system is None and system_name not in list_rule_set_names():
            known_names = ", ".join(dict.fromkeys((*get_systems(), *list_rule_set_names())))
            raise ValueError(f"unknown rule set {system_name!r}; expected one of: {known_names}")
        policy_name = policy if separator else system.policy.name if system else system_name
        return cls(name, get_policy(policy_name).name, system is None or system.has_rules)

    @classmethod
    def from_rules_json(cls, text: str, file: str = "") -> Self:
        """Build the system of a custom rule set from JSON.

        The system gets the name in the JSON, or the name of the file if a published rule set
        already has the name in the JSON. If a published system has the same name, its policy is
        used. Otherwise the policy is `legacy` if the rules have legacy values, and `crynux` if
        not.

        Raises:
            ValueError: the text is not a rule set; the message names the field.
        """
        rules = Rules.from_json(text)
        system = get_systems().get(rules.name)
        default_policy = _DEFAULT_POLICY if rules.legacy is None else _LEGACY_POLICY
        policy = system.policy.name if system else default_policy
        name = file if file and rules.name in list_rule_set_names() else rules.name
        return cls(name, policy, custom_rules=json.loads(rules.to_json()))

    def with_changes(self, change_texts: Sequence[str]) -> Self:
        """Return a copy of the system with changes of its own.

        Each change is given as `key=value`.

        Raises:
            ValueError: a change is malformed or given twice, or its key is unknown.
        """
        own_changes: dict[str, str] = {}
        for change_text in change_texts:
            key, equals_sign, value = change_text.partition("=")
            if not equals_sign or not key:
                raise ValueError(f"{change_text!r}: must be key=value")
            if key in own_changes:
                raise ValueError(f"{self.name}: the key {key} is given twice")
            if not self.has_changeable_key(key):
                raise ValueError(_format_unknown_key_message(key, [self]))
            own_changes[key] = value
        return replace(self, own_changes=own_changes)

    @property
    def full_name(self) -> str:
        """The name of the system, followed by its own changes."""
        return " ".join(
            (self.name, *(f"{key}={value}" for key, value in self.own_changes.items()))
        )

    def build_column(self, name: str, changes: Mapping[str, str]) -> SystemColumn:
        """Build the system's column, with its own and the given changes.

        Raises:
            ValueError: a change is invalid, or a value that has no default is missing.
        """
        all_changes = {**changes, **self.own_changes}
        try:
            rules, policy_changes = split_changes(
                all_changes, self.changeable_rule_names, get_policy(self.policy)
            )
            built_rules = self._build_rules(rules)
            policy = get_policy(self.policy, policy_changes)
        except ValueError as error:
            raise ValueError(f"{self.full_name}: {error}") from None
        return SystemColumn(
            name, built_rules, policy.name, self.has_rules, all_changes, policy_changes
        )

    def _build_rules(self, changes: Mapping[str, str]) -> Rules:
        if self.custom_rules is not None:
            return apply_rule_changes(self.custom_rules, changes)
        return build_rules(
            self.name.partition(_POLICY_SEPARATOR)[0] if self.has_rules else _STATE_RULE_SET,
            changes,
        )

    @property
    def changeable_rule_names(self) -> tuple[str, ...]:
        """The names of the rules that can be changed and matter in this system."""
        if not self.has_rules:
            return ()
        is_legacy = self.name.partition(_POLICY_SEPARATOR)[0] == _LEGACY
        rule_values = self.custom_rules or ({_LEGACY: {}} if is_legacy else {})
        ignored_rules = RULES_IGNORED_BY_LEGACY if rule_values.get(_LEGACY) is not None else ()
        return tuple(
            name for name in get_changeable_rules(rule_values) if name not in ignored_rules
        )

    @property
    def changeable_keys(self) -> tuple[str, ...]:
        """The names of the rules and policy parameters that can be changed."""
        return (*self.changeable_rule_names, *format_policy_parameters(get_policy(self.policy)))

    def has_changeable_key(self, key: str) -> bool:
        """Return whether a rule or policy parameter with this name can be changed."""
        return key in self.changeable_keys


@dataclass(frozen=True, slots=True)
class Grid:
    """Systems, and values to try for some of their rules.

    Each combination becomes a column.
    """

    bases: Sequence[SystemBase]
    values: Mapping[str, Sequence[str]]


def build_columns(
    bases: Sequence[SystemBase], settings: Sequence[Setting], grid: Grid | None = None
) -> tuple[list[SystemColumn], list[str]]:
    """Build the columns of a comparison, and a note for each ignored setting.

    A setting is ignored by a system to which it does not apply.

    Raises:
        ValueError: a name is given twice, a setting matches no system, a value is invalid, or
            there are too many columns.
    """
    all_bases = [*bases, *(grid.bases if grid else ())]
    _check_bases_and_settings(bases, all_bases, settings)
    columns = [_build_column(base, settings) for base in bases]
    if grid is not None:
        columns += _build_grid_columns(grid, settings)
    column_names = [column.name for column in columns]
    for name in column_names:
        if column_names.count(name) > 1:
            raise ValueError(f"{name} is compared twice; remove one of the two")
    if len(columns) > MAX_COLUMNS:
        raise ValueError(
            f"{len(columns)} systems would be compared; at most {MAX_COLUMNS} are allowed"
        )
    return columns, list(_iter_unapplied_setting_notes(all_bases, settings))


def _check_bases_and_settings(
    bases: Sequence[SystemBase], all_bases: Sequence[SystemBase], settings: Sequence[Setting]
) -> None:
    base_names = [base.full_name for base in bases]
    for name in base_names:
        if base_names.count(name) > 1:
            raise ValueError(
                f"--rules: {name} is given twice; to compare it with a changed copy, use "
                f'--rules "{name} KEY=VALUE"'
            )
    for setting in settings:
        if (
            sum(other_setting.qualified_key == setting.qualified_key for other_setting in settings)
            > 1
        ):
            raise ValueError(f"--set {setting.qualified_key}: this key is given twice")
        targeted_bases = [base for base in all_bases if setting.target in {None, base.name}]
        if not targeted_bases:
            raise ValueError(f"--set: no compared system has the name {setting.target!r}")
        if not any(base.has_changeable_key(setting.key) for base in targeted_bases):
            raise ValueError(_format_unknown_key_message(setting.key, targeted_bases))


def _format_unknown_key_message(key: str, bases: Sequence[SystemBase]) -> str:
    system_names = " or ".join(dict.fromkeys(base.name for base in bases))
    known_keys_text = ", ".join(
        dict.fromkeys(known_key for base in bases for known_key in base.changeable_keys)
    )
    return f"{key}: no such rule in {system_names} (available: {known_keys_text})"


def _iter_unapplied_setting_notes(
    all_bases: Iterable[SystemBase], settings: Sequence[Setting]
) -> Iterable[str]:
    for name, base in {base.name: base for base in all_bases}.items():
        for setting in settings:
            if setting.target is None and not base.has_changeable_key(setting.key):
                yield f"{name} has no rule {setting.key}: it is compared without that change"


def _select_applicable_settings(base: SystemBase, settings: Iterable[Setting]) -> dict[str, str]:
    """Return the settings that apply to a system.

    Keys in the system's own changes are left out. A setting for this system takes precedence over
    a setting for all systems.
    """
    return {
        setting.key: setting.value
        for setting in sorted(settings, key=lambda item: item.target is not None)
        if setting.target in {None, base.name}
        and base.has_changeable_key(setting.key)
        and setting.key not in base.own_changes
    }


def _build_column(base: SystemBase, settings: Sequence[Setting]) -> SystemColumn:
    changes = _select_applicable_settings(base, settings)
    return base.build_column(base.full_name + (_CHANGED_MARK if changes else ""), changes)


def _build_grid_columns(grid: Grid, settings: Sequence[Setting]) -> list[SystemColumn]:
    columns = []
    for base in grid.bases:
        for key in grid.values:
            if not base.has_changeable_key(key):
                raise ValueError(f"grid: {_format_unknown_key_message(key, [base])}")
            if key in base.own_changes:
                raise ValueError(
                    f"grid: {key}: {base.full_name} already has its own value for this rule"
                )
        for values in product(*grid.values.values()):
            grid_values = dict(zip(grid.values, values, strict=True))
            name = " ".join(
                (base.full_name, *(f"{key}={value}" for key, value in grid_values.items()))
            )
            columns.append(
                base.build_column(name, _select_applicable_settings(base, settings) | grid_values)
            )
            if len(columns) > MAX_COLUMNS:
                raise ValueError(
                    f"grid: there are more than {MAX_COLUMNS} combinations; use fewer values"
                )
    return columns


_GRID_KEYS = {"rules", "set"}


def parse_grid(text: str, find_base: Callable[[str], SystemBase], *, is_toml: bool) -> Grid:
    """Parse a grid such as `{"rules": "crynux", "set": {"penalty": ["0.3", "0.5"]}}`.

    `rules` may also be a list of systems. `find_base` returns the system for a name.

    Raises:
        ValueError: the text is invalid, or a key is missing, unknown or of the wrong type.
    """
    grid_object = _parse_object(text, is_toml=is_toml)
    for key in grid_object:
        if key not in _GRID_KEYS:
            raise ValueError(f"{key}: no such key; expected rules and set")
    rules_names = grid_object.get("rules")
    rules_names = [rules_names] if isinstance(rules_names, str) else rules_names
    if (
        not isinstance(rules_names, list)
        or not rules_names
        or not all(isinstance(name, str) for name in rules_names)
    ):
        raise ValueError("rules: expected a system (its name or its file) or a list of systems")
    if len(set(rules_names)) < len(rules_names):
        raise ValueError("rules: a system is given twice")
    values_by_key = grid_object.get("set")
    if not isinstance(values_by_key, dict) or not values_by_key:
        raise ValueError("set: must list the values to try for at least one rule")
    values_by_rule = _flatten_keys(values_by_key)
    return Grid(
        [find_base(name) for name in rules_names],
        {rule: _parse_values(rule, values_by_rule[rule]) for rule in values_by_rule},
    )


def _parse_object(text: str, *, is_toml: bool) -> Mapping[str, Any]:
    try:
        parsed_object = tomllib.loads(text) if is_toml else json.loads(text)
    except ValueError as error:
        raise ValueError(f"invalid {'TOML' if is_toml else 'JSON'}: {error}") from None
    except RecursionError:
        raise ValueError("the content is nested too deeply") from None
    if not isinstance(parsed_object, dict):
        raise ValueError("expected an object with the keys rules and set")  # noqa: TRY004 - the text is at fault
    return parsed_object


def _flatten_keys(values_by_key: Mapping[str, Any]) -> dict[str, Any]:
    """Convert nested tables to dotted names.

    TOML parses `legacy.vram_weight` as a table.
    """
    flat_values: dict[str, Any] = {}
    for key, value in values_by_key.items():
        if isinstance(value, dict):
            flat_values |= {
                f"{key}.{inner_key}": inner_value for inner_key, inner_value in value.items()
            }
        else:
            flat_values[key] = value
    return flat_values


def _parse_values(key: str, values: object) -> list[str]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"set.{key}: must be a list of values to try")
    value_texts = [_format_value(key, value) for value in values]
    if len(set(value_texts)) < len(value_texts):
        raise ValueError(f"set.{key}: a value is given twice")
    return value_texts


def _format_value(key: str, value: object) -> str:
    """Format a value as text that `--set` accepts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_format_value(key, item) for item in value)
    if value is None:
        return "none"
    if not isinstance(value, str | int | float):
        raise ValueError(f"set.{key}: {value!r} is not a valid value of a rule")  # noqa: TRY004 - as above
    return str(value)
