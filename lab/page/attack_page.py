"""The page of `attack`: what each strategy gains and harms under each system, as bars."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from html import escape

from lab.attack.attack import AttackPlan, Finding
from lab.closed_loop.economics import COIN
from lab.page.document import document, legend
from lab.page.html import (
    NOTHING,
    PLOTTED,
    Axis,
    fraction,
    label,
    line,
    plot,
    table,
    tag,
    text,
    tip,
)
from oracle.domain.fixed_point import UNIT

_WIDTH, _NAMES = 1040.0, 130.0
_BAR, _BETWEEN, _TOP = 10.0, 9.0, 22.0
# Beyond these a bar ends at the edge: what is lost is lost, whatever its size.
_LEAST, _MOST = -UNIT, 2 * UNIT
_MARKS = 6


def attack_page(findings: Sequence[Finding], plan: AttackPlan) -> str:
    """Return the HTML of what was played."""
    names = list(dict.fromkeys(finding.column.name for finding in findings))
    body = [
        tag("h1", "Attacks"),
        tag("p", _opening(plan, names), class_="soft"),
        tag("h2", "What each strategy gains"),
        tag(
            "p",
            "Profit beyond that of the baseline, as a part of the fees that this earns: a bar to "
            "the right is a strategy that pays. What lies beyond the edges ends there.",
        ),
        legend(names),
        _bars(findings, names, lambda finding: finding.gain),
        tag("h2", "What honest nodes lose"),
        tag("p", "Profit lost beside the attacker, as a part of their fees beside the baseline."),
        legend(names),
        _bars(findings, names, lambda finding: finding.harm),
        *_tables(findings, names, plan.limit),
        tag("h2", "The network's numbers"),
        _network(plan),
    ]
    return document("qos-oracle attack", body)


def _opening(plan: AttackPlan, names: Sequence[str]) -> str:
    loop = plan.loop
    said = ", ".join(text(name) for name in names)
    return (
        f"{loop.nodes:,} honest nodes and {loop.tasks:,} tasks under {said}; "
        f"{plan.runs} run{'' if plan.runs == 1 else 's'} from seed {loop.seed}; "
        f"limit {plan.limit} percent."
    )


def _bars(
    findings: Sequence[Finding], names: Sequence[str], value: Callable[[Finding], int]
) -> str:
    """Draw for each strategy a bar for each system, from 0 to the left or to the right."""
    axis = Axis(_LEAST, _MOST, _NAMES, _WIDTH - 20)
    strategies = list(dict.fromkeys(finding.strategy.name for finding in findings))
    shown = names[:PLOTTED]
    row = _BAR * len(shown) + _BETWEEN
    height = _TOP + row * len(strategies)
    parts = []
    for mark in axis.marks(_MARKS):
        x = axis.at(mark)
        parts += [line(x, 18, x, height), label(_percent(mark), x, 12, "middle")]
    for place, strategy in enumerate(strategies):
        top = _TOP + row * place
        parts.append(label(strategy, 0, top + (row - _BETWEEN) / 2 + 4, class_="name"))
    for finding in findings:
        if finding.column.name in shown:
            number = shown.index(finding.column.name)
            top = _TOP + row * strategies.index(finding.strategy.name) + _BAR * number
            parts.append(_bar(finding, value(finding), axis, (top, number)))
    return plot(_WIDTH, height, "A bar for each strategy and system", parts)


def _bar(finding: Finding, units: int, axis: Axis, place: tuple[float, int]) -> str:
    start, end = sorted((axis.at(0), axis.at(units)))
    top, number = place
    said = f"{finding.strategy.name}, {finding.column.name}: {_percent(units)}"
    return tag(
        "rect",
        tip(said),
        x=start,
        y=top,
        # What is nothing is seen, too.
        width=max(1.0, end - start),
        height=_BAR - 1,
        class_=f"f{number}",
    )


def _tables(findings: Sequence[Finding], names: Sequence[str], limit: int) -> Iterable[str]:
    head = (
        "strategy", "what it does", "drawn", "earned", "spent", "gain", "harm", "price", "spoiled",
        "honest kicked out", "held", "out", "verdict",
    )  # fmt: skip
    yield tag("h2", "In numbers")
    yield tag(
        "p",
        "Drawn: by the baseline's draws. Price: what the attacker loses for each coin that honest "
        "nodes lose. Spoiled: honest orders that fail. Held: kickouts of honest nodes that waited "
        "for a person. Out: nodes of the attacker kicked out or slashed.",
        class_="soft",
    )
    for name in names:
        rows = [_row(each, limit) for each in findings if each.column.name == name]
        yield tag("h3", text(name))
        yield table(head, rows, left=2)


def _row(finding: Finding, limit: int) -> tuple[str, ...]:
    low, high = finding.band
    gain = _percent(finding.gain)
    if low != high:
        gain += f" ({_percent(low)} to {_percent(high)})"
    return (
        tag("code", text(finding.strategy.name)),
        text(finding.strategy.about),
        fraction(finding.share, 2),
        _coins(finding.earned),
        _coins(finding.spent),
        gain,
        _percent(finding.harm),
        NOTHING if finding.price is None else fraction(finding.price, 2),
        _percent(finding.spoiled),
        str(finding.kicked_good),
        str(finding.held_good),
        str(finding.out),
        _verdict(finding, limit),
    )


def _verdict(finding: Finding, limit: int) -> str:
    said = []
    for fault in finding.faults(limit):
        reason = finding.reason(fault)
        said.append(f"found: {fault}" if reason is None else f"known: {fault}: {reason}")
    return text("; ".join(said) or "no gain")


def _network(plan: AttackPlan) -> str:
    economics = plan.loop.economics
    rows = [
        (tag("code", field.name), escape(str(getattr(economics, field.name)).lower()))
        for field in fields(economics)
    ]
    return table(("number", "value"), rows)


def _percent(units: int) -> str:
    return f"{fraction(100 * units, 1)} %"


def _coins(gwei: int) -> str:
    return fraction(gwei * (UNIT // COIN), 2)
