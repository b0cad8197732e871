"""Renders the Atom feed of one node (RFC 4287), with the node's newest events.

By this feed, owners can follow their node without an account and without a setting of the
operator.
"""

from typing import NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.node_page import SENTENCE_BY_CHANGE, describe_chart_mark
from oracle.daemon.web.pages.page_frame import (
    PageRequest,
    get_template_environment,
    parse_node_prefix,
)
from oracle.domain.ids import Address
from oracle.domain.scoring.reliability import FALL_CAUSES, ReliabilityCause
from oracle.indexer.round_leaves import load_domain
from oracle.queries.answers import LogPlace
from oracle.queries.api.node_history import MAX_POINTS, HistoryQuery, build_node_history
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.records.node_past import build_node_past
from oracle.queries.api.source import ApiSnapshot

# The feed contains up to this number of entries, from this many seconds (thirty days).
_MAX_ENTRIES = 50
_SPAN_SECONDS = 30 * 86_400
_MEDIA_TYPE = "application/atom+xml; charset=utf-8"


class AtomEntry(NamedTuple):
    """One event of a node: its stable id, its unix time, and its sentence."""

    id: str
    time: int
    title: str


def render_node_feed(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Return the newest events of a node as an Atom feed."""
    node = find_node_by_prefix(snapshot, parse_node_prefix(request.path["address"]))
    entries = list_feed_entries(snapshot, node.address)
    text = (
        get_template_environment()
        .get_template("node_feed.xml")
        .render(
            node=node.address,
            label=snapshot.source.labels.get(node.address),
            feed_id=f"urn:qos-oracle:{load_domain(snapshot.uow).chain_id}:{node.address}",
            entries=entries,
            updated=entries[0].time if entries else snapshot.cursor.time,
        )
    )
    return Response(text, media_type=_MEDIA_TYPE, headers={"cache-control": "no-cache"})


def list_feed_entries(snapshot: ApiSnapshot, address: Address) -> list[AtomEntry]:
    """Return the newest membership changes and reliability drops of a node, newest first."""
    oldest_time = max(0, snapshot.cursor.time - _SPAN_SECONDS)
    query = HistoryQuery(first=oldest_time, last=None, points=MAX_POINTS)
    falls = [
        AtomEntry(_build_id(mark.place, mark.cause), mark.time, describe_chart_mark(mark))
        for mark in build_node_history(snapshot, address, query).marks
        if ReliabilityCause(mark.cause) in FALL_CAUSES
    ]
    turns = [
        AtomEntry(_build_id(event.place, event.what), event.time, SENTENCE_BY_CHANGE[event.what])
        for event in build_node_past(snapshot, address).membership
        if event.time is not None and event.time >= oldest_time
    ]
    entries = sorted([*falls, *turns], key=lambda entry: entry.time, reverse=True)
    return entries[:_MAX_ENTRIES]


def _build_id(log_place: LogPlace, kind: str) -> str:
    """Return an id that stays the same while the event stays at its place in the chain."""
    if log_place.tx is None:
        return f"{log_place.block}-feed-{log_place.feed_row}-{kind}"
    return f"{log_place.block}-{log_place.tx}-{log_place.log}-{kind}"
