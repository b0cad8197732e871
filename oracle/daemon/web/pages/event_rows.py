"""Recent events as rows of the network page, which the live feed reloads."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from oracle.domain.fold.working_set import FALL_CAUSES
from oracle.queries.api.records.event_feed import (
    EventCursor,
    FeedEvent,
    NumberedEvent,
    find_newest_cursor,
    load_events_after,
)
from oracle.queries.api.source import ApiSnapshot

# The period, the maximum number of events per read, and the maximum number of rows.
_FEED_SECONDS, _MAX_EVENTS, _ROWS = 3_600, 5_000, 9
# The sign beside the text of each kind; an exclusion by a timeout has its own sign.
_SIGN_BY_KIND = {
    **{cause.value: "▼" for cause in FALL_CAUSES},
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
_EXCLUDED_SIGN = "▲"
_CALM_KINDS = frozenset(
    {"report_accepted", "joined", "paused", "resumed", "left", "recovered", "halt_cleared"}
)
_FREQUENT_KIND = "report_accepted"


class EventRow(NamedTuple):
    """One event of the page, with the id under which the event stream sends it.

    `earlier` is the number of earlier reports that share the row.
    """

    id: str
    event: FeedEvent
    sign: str
    tone: str
    earlier: int = 0


def read_newest_rows(snapshot: ApiSnapshot) -> tuple[list[EventRow], EventCursor]:
    """Return the events of the last hour, newest first, and the cursor after them."""
    newest = find_newest_cursor(snapshot)
    since = newest._replace(time=max(0, snapshot.cursor.time - _FEED_SECONDS), delivered=0)
    events: deque[NumberedEvent] = deque(maxlen=_MAX_EVENTS)
    while page := load_events_after(snapshot, since, _MAX_EVENTS):
        events.extend(page)
        since = page[-1].cursor_after
        if len(page) < _MAX_EVENTS:
            break
    return merge_report_runs(reversed(events))[:_ROWS], newest


def merge_report_runs(events: Iterable[NumberedEvent]) -> list[EventRow]:
    """Return a row for each event; consecutive reports share a row."""
    rows: list[EventRow] = []
    for numbered_event in events:
        event = numbered_event.event
        if rows and event.kind == rows[-1].event.kind == _FREQUENT_KIND:
            rows[-1] = rows[-1]._replace(earlier=rows[-1].earlier + 1)
            continue
        is_excluded = event.excluded_until is not None
        sign = _EXCLUDED_SIGN if is_excluded else _SIGN_BY_KIND.get(event.kind, "●")
        tone = "calm" if event.kind in _CALM_KINDS else "bad"
        rows.append(EventRow(str(numbered_event.cursor_after), event, sign, tone))
    return rows
