"""Defines the command `attack`, which simulates known attacks under rule sets."""

from collections.abc import Sequence
from typing import Annotated

import typer

from lab.attack.attack import AttackPlan, Finding, simulate_attacks
from lab.attack.strategies import STRATEGIES, Strategy, get_strategy
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.closed_loop import check_simulatable
from lab.commands.attack_json import build_findings_json
from lab.commands.attack_tables import print_findings
from lab.commands.backtest_files import open_html_output
from lab.commands.compared_systems import (
    ChangesOption,
    HtmlOption,
    JobsOption,
    NetworkOption,
    NodesOption,
    RulesOption,
    RunsOption,
    TasksOption,
    build_columns_from_options,
    build_loop_plan,
    choose_process_count,
    show_progress,
)
from lab.page.attack_page import render_attack_page
from oracle.cli.options import JsonOption, print_json
from oracle.errors import InputError

_EXAMPLE = (
    "Example: qos-oracle attack --rules crynux --html attack.html    Another: qos-oracle attack "
    "--rules relay --strategy silent --network tolls=false --json"
)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLE)(attack)


def attack(  # noqa: PLR0913 - a command line's options are its parameters
    *,
    rules: RulesOption = None,
    changes: ChangesOption = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            "--strategy",
            metavar="NAME",
            help=f"Strategy to simulate; repeatable (default: all): "
            f"{', '.join(known_strategy.name for known_strategy in STRATEGIES)}.",
        ),
    ] = None,
    network: NetworkOption = None,
    nodes: NodesOption = None,
    tasks: TasksOption = None,
    runs: RunsOption = 1,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Seed of the simulation.")
    ] = 0,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=0,
            metavar="PERCENT",
            help="Gain or harm, in percent, above which a strategy counts as a finding.",
        ),
    ] = 10,
    jobs: JobsOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate known attacks beside an honest baseline.

    In the simulated network, the policy under test assigns the tasks, and the code of the daemon
    computes the scores. The command needs no configuration and no chain, and changes nothing. The
    same options and seed produce byte-identical output. Exit code 1 if a strategy gains or harms
    more than the limit, and the finding is not in the list of known findings.
    """
    columns = _build_simulatable_columns(rules or [], changes or [])
    plan = AttackPlan(
        loop=build_loop_plan(nodes, tasks, seed, network),
        strategies=_select_strategies(strategy),
        runs=runs,
        limit=limit,
        jobs=choose_process_count(jobs),
    )
    with open_html_output(html) as page:
        with show_progress("simulating") as report_progress:
            findings = simulate_attacks(
                columns,
                plan,
                lambda finished, total: report_progress("simulating", finished, total),
            )
        if page is not None:
            page.write(render_attack_page(findings, plan))
    if as_json:
        print_json(build_findings_json(findings, plan))
    else:
        print_findings(findings, plan)
    if html is not None:
        typer.echo(f"wrote {html}", err=True)
    _exit_on_open_faults(findings, limit)


def _build_simulatable_columns(rules: Sequence[str], changes: Sequence[str]) -> list[SystemColumn]:
    if not rules:
        raise InputError("no system to attack is given; choose one with --rules")
    columns, notes = build_columns_from_options(rules, changes, None)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    try:
        for column in columns:
            check_simulatable(column)
    except ValueError as error:
        raise InputError(f"--rules: {error}") from None
    return columns


def _select_strategies(names: Sequence[str] | None) -> Sequence[Strategy]:
    if not names:
        return STRATEGIES
    try:
        return [get_strategy(name) for name in dict.fromkeys(names)]
    except ValueError as error:
        raise InputError(f"--strategy: {error}") from None


def _exit_on_open_faults(findings: Sequence[Finding], limit: int) -> None:
    """Exit with code 1 if a finding has an open fault.

    An open fault is one that is not accepted.
    """
    if any(finding.list_open_faults(limit) for finding in findings):
        raise typer.Exit(1)
