"""The columns of a comparison: systems by name or file, with changes, or all of a grid."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Self

from oracle.domain.scoring.rules import IDLE_RULES, Rules
from oracle.systems.policy_overrides import get_parameters, split_changes
from oracle.systems.registry import build_rules, get_policy, get_systems, list_rule_sets
from oracle.systems.rule_overrides import apply_rule_changes, get_changeable_rules

# The rule set that provides the nodes' state for systems without rules.
_STATE = "crynux"
_LEGACY = "legacy"
_BY_POLICY = "@"
_CHANGED = "*"
MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """One system of a comparison.

    `name` is unique in the comparison. `has_rules`: scores come from its rules; else from the
    policy, and the rules only provide the nodes' state. `policy` is a name, with `policy_changes`
    as the changed parameters. `changes`: all changes, as text.
    """

    name: str
    rules: Rules
    policy: str
    has_rules: bool = True
    changes: Mapping[str, str] = field(default_factory=dict)
    tuning: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, str]:
        """The policy's parameters as text; some policies have none.

        Raises:
            ValueError: no such policy or parameter.
        """
        return get_parameters(get_policy(self.policy, self.tuning))


@dataclass(frozen=True, slots=True)
class Setting:
    """A change for every system that has the key, or only for the system `target`."""

    target: str | None
    key: str
    value: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse `key=value` or `NAME:key=value`.

        Raises:
            ValueError: the text has another form.
        """
        place, equals, value = text.partition("=")
        target, colon, key = place.rpartition(":")
        if not equals or not key.strip() or (colon and not target):
            raise ValueError(f"{text!r} must be key=value or NAME:key=value")
        return cls(target if colon else None, key.strip(), value)

    @property
    def place(self) -> str:
        """The part before the equals sign, as it is written."""
        return self.key if self.target is None else f"{self.target}:{self.key}"


