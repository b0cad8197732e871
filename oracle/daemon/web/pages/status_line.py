"""The line under the navigation: how far the index is, and what every page is rendered with."""

from typing import Any, NamedTuple

from oracle.domain.health import Condition, HealthReport, Severity
from oracle.queries.answers import AsOf
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.text.human_numbers import blocks


class StatusLine(NamedTuple):
    """`tone`: good, late or bad; it is a sign and a colour beside the words."""

    tone: str
    words: str


OUT_OF_REACH = StatusLine("late", "Nothing of the index is on this page")


_TONES = {Severity.WELL: "good", Severity.ATTENTION: "late", Severity.DOWN: "bad"}


def status_line(as_of: AsOf, health: HealthReport) -> StatusLine:
    """Return the worst that is wrong in a few words, or that nothing is."""
    worst, behind = health.worst_condition, as_of.lag_blocks
    tone = _TONES[health.severity]
    if worst is None:
        return StatusLine(tone, "Synced" if behind is not None else "Indexed")
    if worst is Condition.BEHIND and behind is not None:
        return StatusLine(tone, f"Catching up, {blocks(behind)} left")
    return StatusLine(tone, worst.title)


def framed(look: ApiSnapshot, here: str | None, json_path: str | None = None) -> dict[str, Any]:
    """Return what the frame of each page is told; `here`: the page in the navigation."""
    return {
        "here": here,
        "as_of": look.as_of,
        "standing": status_line(look.as_of, look.health()),
        "json_path": json_path,
        "token": look.source.token,
        "labels": look.source.labels,
    }
