"""What a panel is, and the queries that its lines are made of."""

from dataclasses import dataclass
from enum import StrEnum

# Grafana's names of units.
COUNT, PER_SECOND, SECONDS, SHARE, ETHER = "short", "ops", "s", "percentunit", "ETH"
# What amounts in wei are divided by to be ether.
WEI = "1e18"
HERE = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Line:
    """One query in PromQL, and what its series are called in the legend."""

    expression: str
    legend: str


class Kind(StrEnum):
    """Grafana's names of panels: a course, one number now, or a row for each series now."""

    COURSE = "timeseries"
    STAT = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel; `unit` in Grafana's words, `least` the foot of its scale, None: as it comes."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    least: int | None = 0
    kind: Kind = Kind.COURSE


@dataclass(frozen=True, slots=True)
class Row:
    """Panels that answer one question."""

    title: str
    panels: tuple[Panel, ...]


def now(name: str, *labels: str, legend: str | None = None, over: str = "") -> Line:
    """A gauge as it stands; `over`: what it is divided by."""
    divided = f" / {over}" if over else ""
    return Line(f"{name}{{{HERE}}}{divided}", legend or _legend(labels, name))


def rate(name: str, *labels: str, legend: str | None = None, over: str = "") -> Line:
    """How fast a counter rises, in a second."""
    by = ", ".join(("instance", *labels))
    divided = f" / {over}" if over else ""
    return Line(
        f"sum by ({by}) (rate({name}{{{HERE}}}[$__rate_interval])){divided}",
        legend or _legend(labels, name),
    )


def rise(name: str, *labels: str, legend: str | None = None) -> Line:
    """By how much a counter rose in an hour: for what should hardly ever happen."""
    by = ", ".join(("instance", *labels))
    return Line(f"sum by ({by}) (increase({name}{{{HERE}}}[1h]))", legend or _legend(labels, name))


def half_and_worst(name: str, *labels: str) -> tuple[Line, ...]:
    """The middle and the 99th of a hundred of what a histogram counted."""
    by = ", ".join(("instance", "le", *labels))
    return tuple(
        Line(
            f"histogram_quantile({share}, "
            f"sum by ({by}) (rate({name}_bucket{{{HERE}}}[$__rate_interval])))",
            f"{legend} {_legend(labels, '')}".rstrip(),
        )
        for share, legend in (("0.5", "median"), ("0.99", "99 %"))
    )


def spread(name: str) -> tuple[Line, ...]:
    """The low, the middle and the high of a distribution of what is now."""
    return tuple(
        Line(f"histogram_quantile({share}, {name}_bucket{{{HERE}}})", legend)
        for share, legend in (("0.1", "lowest tenth"), ("0.5", "median"), ("0.9", "highest tenth"))
    )


def _legend(labels: tuple[str, ...], name: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels) or name.removeprefix("oracle_")
