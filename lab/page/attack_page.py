"""The HTML page of `attack`, which plots each strategy's gain and harm under each system."""

from collections.abc import Callable, Sequence

from lab.attack.attack import AttackPlan, Finding
from lab.page import tables
from lab.page.number_text import format_percent
from lab.page.plots import MAX_SYSTEMS, Figure, RowPlot
from lab.page.render import render_page
from oracle.domain.fixed_point import UNIT

# The ends of the axis. Longer bars are truncated there.
_MIN_VALUE = -UNIT
_MAX_VALUE = 2 * UNIT
_MARK_COUNT = 6


def render_attack_page(findings: Sequence[Finding], plan: AttackPlan) -> str:
    column_names = list(dict.fromkeys(finding.column.name for finding in findings))
    findings_by_system = {
        name: [finding for finding in findings if finding.column.name == name]
        for name in column_names
    }
    return render_page(
        "attack.html",
        plan=plan,
        gain=_build_figure(findings, column_names[:MAX_SYSTEMS], lambda finding: finding.gain),
        harm=_build_figure(findings, column_names[:MAX_SYSTEMS], lambda finding: finding.harm),
        findings={
            name: tables.build_finding_table(system_findings, plan.limit)
            for name, system_findings in findings_by_system.items()
        },
        network=tables.build_network_parameter_table(plan),
    )


def _build_figure(
    findings: Sequence[Finding], systems: Sequence[str], get_value: Callable[[Finding], int]
) -> Figure:
    """Draw a bar for the value of each strategy and system, starting from 0."""
    strategies = list(dict.fromkeys(finding.strategy.name for finding in findings))
    title = "A bar for each strategy and system"
    row_plot = RowPlot.create(title, strategies, len(systems), (_MIN_VALUE, _MAX_VALUE))
    row_plot.add_ticks(
        {tick: format_percent(tick) for tick in row_plot.axis.list_ticks(_MARK_COUNT)}
    )
    for finding in findings:
        strategy, system = finding.strategy.name, finding.column.name
        if system in systems:
            row_and_lane = strategies.index(strategy), systems.index(system)
            tooltip = f"{strategy}, {system}: {format_percent(get_value(finding))}"
            row_plot.add_bar(row_and_lane, (0, get_value(finding)), f"s{row_and_lane[1]}", tooltip)
    return Figure(row_plot.plot, systems)
