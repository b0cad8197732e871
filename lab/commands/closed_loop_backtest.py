"""`backtest --closed-loop`: compares systems in a simulated network, or improves values."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.closed_loop import refuse_unplayable
from lab.closed_loop.rule_measures import Goal
from lab.closed_loop.rule_search import ComparisonPlan, SearchPlan, measured, search
from lab.commands.closed_loop_tables import (
    measures_answer,
    print_measures,
    print_search,
    search_answer,
)
from lab.commands.compared_systems import basis_of, progress
from oracle.cli.options import print_json
from oracle.cli.system_options import parse_key_values
from oracle.errors import InputError


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options `--search` and `--goal`; `values` are `KEY=V1,V2` for each rule.

    `is_changed`: systems were also changed by `--set` or `--grid`.
    """

    values: Sequence[str]
    goal: str
    is_changed: bool = False


def in_loop(
    columns: Sequence[SystemColumn],
    rules: Sequence[str],
    asked: SearchOptions,
    plan: ComparisonPlan,
    *,
    as_json: bool,
) -> None:
    """Compare systems in the same networks, or search for better values of one system.

    Raises:
        InputError: a system cannot be simulated, or the search options are invalid.
    """
    _refuse(columns)
    if asked.values:
        _search(rules, asked, plan, as_json=as_json)
    else:
        _compare(columns, plan, as_json=as_json)


def _compare(columns: Sequence[SystemColumn], plan: ComparisonPlan, *, as_json: bool) -> None:
    with progress("playing") as told:
        found = measured(columns, plan, lambda done, total: told("playing", done, total))
    if as_json:
        print_json(measures_answer(found, plan))
    else:
        print_measures(found, plan)


def _search(
    rules: Sequence[str], asked: SearchOptions, plan: ComparisonPlan, *, as_json: bool
) -> None:
    """Search for better values of one system, and print the trials.

    Raises:
        InputError: not exactly one system, or an unknown rule, value or measure.
    """
    if asked.is_changed:
        raise InputError('--search goes without --set and --grid: write --rules "NAME KEY=VALUE"')
    if len(rules) != 1:
        raise InputError("--search: name one system by --rules, where it begins")
    values = {
        name: [value.strip() for value in text.split(",")]
        for name, text in parse_key_values("--search", asked.values).items()
    }
    basis = basis_of("--rules", rules[0])
    for name in values:
        if not basis.has(name):
            raise InputError(f"--search: {name}: no such rule in {basis.name}")
    try:
        wanted = SearchPlan(basis, values, Goal.read(asked.goal))
        with progress("searching") as told:
            searched = search(wanted, plan, lambda done, total: told("searching", done, total))
    except ValueError as error:
        raise InputError(f"--search: {error}") from None
    if as_json:
        print_json(search_answer(searched, plan))
    else:
        print_search(searched, plan)


def _refuse(columns: Sequence[SystemColumn]) -> None:
    try:
        for column in columns:
            refuse_unplayable(column)
    except ValueError as error:
        raise InputError(f"--closed-loop: {error}") from None


def refuse_history_options(given: Sequence[str]) -> None:
    """Reject options of a history, because a closed loop has none.

    Raises:
        InputError: such an option is given.
    """
    if given:
        raise InputError(f"--closed-loop makes its own history: {', '.join(given)} goes without")
