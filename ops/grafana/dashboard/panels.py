"""Defines the panels of the dashboard, and the PromQL queries of their lines."""

from dataclasses import dataclass
from enum import StrEnum

# Grafana's names of units.
COUNT, PER_SECOND, SECONDS, SHARE, ETHER = "short", "ops", "s", "percentunit", "ETH"
# Divisor that converts wei to ether. It is a text, because it becomes part of a query.
WEI = "1e18"
HERE = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Line:
    """A PromQL query with the name of its series in the legend."""

    expression: str
    legend: str


class Kind(StrEnum):
    """The Grafana panel types that the dashboard uses.

    They show values over time, a current value, or a table of current values.
    """

    TIME_SERIES = "timeseries"
    STAT = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the dashboard.

    `unit` is the name of a unit in Grafana. `min_value` is the minimum of the axis, or None if
    Grafana should choose it.
    """

    title: str
    unit: str
    lines: tuple[Line, ...]
    min_value: int | None = 0
    kind: Kind = Kind.TIME_SERIES


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of related panels."""

    title: str
    panels: tuple[Panel, ...]


def build_gauge_line(
    name: str, *labels: str, legend: str | None = None, divisor: str = ""
) -> Line:
    """Build a line with the value of a gauge.

    It is divided by `divisor` if one is given.
    """
    divisor_text = f" / {divisor}" if divisor else ""
    return Line(f"{name}{{{HERE}}}{divisor_text}", legend or _format_legend(labels, name))


def build_rate_line(name: str, *labels: str, legend: str | None = None, divisor: str = "") -> Line:
    """Build a line with the increase of a counter per second.

    It is divided by `divisor` if one is given.
    """
    grouping_labels = ", ".join(("instance", *labels))
    divisor_text = f" / {divisor}" if divisor else ""
    return Line(
        f"sum by ({grouping_labels}) (rate({name}{{{HERE}}}[$__rate_interval])){divisor_text}",
        legend or _format_legend(labels, name),
    )


def build_hourly_increase_line(name: str, *labels: str, legend: str | None = None) -> Line:
    """Build a line with the increase of a counter in the last hour, for rare events."""
    grouping_labels = ", ".join(("instance", *labels))
    return Line(
        f"sum by ({grouping_labels}) (increase({name}{{{HERE}}}[1h]))",
        legend or _format_legend(labels, name),
    )


def build_median_and_p99_lines(name: str, *labels: str) -> tuple[Line, ...]:
    """Build two lines with the median and the 99th percentile of a histogram."""
    grouping_labels = ", ".join(("instance", "le", *labels))
    return tuple(
        Line(
            f"histogram_quantile({share}, "
            f"sum by ({grouping_labels}) (rate({name}_bucket{{{HERE}}}[$__rate_interval])))",
            f"{legend} {_format_legend(labels, '')}".rstrip(),
        )
        for share, legend in (("0.5", "median"), ("0.99", "99 %"))
    )


def build_percentile_lines(name: str) -> tuple[Line, ...]:
    """Build three lines with the 10th, 50th and 90th percentile of current values."""
    return tuple(
        Line(f"histogram_quantile({share}, {name}_bucket{{{HERE}}})", legend)
        for share, legend in (("0.1", "lowest tenth"), ("0.5", "median"), ("0.9", "highest tenth"))
    )


def _format_legend(labels: tuple[str, ...], name: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels) or name.removeprefix("oracle_")