@dataclass(frozen=True, slots=True)
class SystemBase:
    """A system before the changes for all systems or for a grid.

    `custom_rules`: the JSON object of a custom rule set. `own_changes`: changes that belong to the
    system and to its name; other changes cannot override them.
    """

    name: str
    policy: str
    has_rules: bool = True
    written: Mapping[str, Any] | None = None
    own: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the system of a name; `NAME@POLICY` uses another policy than its own.

        Raises:
            ValueError: no such system or policy; the message lists the known ones.
        """
        own, at, policy = name.partition(_BY_POLICY)
        known = get_systems().get(own)
        if known is None and own not in list_rule_sets():
            listed = ", ".join(dict.fromkeys((*get_systems(), *list_rule_sets())))
            raise ValueError(f"no rule set {own!r} (there is {listed})")
        wanted = policy if at else known.policy.name if known else own
        return cls(name, get_policy(wanted).name, known is None or known.has_rules)

    @classmethod
    def read(cls, text: str, file: str = "") -> Self:
        """Return the system of a custom rule set in JSON.

        The system has the name in the JSON, or the name of its file if a published rule set
        already has that name. Its policy is that of the system of the same name, if there is one;
        else `legacy` if the rules have legacy values, and `crynux` if not.

        Raises:
            ValueError: the text is not a rule set; the message names the field.
        """
        rules = Rules.from_json(text)
        known = get_systems().get(rules.name)
        other = _LEGACY if rules.legacy is not None else _STATE
        policy = known.policy.name if known else other
        name = file if file and rules.name in list_rule_sets() else rules.name
        return cls(name, policy, written=json.loads(rules.to_json()))

    def changed_by(self, words: Sequence[str]) -> Self:
        """Return the system with changes of its own, each `key=value`.

        Raises:
            ValueError: a change is malformed, given twice, or of an unknown key.
        """
        own: dict[str, str] = {}
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or not key:
                raise ValueError(f"{word!r} must be key=value")
            if key in own:
                raise ValueError(f"{self.name}: {key}: given twice")
            if not self.has(key):
                raise ValueError(_unknown(key, [self]))
            own[key] = value
        return replace(self, own=own)

    @property
    def full_name(self) -> str:
        """The name with the system's own changes, as used for a column."""
        return " ".join((self.name, *(f"{key}={value}" for key, value in self.own.items())))

    def column(self, name: str, changes: Mapping[str, str]) -> SystemColumn:
        """Return the column of the system with its own changes and these.

        Raises:
            ValueError: a change is invalid, or a value without a default is missing.
        """
        every = {**changes, **self.own}
        try:
            rules, tuning = split_changes(every, self.rule_names, get_policy(self.policy))
            made = self._rules(rules)
            policy = get_policy(self.policy, tuning)
        except ValueError as error:
            raise ValueError(f"{self.full_name}: {error}") from None
        return SystemColumn(name, made, policy.name, self.has_rules, every, tuning)

    def _rules(self, changes: Mapping[str, str]) -> Rules:
        if self.written is not None:
            return apply_rule_changes(self.written, changes)
        return build_rules(
            self.name.partition(_BY_POLICY)[0] if self.has_rules else _STATE, changes
        )

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The rules that may be changed, except those without an effect."""
        if not self.has_rules:
            return ()
        is_legacy = self.name.partition(_BY_POLICY)[0] == _LEGACY
        values = self.written or ({_LEGACY: {}} if is_legacy else {})
        idle = IDLE_RULES if values.get(_LEGACY) is not None else ()
        return tuple(name for name in get_changeable_rules(values) if name not in idle)

    @property
    def keys(self) -> tuple[str, ...]:
        """Everything that may be changed: rules and policy parameters."""
        return (*self.rule_names, *get_parameters(get_policy(self.policy)))

    def has(self, key: str) -> bool:
        """Return whether a rule or a policy parameter has this name."""
        return key in self.keys


@dataclass(frozen=True, slots=True)
class Grid:
    """Systems and the values to try for some of their rules; every combination is a column."""

    bases: Sequence[SystemBase]
    values: Mapping[str, Sequence[str]]


def columns_of(
    bases: Sequence[SystemBase], settings: Sequence[Setting], grid: Grid | None = None
) -> tuple[list[SystemColumn], list[str]]:
    """Return the columns, and notes about settings that do not apply.

    Raises:
        ValueError: a name is given twice, a setting matches no system, a value is invalid, or
            there are too many columns.
    """
    every = [*bases, *(grid.bases if grid else ())]
    _check(bases, every, settings)
    columns = [_column(basis, settings) for basis in bases]
    if grid is not None:
        columns += _columns_of_grid(grid, settings)
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is compared twice")
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"{len(columns)} systems to compare; {MOST_COLUMNS} are the most")
    return columns, list(_left_alone(every, settings))


def _check(
    bases: Sequence[SystemBase], every: Sequence[SystemBase], settings: Sequence[Setting]
) -> None:
    names = [basis.full_name for basis in bases]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f'{name} is given twice; beside it can stand --rules "{name} KEY=VALUE"'
            )
    for setting in settings:
        if sum(other.place == setting.place for other in settings) > 1:
            raise ValueError(f"--set {setting.place}: given twice")
        aimed = [basis for basis in every if setting.target in {None, basis.name}]
        if not aimed:
            raise ValueError(f"{setting.target}: no such rule set is compared")
        if not any(basis.has(setting.key) for basis in aimed):
            raise ValueError(_unknown(setting.key, aimed))


def _unknown(key: str, bases: Sequence[SystemBase]) -> str:
    where = " or ".join(dict.fromkeys(basis.name for basis in bases))
    listed = ", ".join(dict.fromkeys(known for basis in bases for known in basis.keys))
    return f"{key}: no such rule in {where} (there is {listed})"


def _left_alone(every: Iterable[SystemBase], settings: Sequence[Setting]) -> Iterable[str]:
    for name, basis in {basis.name: basis for basis in every}.items():
        for setting in settings:
            if setting.target is None and not basis.has(setting.key):
                yield f"{name} has no rule {setting.key}: it is compared without that change"


def _changes_for(basis: SystemBase, settings: Iterable[Setting]) -> dict[str, str]:
    """Return the changes for a system, except those that its own changes override.

    A change for this system wins over a change for all systems.
    """
    return {
        setting.key: setting.value
        for setting in sorted(settings, key=lambda each: each.target is not None)
        if setting.target in {None, basis.name}
        and basis.has(setting.key)
        and setting.key not in basis.own
    }


def _column(basis: SystemBase, settings: Sequence[Setting]) -> SystemColumn:
    changes = _changes_for(basis, settings)
    return basis.column(basis.full_name + (_CHANGED if changes else ""), changes)


def _columns_of_grid(grid: Grid, settings: Sequence[Setting]) -> list[SystemColumn]:
    columns = []
    for basis in grid.bases:
        for key in grid.values:
            if not basis.has(key):
                raise ValueError(f"grid: {_unknown(key, [basis])}")
            if key in basis.own:
                raise ValueError(f"grid: {key}: {basis.full_name} has its own value of it")
        for values in product(*grid.values.values()):
            tried = dict(zip(grid.values, values, strict=True))
            name = " ".join((basis.full_name, *(f"{key}={value}" for key, value in tried.items())))
            columns.append(basis.column(name, _changes_for(basis, settings) | tried))
            if len(columns) > MOST_COLUMNS:
                raise ValueError(f"grid: more than {MOST_COLUMNS} combinations")
    return columns
