"""The columns of a comparison: systems by name or file, with changes, or every one of a grid."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

from oracle.domain.rules import Rules
from oracle.systems.changing import changeable, changed
from oracle.systems.registry import policy_named, rule_set, rule_sets, systems

# What supplies the nodes' state under a system that has no rules of its own.
_STATE = "seed"
_LEGACY = "legacy"
_BY_POLICY = "@"
_CHANGED = "*"
MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Column:
    """One system to fold the history under.

    `name` is its own in the comparison. `has_rules`: scored by its rules; else the policy says
    the scores, and the rules supply the nodes' state alone. `policy`: by its name. `changes`:
    what was changed in the rule set, as text.
    """

    name: str
    rules: Rules
    policy: str
    has_rules: bool = True
    changes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A change that somebody asks for: of every rule set that has the rule, or of `target`."""

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


@dataclass(frozen=True, slots=True)
class Basis:
    """A system before any change; `written`: the JSON object of a rule set of one's own."""

    name: str
    policy: str
    has_rules: bool = True
    written: Mapping[str, Any] | None = None

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the system of a name; `NAME@POLICY` takes another policy than its own.

        Raises:
            ValueError: there is no such system or policy; the message lists those there are.
        """
        own, at, policy = name.partition(_BY_POLICY)
        known = systems().get(own)
        if known is None and own not in rule_sets():
            listed = ", ".join(dict.fromkeys((*systems(), *rule_sets())))
            raise ValueError(f"no rule set {own!r} (there is {listed})")
        wanted = policy if at else known.policy.name if known else own
        return cls(name, policy_named(wanted).name, known is None or known.has_rules)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the system of a rule set that somebody wrote as JSON.

        It is picked by the policy of the system of its name, if there is one; else as `seed`
        picks, or as `legacy` does where it has the legacy numbers.

        Raises:
            ValueError: it is no rule set; the field is named.
        """
        rules = Rules.from_json(text)
        known = systems().get(rules.name)
        other = _LEGACY if rules.legacy is not None else _STATE
        policy = known.policy.name if known else other
        return cls(rules.name, policy, written=json.loads(rules.to_json()))

    def rules(self, changes: Mapping[str, str]) -> Rules:
        """Return its rules with some changed.

        Raises:
            ValueError: a change that cannot be, or a number missing that has no default.
        """
        if self.written is not None:
            return changed(self.written, changes)
        return rule_set(self.name.partition(_BY_POLICY)[0] if self.has_rules else _STATE, changes)

    def has(self, key: str) -> bool:
        """Tell whether a rule of that name is in it."""
        if not self.has_rules:
            return False
        if self.written is not None:
            return key in changeable(self.written)
        is_legacy = self.name.partition(_BY_POLICY)[0] == _LEGACY
        return key in changeable({_LEGACY: {}} if is_legacy else {})


@dataclass(frozen=True, slots=True)
class Grid:
    """Systems, and for some of their rules the values to try; every combination is a column."""

    bases: Sequence[Basis]
    values: Mapping[str, Sequence[str]]


def columns_of(
    bases: Sequence[Basis], settings: Sequence[Setting], grid: Grid | None = None
) -> tuple[list[Column], list[str]]:
    """Return the columns, and what a user should hear about settings that do not apply.

    Raises:
        ValueError: a name twice, a setting for nobody, a value that cannot be, too many columns.
    """
    every = [*bases, *(grid.bases if grid else ())]
    _check(bases, every, settings)
    columns = [_column(basis, settings) for basis in bases]
    if grid is not None:
        columns += _columns_of_grid(grid, settings)
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"{len(columns)} systems to compare; {MOST_COLUMNS} are the most")
    return columns, list(_left_alone(every, settings))


def _check(bases: Sequence[Basis], every: Sequence[Basis], settings: Sequence[Setting]) -> None:
    names = [basis.name for basis in bases]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is given twice; --grid compares changes of one rule set")
    for setting in settings:
        aimed = [basis for basis in every if setting.target in {None, basis.name}]
        if not aimed:
            raise ValueError(f"{setting.target}: no such rule set is compared")
        if not any(basis.has(setting.key) for basis in aimed):
            where = " or ".join(dict.fromkeys(basis.name for basis in aimed))
            raise ValueError(f"{setting.key}: no such rule in {where}")


def _left_alone(every: Iterable[Basis], settings: Sequence[Setting]) -> Iterable[str]:
    for name, basis in {basis.name: basis for basis in every}.items():
        for setting in settings:
            if setting.target is None and not basis.has(setting.key):
                yield f"{name} has no rule {setting.key}: it is compared without that change"


def _changes_for(basis: Basis, settings: Iterable[Setting]) -> dict[str, str]:
    return {
        setting.key: setting.value
        for setting in settings
        if setting.target in {None, basis.name} and basis.has(setting.key)
    }


def _column(basis: Basis, settings: Sequence[Setting]) -> Column:
    changes = _changes_for(basis, settings)
    name = basis.name + (_CHANGED if changes else "")
    return _made(basis, name, changes)


def _columns_of_grid(grid: Grid, settings: Sequence[Setting]) -> list[Column]:
    columns = []
    for basis in grid.bases:
        for key in grid.values:
            if not basis.has(key):
                raise ValueError(f"grid: {key}: no such rule in {basis.name}")
        for values in product(*grid.values.values()):
            tried = dict(zip(grid.values, values, strict=True))
            name = " ".join((basis.name, *(f"{key}={value}" for key, value in tried.items())))
            columns.append(_made(basis, name, _changes_for(basis, settings) | tried))
            if len(columns) > MOST_COLUMNS:
                raise ValueError(f"grid: more than {MOST_COLUMNS} combinations")
    return columns


def _made(basis: Basis, name: str, changes: Mapping[str, str]) -> Column:
    try:
        rules = basis.rules(changes)
    except ValueError as error:
        raise ValueError(f"{basis.name}: {error}") from None
    return Column(name, rules, basis.policy, basis.has_rules, changes)
