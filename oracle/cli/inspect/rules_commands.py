"""`rules list` and `rules show`: the available systems, and every number of a rule set."""

from dataclasses import dataclass
from typing import Annotated

import typer

from oracle.cli.options import JsonOption, print_answer, print_json
from oracle.cli.system_options import SetOption, pairs_of
from oracle.domain.scoring.rules import IDLE_RULES, Rules
from oracle.errors import InputError
from oracle.queries.rule_set_view import SystemEntry
from oracle.queries.text.text_tables import print_table
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.registry import (
    System,
    changes_in,
    published_rules,
    rule_set,
    rule_set_to_json,
    rule_sets,
    rules_named,
    systems,
    unpublished_rules,
)
from oracle.systems.rule_overrides import MEANINGS

rules = typer.Typer(no_args_is_help=True)

_UNPUBLISHED = "to be chosen"
_EMPTY_LIST = "(empty)"


@dataclass(frozen=True, slots=True)
class _Shown:
    """One rule as text; `value` is None if unset, `published` is None if never published."""

    value: str | None
    published: str | None

    def cells(self) -> tuple[str, str]:
        """Return the value, and the published value where the two differ."""
        value = _UNPUBLISHED if self.value is None else self.value or _EMPTY_LIST
        if self.published is None or self.published == self.value:
            return value, ""
        return value, self.published or _EMPTY_LIST


def register(app: typer.Typer) -> None:
    """Register `rules` on the command line."""
    app.add_typer(rules, name="rules", help="The systems that score and pick, and their numbers.")


@rules.command("list", epilog="Example: qos-oracle rules list --json")
def list_systems(*, as_json: JsonOption = False) -> None:
    """List the scoring and selection systems.

    A system pairs a rule set, which scores, with a policy, which selects; Pocket systems have only
    a policy.
    """
    known = list(systems().values())
    if as_json:
        print_answer(
            [
                SystemEntry(
                    name=system.name,
                    version=system.version,
                    rules=system.has_rules,
                    policy=system.policy.name,
                    source=system.source,
                    summary=system.summary,
                    sha256=_published_digest(system),
                )
                for system in known
            ]
        )
        return
    columns = ("name", "version", "rules", "source", "summary")
    rows = [
        (one.name, str(one.version), "yes" if one.has_rules else "no", one.source, one.summary)
        for one in known
    ]
    print_table(columns, rows, left=("name", "rules", "source", "summary"))


@rules.command(
    epilog="Example: qos-oracle rules show relay --set tau_seconds=900 --json > mine.json"
)
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"The rule set: {', '.join(rule_sets())}.")
    ],
    *,
    changes: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every number of a rule set.

    Each number has its meaning and its source document: 000 to 004 are the sources. Values are
    formatted as `--set` and `rules.change` accept them. With --json the output is the file that
    `replay --rules FILE` and `backtest --rules FILE` read; null marks a number that must be set
    first.
    """
    wanted = pairs_of("--set", changes)
    try:
        known = published_rules(name)
        lacking = [rule for rule in unpublished_rules(name) if rule not in wanted]
        # An incomplete rule set can be shown; only a complete one can score and has a hash.
        whole = rule_set(name, wanted) if wanted or not lacking else None
    except ValueError as error:
        raise InputError(str(error)) from None
    if as_json:
        print_json(rule_set_to_json(name, wanted))
        return
    values = known if whole is None else {**known, **changes_in(whole)}
    idle = IDLE_RULES if any(rule.startswith("legacy.") for rule in known) else {}
    every = [
        rule
        for rule in MEANINGS
        if (rule in known or rule in unpublished_rules(name)) and rule not in idle
    ]
    found = {rule: _Shown(values.get(rule), known.get(rule)) for rule in every}
    typer.echo(_title(name, whole))
    rows = [(rule, *one.cells(), MEANINGS[rule]) for rule, one in found.items()]
    print_table(("rule", "value", "published", "meaning"), rows, left=("rule", "meaning"))


def _published_digest(system: System) -> str | None:
    """Return the hash of a system's rule set, or None if it has no rules or lacks numbers."""
    if not system.has_rules or unpublished_rules(system.name):
        return None
    return named_by(rules_named(system.name)).sha256


def _title(name: str, whole: Rules | None) -> str:
    if whole is None:
        return f"{name}: give what is to be chosen by --set, or in rules.change"
    return f"{name}, version {whole.version}, sha256 {named_by(whole).sha256}"
