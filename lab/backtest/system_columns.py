"""The columns of a comparison: systems by name or file, with changes, or every one of a grid."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Self

from oracle.domain.scoring.rules import IDLE_RULES, Rules
from oracle.systems.policy_overrides import get_parameters, split_changes
from oracle.systems.registry import build_rules, get_policy, get_systems, list_rule_sets
from oracle.systems.rule_overrides import apply_rule_changes, get_changeable_rules

# What supplies the nodes' state under a system that has no rules of its own.
_STATE = "crynux"
_LEGACY = "legacy"
_BY_POLICY = "@"
_CHANGED = "*"
MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """One system to fold the history under.

    `name` is its own in the comparison. `has_rules`: scored by its rules; else the policy says
    the scores, and the rules supply the nodes' state alone. `policy`: by its name, with `tuning`,
    what was changed of its own numbers. `changes`: everything that was changed, as text.
    """

    name: str
    rules: Rules
    policy: str
    has_rules: bool = True
    changes: Mapping[str, str] = field(default_factory=dict)
    tuning: Mapping[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, str]:
        """Return the policy's own numbers as text; some policies have none.

        Raises:
            ValueError: there is no such policy or number.
        """
        return get_parameters(get_policy(self.policy, self.tuning))


@dataclass(frozen=True, slots=True)
class Setting:
    """A change that somebody asks for: of every system that has the key, or of `target`."""

    target: str | None
    key: str
    value: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Read `key=value` or `NAME:key=value`.

        Raises:
            ValueError: it is neither.
        """
        place, equals, value = text.partition("=")
        target, colon, key = place.rpartition(":")
        if not equals or not key.strip() or (colon and not target):
            raise ValueError(f"{text!r} must be key=value or NAME:key=value")
        return cls(target if colon else None, key.strip(), value)

    @property
    def place(self) -> str:
        """Return what it changes, as it is written before the equals sign."""
        return self.key if self.target is None else f"{self.target}:{self.key}"


@dataclass(frozen=True, slots=True)
class SystemBase:
    """A system before what is changed in all or for a grid.

    `written`: the JSON object of a rule set of one's own. `own`: changes that belong to it, and
    to its name; nothing else changes the same.
    """

    name: str
    policy: str
    has_rules: bool = True
    written: Mapping[str, Any] | None = None
    own: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the system of a name; `NAME@POLICY` takes another policy than its own.

        Raises:
            ValueError: there is no such system or policy; the message lists those there are.
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
        """Return the system of a rule set that somebody wrote as JSON.

        It is called as it says, or by the name of its file where a published set is called so.
        It is picked by the policy of the system of its name, if there is one; else as `crynux`
        picks, or as `legacy` does where it has the legacy numbers.

        Raises:
            ValueError: it is no rule set; the field is named.
        """
        rules = Rules.from_json(text)
        known = get_systems().get(rules.name)
        other = _LEGACY if rules.legacy is not None else _STATE
        policy = known.policy.name if known else other
        name = file if file and rules.name in list_rule_sets() else rules.name
        return cls(name, policy, written=json.loads(rules.to_json()))

    def changed_by(self, words: Sequence[str]) -> Self:
        """Return it with changes of its own, each `key=value`.

        Raises:
            ValueError: one is no change, or is given twice, or changes what is not there.
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
        """Return its name with the changes of its own: that of a column."""
        return " ".join((self.name, *(f"{key}={value}" for key, value in self.own.items())))

    def column(self, name: str, changes: Mapping[str, str]) -> SystemColumn:
        """Return the column that it becomes by its own changes and these.

        Raises:
            ValueError: a change that cannot be, or a number missing that has no default.
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
        """Return the rules that may be changed in it, those that would do nothing left out."""
        if not self.has_rules:
            return ()
        is_legacy = self.name.partition(_BY_POLICY)[0] == _LEGACY
        values = self.written or ({_LEGACY: {}} if is_legacy else {})
        idle = IDLE_RULES if values.get(_LEGACY) is not None else ()
        return tuple(name for name in get_changeable_rules(values) if name not in idle)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return everything that may be changed in it: its rules, its policy's own numbers."""
        return (*self.rule_names, *get_parameters(get_policy(self.policy)))

    def has(self, key: str) -> bool:
        """Tell whether a rule, or a number of its policy, is called so."""
        return key in self.keys


@dataclass(frozen=True, slots=True)
class Grid:
    """Systems, and for some of their rules the values to try; every combination is a column."""

    bases: Sequence[SystemBase]
    values: Mapping[str, Sequence[str]]


def columns_of(
    bases: Sequence[SystemBase], settings: Sequence[Setting], grid: Grid | None = None
) -> tuple[list[SystemColumn], list[str]]:
    """Return the columns, and what a user should hear about settings that do not apply.

    Raises:
        ValueError: a name twice, a setting for nobody, a value that cannot be, too many columns.
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
    """Return what is changed in a system beside its own changes, which win.

    What is said of this system alone wins over what is said of all.
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
