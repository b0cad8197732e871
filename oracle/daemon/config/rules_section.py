"""The rules that a network is scored by: a set, and what differs from it."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from oracle.daemon.config.sections import Section
from oracle.systems.registry import rule_set, rule_sets
from oracle.systems.rule_overrides import changes_of


class RulesSection(Section):
    # `seed`, `relay`, `crynux-docs`, or `legacy`, which needs numbers of your own. Part of the
    # rules hash.
    set: str = "seed"
    # When a group is scored, where it differs from the set: `validated` or `terminal`. Part
    # of the rules hash.
    close: Literal["validated", "terminal"] | None = None
    # Other rules that differ from the set's, by their names: `{ tau_seconds = 900, penalty =
    # "0.5" }`; `rules show` lists them. Part of the rules hash.
    change: Annotated[dict[str, str], BeforeValidator(changes_of)] = Field(default_factory=dict)

    @property
    def changes(self) -> dict[str, str]:
        """Everything that differs from the rule set."""
        return self.change if self.close is None else {**self.change, "close": self.close}


def faults_in_rules(scoring: RulesSection) -> list[str]:
    """Return what cannot be: no such set, or numbers that it refuses."""
    if scoring.close is not None and "close" in scoring.change:
        return ["rules.close and rules.change.close: give one of them"]
    try:
        rule_set(scoring.set, scoring.changes)
    except ValueError as error:
        key = "change" if scoring.set in rule_sets() else "set"
        return [f"rules.{key}: {error}"]
    return []
