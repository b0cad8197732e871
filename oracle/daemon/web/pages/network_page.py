"""Renders the page `/` with the network's state, the quality of its nodes, and recent events.

In a browser, the event stream triggers a reload of the recent events.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.drawings import lay_out_bars, lay_out_share_bars
from oracle.daemon.web.pages.nodes_page import build_sparklines
from oracle.daemon.web.pages.page_frame import PageRequest, build_frame_values, render_template
from oracle.domain.ids import Address
from oracle.domain.scoring.reliability import DECREASE_CAUSES
from oracle.queries.api.network_view import SECONDS_BY_SPAN, NetworkAnswer, build_network_overview
from oracle.queries.api.node_list import NodeListQuery, list_nodes
from oracle.queries.api.records.event_feed import (
    EVENT_KINDS,
    EventCursor,
    FeedEvent,
    NumberedEvent,
    load_newest_events,
)
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.node_sentences import format_short_cause
from oracle.queries.node_standing import build_score_causes
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_number_in_words,
)

# The default range, and a shorter one for a new network.
_SPAN, _SHORT_SPAN = "24h", "1h"
# Number of the best nodes to show, each with its reason.
_BEST_NODES = 12
_FULL_WIDTH = 1_120
_BOX_WIDTH = 500
_HISTOGRAM = (_BOX_WIDTH, 130)
_SCORES = (_BOX_WIDTH, 60)
_TIMEOUTS = (_BOX_WIDTH, 40)

# The time range of recent events in seconds, the maximum number of events to read, and the maximum
# number of rows to show.
_FEED_SECONDS, _MAX_EVENTS, _ROWS = 3_600, 5_000, 9
# The sign shown before the text of each kind of event. An exclusion by timeouts has another sign.
_SIGN_BY_KIND = {
    **{cause.value: "▼" for cause in DECREASE_CAUSES},
    "recovered": "○",
    "joined": "●",
    "resumed": "●",
    "paused": "‖",
    "left": "‖",
    "incident_began": "▼",
    "incident_over": "○",
    "rules_announced": "▲",
    "rules_cancelled": "○",
    "rules_set": "▲",
    "kickout_due": "✕",
    "kickout_accused": "✕",
    "kickout_executed": "✕",
    "report_accepted": "✓",
    "halt_cleared": "✓",
}
_EXCLUDED_SIGN = "▲"
_CALM_KINDS = frozenset(
    {
        *("report_accepted", "joined", "paused", "resumed", "left", "recovered"),
        *("halt_cleared", "incident_over", "rules_cancelled"),
    }
)
_FREQUENT_KIND = "report_accepted"


class EventRow(NamedTuple):
    """A row of recent events, with the event's id in the event stream.

    `earlier` is the number of earlier reports that were merged into this row.
    """

    id: str
    event: FeedEvent
    sign: str
    tone: str
    earlier: int = 0


def render_network(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show the number and quality of nodes, recent events, and open actions."""
    range_name = request.get_query_choice("range", SECONDS_BY_SPAN)
    network_answer, activity_span = _load_network_overview(snapshot, range_name)
    best_nodes = list_nodes(snapshot, NodeListQuery(limit=_BEST_NODES)).nodes
    feed_entries, cursor = read_recent_events(snapshot)
    return render_template(
        "network.html",
        **build_frame_values(snapshot, "Network", "/v1/network"),
        network=network_answer,
        **build_overview_values(network_answer, activity_span),
        best=best_nodes,
        reasons={
            row.node: format_short_cause(
                build_score_causes(snapshot, snapshot.get_ranking().nodes[Address(row.node)])
            )
            for row in best_nodes
        },
        courses=build_sparklines(snapshot, best_nodes),
        feed=feed_entries,
        last_event=cursor,
        kinds=",".join(EVENT_KINDS),
        spans=list(SECONDS_BY_SPAN),
        span_name=activity_span,
        phase=request.phase,
    )


def _load_network_overview(
    snapshot: ApiSnapshot, span_name: str | None
) -> tuple[NetworkAnswer, str]:
    """Load the network overview with its time span, which is an hour for a new network."""
    overview = build_network_overview(snapshot, span_name or _SPAN)
    earlier_parts = overview.activity[:-1]
    if span_name is None and not any(part.scores or part.timeouts for part in earlier_parts):
        return build_network_overview(snapshot, _SHORT_SPAN), _SHORT_SPAN
    return overview, span_name or _SPAN


