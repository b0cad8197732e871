"""The page of `attack`: the gain and harm of each strategy under each system, as bars."""

from collections.abc import Callable, Sequence

from lab.attack.attack import AttackPlan, Finding
from lab.page import tables
from lab.page.number_text import percent
from lab.page.plots import MAX_SYSTEMS, Figure, RowPlot
from lab.page.render import render_page
from oracle.domain.fixed_point import UNIT

# Bars beyond these values end at the edge.
_MIN, _MAX = -UNIT, 2 * UNIT
_MARKS = 6


def attack_page(findings: Sequence[Finding], plan: AttackPlan) -> str:
    """Return the HTML page of an attack's findings."""
    names = list(dict.fromkeys(finding.column.name for finding in findings))
    by_system = {
        name: [finding for finding in findings if finding.column.name == name] for name in names
    }
    return render_page(
        "attack.html",
        plan=plan,
        gain=_figure(findings, names[:MAX_SYSTEMS], lambda finding: finding.gain),
        harm=_figure(findings, names[:MAX_SYSTEMS], lambda finding: finding.harm),
        findings={name: tables.finding_table(own, plan.limit) for name, own in by_system.items()},
        network=tables.network_table(plan),
    )


def _figure(
    findings: Sequence[Finding], systems: Sequence[str], value: Callable[[Finding], int]
) -> Figure:
    """Draw a bar for each strategy and system, from 0 to the left or to the right."""
    strategies = list(dict.fromkeys(finding.strategy.name for finding in findings))
    title = "A bar for each strategy and system"
    rows = RowPlot.of_rows(title, strategies, len(systems), (_MIN, _MAX))
    rows.add_marks({mark: percent(mark) for mark in rows.axis.marks(_MARKS)})
    for finding in findings:
        strategy, system = finding.strategy.name, finding.column.name
        if system in systems:
            place = strategies.index(strategy), systems.index(system)
            tip = f"{strategy}, {system}: {percent(value(finding))}"
            rows.add_bar(place, (0, value(finding)), f"s{place[1]}", tip)
    return Figure(rows.plot, systems)
