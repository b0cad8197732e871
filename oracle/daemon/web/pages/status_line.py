"""The status line under the navigation, and the values that every page needs."""

from typing import Any, NamedTuple

from oracle.domain.health import Condition, HealthReport, Severity
from oracle.queries.answers import AsOf
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.text.human_numbers import format_blocks


class StatusLine(NamedTuple):
    """The status text; `tone` (good, late or bad) is shown as a sign and a colour beside it."""

    tone: str
    words: str


UNAVAILABLE = StatusLine("late", "No data loaded")


_TONES = {Severity.WELL: "good", Severity.ATTENTION: "late", Severity.DOWN: "bad"}


def build_status_line(as_of: AsOf, health: HealthReport) -> StatusLine:
    """Return the worst condition in a few words, or that there is none."""
    worst_condition, lag_blocks = health.worst_condition, as_of.lag_blocks
    tone = _TONES[health.severity]
    if worst_condition is None:
        return StatusLine(tone, "Synced" if lag_blocks is not None else "Indexed")
    if worst_condition is Condition.BEHIND and lag_blocks is not None:
        return StatusLine(tone, f"Catching up, {format_blocks(lag_blocks)} left")
    return StatusLine(tone, worst_condition.title)


def build_frame_values(
    snapshot: ApiSnapshot, here: str | None, json_path: str | None = None
) -> dict[str, Any]:
    """Return the template values of the frame; `here` is the current navigation entry."""
    return {
        "here": here,
        "as_of": snapshot.as_of,
        "standing": build_status_line(snapshot.as_of, snapshot.load_health()),
        "json_path": json_path,
        "token": snapshot.source.token,
        "labels": snapshot.source.labels,
    }