def build_overview_values(overview: NetworkAnswer, span: str) -> dict[str, Any]:
    """Build the template values for the sentences and drawings of the network page."""
    score_counts = [part.scores for part in overview.activity]
    timeout_counts = [part.timeouts for part in overview.activity]
    state_counts = list(overview.states.items())
    return {
        "headline": format_headline(overview),
        "lead": format_network_summary(overview, sum(score_counts), sum(timeout_counts), span),
        "shares": lay_out_share_bars(state_counts, _FULL_WIDTH),
        "shares_label": ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in state_counts
        ),
        "histogram": lay_out_bars(overview.histogram, len(overview.histogram), _HISTOGRAM),
        "scores": sum(score_counts),
        "timeouts": sum(timeout_counts),
        "max_scores": max(score_counts, default=0),
        "max_timeouts": max(timeout_counts, default=0),
        "score_bars": lay_out_bars(score_counts, len(score_counts), _SCORES),
        "timeout_bars": lay_out_bars(timeout_counts, len(timeout_counts), _TIMEOUTS),
    }


def format_headline(overview: NetworkAnswer) -> str:
    """Return a sentence about how many nodes can be given tasks."""
    selectable_count = overview.states["selectable"] + overview.states["recovering"]
    if not overview.members:
        return "No node is in the network yet."
    if selectable_count == overview.members:
        headline_subject = (
            "The only node" if selectable_count == 1 else f"All {overview.members} nodes"
        )
        return f"{headline_subject} can be given tasks."
    return (
        f"{capitalize_first(format_number_in_words(selectable_count))} of {overview.members} "
        "nodes can be given tasks."
    )


def format_network_summary(overview: NetworkAnswer, scores: int, timeouts: int, span: str) -> str:
    """Return a summary of the unavailable nodes and of recent activity."""
    summary_sentences = [
        f"{capitalize_first(format_number_in_words(count))} "
        f"{'is' if count == 1 else 'are'} {word}."
        for state, word in (
            ("excluded", "excluded for a low reliability"),
            ("paused", "paused"),
            ("kicked_out", "kicked out"),
        )
        if (count := overview.states[state])  # type: ignore[index]  # each is a state
    ]
    activity_text = (
        f"{capitalize_first(format_count(scores, 'task score'))}, "
        f"{format_count(timeouts, 'timeout')}"
    )
    return " ".join([*summary_sentences, f"{activity_text} in the last {span}."])


def read_recent_events(snapshot: ApiSnapshot) -> tuple[list[EventRow], EventCursor]:
    """Read the events of the last hour, newest first, and the cursor after them."""
    first_time = max(0, snapshot.cursor.time - _FEED_SECONDS)
    # One more row is read than is shown, because the oldest row may lack reports.
    row_count = _ROWS + 1
    start_time = snapshot.uow.activity.find_time_of_recent_changes(
        row_count, first_time, snapshot.cursor.number
    )
    events, newest_cursor = load_newest_events(snapshot, start_time, _MAX_EVENTS)
    event_rows = merge_consecutive_reports(reversed(events))
    if len(event_rows) < row_count and start_time > first_time:
        events, newest_cursor = load_newest_events(snapshot, first_time, _MAX_EVENTS)
        event_rows = merge_consecutive_reports(reversed(events))
    return event_rows[:_ROWS], newest_cursor


def merge_consecutive_reports(events: Iterable[NumberedEvent]) -> list[EventRow]:
    """Return a row for each event, merging consecutive reports into one row."""
    merged_rows: list[EventRow] = []
    for numbered_event in events:
        event = numbered_event.event
        if merged_rows and event.kind == merged_rows[-1].event.kind == _FREQUENT_KIND:
            merged_rows[-1] = merged_rows[-1]._replace(earlier=merged_rows[-1].earlier + 1)
            continue
        is_excluded = event.excluded_until is not None
        sign = _EXCLUDED_SIGN if is_excluded else _SIGN_BY_KIND.get(event.kind, "●")
        tone = "calm" if event.kind in _CALM_KINDS else "bad"
        merged_rows.append(EventRow(str(numbered_event.cursor_after), event, sign, tone))
    return merged_rows
