"""The status line under the navigation, and the values that every page needs."""

from typing import Any, NamedTuple

from oracle.domain.health import Condition, HealthReport, Severity
from oracle.queries.answers import AsOf
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.text.human_numbers import blocks


class StatusLine(NamedTuple):
    """The status text; `tone` (good, late or bad) is shown as a sign and a colour beside it."""

    tone: str
    words: str


OUT_OF_REACH = StatusLine("late", "Nothing of the index is on this page")


_TONES = {Severity.WELL: "good", Severity.ATTENTION: "late", Severity.DOWN: "bad"}


def status_line(as_of: AsOf, health: HealthReport) -> StatusLine:
    """Return the worst condition in a few words, or that there is none."""
    worst, behind = health.worst_condition, as_of.lag_blocks
    tone = _TONES[health.severity]
    if worst is None:
        return StatusLine(tone, "Synced" if behind is not None else "Indexed")
    if worst is Condition.BEHIND and behind is not None:
        return StatusLine(tone, f"Catching up, {blocks(behind)} left")
    return StatusLine(tone, worst.title)


def framed(look: ApiSnapshot, here: str | None, json_path: str | None = None) -> dict[str, Any]:
    """Return the template values of the frame; `here` is the current navigation entry."""
    return {
        "here": here,
        "as_of": look.as_of,
        "standing": status_line(look.as_of, look.health()),
        "json_path": json_path,
        "token": look.source.token,
        "labels": look.source.labels,
    }
