"""Every event that the log may tell of."""

from oracle.telemetry.log_events import LOG_EVENTS
from reference.markdown import head, table

_ABOUT = """\
A line has its event's name, a level, a time, and the facts of the case. On a terminal it is text,
else JSON (`log.format`). Secrets are blacked out.
"""


def page() -> str:
    """Return the page, in the order of names."""
    rows = [(f"`{name}`", about) for name, about in sorted(LOG_EVENTS.items())]
    return (
        head("Log events", "`oracle/telemetry/log_events.py`", about=_ABOUT)
        + "\n"
        + table(("event", "says"), rows)
    )
