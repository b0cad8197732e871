"""Recent events as rows of the network page, which the live feed reloads."""

from collections.abc import Iterable
from typing import NamedTuple

from oracle.domain.fold.working_set import FALLS
from oracle.queries.api.records.event_feed import (
    EventCursor,
    FeedEvent,
    NumberedEvent,
    events_after,
    newest_place,
)
from oracle.queries.api.source import ApiSnapshot

# The period, the maximum number of events read, and the maximum number of rows.
_FEED_SECONDS, _MOST_EVENTS, _ROWS = 3_600, 5_000, 9
# The sign beside the text of each kind; an exclusion by a timeout has its own sign.
_SIGNS = {
    **{cause.value: "▼" for cause in FALLS},
    "recovered": "○",
    "joined": "●",
    "resumed": "●",
    "paused": "‖",
    "left": "‖",
    "kickout_due": "✕",
    "kickout_proposed": "✕",
    "kickout_executed": "✕",
    "report_accepted": "✓",
    "halt_cleared": "✓",
}
_EXCLUDED = "▲"
_CALM = frozenset(
    {"report_accepted", "joined", "paused", "resumed", "left", "recovered", "halt_cleared"}
)
_OFTEN = "report_accepted"


class EventRow(NamedTuple):
    """One event, with the id under which the event stream sends it.

    `earlier` is the number of earlier reports that the row also represents.
    """

    id: str
    event: FeedEvent
    sign: str
    tone: str
    earlier: int = 0


def newest_rows(look: ApiSnapshot) -> tuple[list[EventRow], EventCursor]:
    """Return the events of the last hour, newest first, and the cursor after them."""
    newest = newest_place(look)
    since = newest._replace(time=max(0, look.cursor.time - _FEED_SECONDS), told=0)
    found = reversed(events_after(look, since, _MOST_EVENTS))
    return in_runs(found)[:_ROWS], newest


def in_runs(events: Iterable[NumberedEvent]) -> list[EventRow]:
    """Return a row for each event; consecutive reports share a row."""
    rows: list[EventRow] = []
    for one in events:
        event = one.event
        if rows and event.kind == rows[-1].event.kind == _OFTEN:
            rows[-1] = rows[-1]._replace(earlier=rows[-1].earlier + 1)
            continue
        is_out = event.excluded_until is not None
        sign = _EXCLUDED if is_out else _SIGNS.get(event.kind, "●")
        tone = "calm" if event.kind in _CALM else "bad"
        rows.append(EventRow(str(one.after), event, sign, tone))
    return rows
