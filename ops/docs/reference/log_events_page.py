"""Generates the page of log events."""

from oracle.telemetry.log_events import LOG_EVENTS
from reference.markdown import render_head, render_table

_ABOUT = """\
This page is for operators who search or filter the daemon's log. It lists every log event.

Each log line contains the event name, a level, a timestamp, and the event's fields. The format is
text on a terminal, otherwise JSON (setting `log.format`). Secrets are redacted.
"""


def render_page() -> str:
    """Render the page of log events as Markdown, ordered by name."""
    rows = [(f"`{name}`", about) for name, about in sorted(LOG_EVENTS.items())]
    return (
        render_head("Log events", "`oracle/telemetry/log_events.py`", about=_ABOUT)
        + "\n"
        + render_table(("event", "meaning"), rows)
    )
