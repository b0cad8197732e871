"""Runs `backtest --closed-loop`, which compares simulated systems or searches rule values."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.closed_loop import check_simulatable
from lab.closed_loop.rule_measures import Goal
from lab.closed_loop.rule_search import ComparisonPlan, SearchPlan, measure_systems, search_rules
from lab.commands.closed_loop_tables import (
    build_measures_json,
    build_search_json,
    print_measures,
    print_search_result,
)
from lab.commands.compared_systems import resolve_base, show_progress
from oracle.cli.options import print_json
from oracle.cli.system_options import parse_key_values
from oracle.errors import InputError


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The values of the options `--search` and `--goal`.

    `values` has a text `KEY=V1,V2` for each rule. `is_changed` is set if `--set` or `--grid` is
    also given.
    """

    values: Sequence[str]
    goal: str
    is_changed: bool = False


def run_closed_loop_backtest(
    columns: Sequence[SystemColumn],
    rules: Sequence[str],
    search_options: SearchOptions,
    plan: ComparisonPlan,
    *,
    as_json: bool,
) -> None:
    """Compare systems in the same simulated networks, or search for better values.

    A search changes the values of one system.

    Raises:
        InputError: a system cannot be simulated, or the search options are invalid.
    """
    _check_all_simulatable(columns)
    if search_options.values:
        _search_and_print_values(rules, search_options, plan, as_json=as_json)
    else:
        _compare_and_print_systems(columns, plan, as_json=as_json)


def _compare_and_print_systems(
    columns: Sequence[SystemColumn], plan: ComparisonPlan, *, as_json: bool
) -> None:
    with show_progress("simulating") as report_progress:
        measures = measure_systems(
            columns, plan, lambda finished, total: report_progress("simulating", finished, total)
        )
    if as_json:
        print_json(build_measures_json(measures, plan))
    else:
        print_measures(measures, plan)


def _search_and_print_values(
    rules: Sequence[str], search_options: SearchOptions, plan: ComparisonPlan, *, as_json: bool
) -> None:
    """Search for better rule values of one system, and print the trials.

    Raises:
        InputError: more or less than one system is given, or a rule, value or measure is invalid.
    """
    if search_options.is_changed:
        raise InputError(
            '--search cannot be combined with --set or --grid; use --rules "NAME KEY=VALUE"'
        )
    if len(rules) != 1:
        raise InputError("--search requires exactly one --rules, the system to start from")
    values = {
        name: [value.strip() for value in text.split(",")]
        for name, text in parse_key_values("--search", search_options.values).items()
    }
    base = resolve_base("--rules", rules[0])
    for name in values:
        if not base.has_changeable_key(name):
            raise InputError(f"--search: {name}: no such rule in {base.name}")
    try:
        search_plan = SearchPlan(base, values, Goal.parse(search_options.goal))
        with show_progress("searching") as report_progress:
            search_result = search_rules(
                search_plan,
                plan,
                lambda finished, total: report_progress("searching", finished, total),
            )
    except ValueError as error:
        raise InputError(f"--search: {error}") from None
    if as_json:
        print_json(build_search_json(search_result, plan))
    else:
        print_search_result(search_result, plan)


def _check_all_simulatable(columns: Sequence[SystemColumn]) -> None:
    try:
        for column in columns:
            check_simulatable(column)
    except ValueError as error:
        raise InputError(f"--closed-loop: {error}") from None


def reject_history_options(option_names: Sequence[str]) -> None:
    """Reject options that only apply to a history.

    Raises:
        InputError: `option_names` is not empty.
    """
    if option_names:
        raise InputError(
            f"--closed-loop reads no history and cannot be combined with {', '.join(option_names)}"
        )
