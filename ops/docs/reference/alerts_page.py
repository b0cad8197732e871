"""Generates the page of alerts, with their expressions and runbook pages."""

import re
from dataclasses import dataclass
from pathlib import Path

from reference.markdown import render_head, render_table

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "ops" / "prometheus" / "alerts.yml"
_ALERT = re.compile(r"^ +- alert: (\w+)\n((?:(?! +- alert:).*\n?)*)", re.MULTILINE)
_PAGE = re.compile(r"\{\{ \$externalLabels\.docs \}\}/(how-to/runbook/[a-z-]+)/")
_ABOUT = """\
This page is for operators who run Prometheus. It lists every alert of `ops/prometheus/alerts.yml`:
the severity, the expression, and the runbook page with the steps to take.
"""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert.

    `duration` is how long the expression must be true, or "" if it is not required to last.
    """

    name: str
    expression: str
    duration: str
    severity: str
    summary: str
    runbook: str


def read_alerts() -> list[Alert]:
    """Read every alert, in the order of the file.

    Raises:
        ValueError: an alert lacks its severity, summary or runbook page.
    """
    return [_parse_alert(name, body) for name, body in _ALERT.findall(ALERTS.read_text("utf-8"))]


def _parse_alert(name: str, body: str) -> Alert:
    def parse_value(key: str, default: str | None = None) -> str:
        matches = re.findall(rf"\b{key}: (.+)", body)
        if len(matches) != 1 and default is None:
            raise ValueError(f"{name}: expected one {key}, found {len(matches)}")
        return matches[0].strip('"}') if matches else default or ""

    return Alert(
        name=name,
        expression=re.findall(r"expr: (.+)", body)[0],
        duration=parse_value("for", ""),
        severity=parse_value("severity"),
        summary=parse_value("summary"),
        runbook=_get_runbook_path(name, parse_value("runbook_url")),
    )


def _get_runbook_path(name: str, url: str) -> str:
    """Return the path of the source file for the URL of a runbook page."""
    match = _PAGE.fullmatch(url)
    if match is None:
        raise ValueError(f"{name}: runbook_url is not the URL of a runbook page")
    return f"docs/{match[1]}.md"


def render_page() -> str:
    """Render the page of alerts as Markdown."""
    rows = [
        (
            f"`{alert.name}`",
            alert.severity,
            alert.summary,
            f"`{alert.expression}`" + (f" for {alert.duration}" if alert.duration else ""),
            f"[{Path(alert.runbook).stem}](../{alert.runbook.removeprefix('docs/')})",
        )
        for alert in read_alerts()
    ]
    columns = ("alert", "severity", "summary", "fires when", "runbook")
    return (
        render_head("Alerts", "`ops/prometheus/alerts.yml`", about=_ABOUT)
        + "\n"
        + render_table(columns, rows)
    )
