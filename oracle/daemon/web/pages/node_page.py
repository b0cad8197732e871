"""The page of one node: a summary sentence, and all its inputs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.drawings import (
    BROAD,
    NARROW,
    Bar,
    Sample,
    TrendChart,
    build_trend_chart,
    lay_out_bars,
)
from oracle.daemon.web.pages.node_words import (
    ScoreLabel,
    describe_exclusion,
    describe_kickout,
    describe_mark,
    describe_membership_change,
    describe_on_chain_score,
    describe_score,
)
from oracle.daemon.web.pages.page_frame import (
    PageRequest,
    format_two_digits,
    parse_node_prefix,
    render_template,
)
from oracle.daemon.web.pages.status_line import build_frame_values
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import CAUSES, ReliabilityCause, ReliabilityMark, ScoreEntry
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node
from oracle.queries.api.node_history import HistoryQuery, NodeHistory, build_node_history
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.node_view import NodeView, build_node_view
from oracle.queries.api.records.node_past import build_node_past
from oracle.queries.api.source import ApiSnapshot, RequestError
from oracle.queries.sentences.node_sentences import (
    NodeSummary,
    format_details,
    format_headline,
    format_improvement,
)
from oracle.queries.sentences.node_standing import build_summary

# The ranges in seconds; all: since the node was first seen.
_RANGES = {
    "1h": 3_600,
    "6h": 21_600,
    "24h": 86_400,
    "7d": 604_800,
    "30d": 2_592_000,
    "all": None,
}
_DEFAULT_RANGE = "all"
_SCORE_BOX = (1_120, 118)
# A chart of at most this length has clock times, a longer one has dates.
_CLOCK_SECONDS = 129_600
# The number of points of a chart, which is the number of its columns.
_MAX_POINTS = 600


class NodePageContent(NamedTuple):
    """The sentences and drawings of the page; reliability, mean and thresholds are decimals."""

    headline: str
    details: str
    lift: str | None
    on_chain: str
    on_chain_label: str
    exclusion: str
    kickout: str
    reliability: float
    exclude_below: float
    mean: float
    kick_below: float
    best_score: int
    bars: list[tuple[Bar, ScoreLabel]]


def render_node(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show one node: a summary sentence, then all its inputs."""
    range_name = request.get_field("range") or _DEFAULT_RANGE
    if range_name not in _RANGES:
        raise RequestError(f"range: expected one of {', '.join(_RANGES)}")
    node = find_node_by_prefix(snapshot, parse_node_prefix(request.path["address"]))
    node_answer = build_node_view(snapshot, node)
    node_summary, scores = build_summary(snapshot, node, node_answer)
    last, range_seconds = _find_end_time(snapshot, node), _RANGES[range_name]
    first = None if range_seconds is None else max(0, last - range_seconds)
    history = build_node_history(
        snapshot, node.address, HistoryQuery(first=first, last=last, points=_MAX_POINTS)
    )
    past = build_node_past(snapshot, node.address)
    return render_template(
        "node.html",
        **build_frame_values(snapshot, "Nodes", f"/v1/nodes/{node.address}"),
        node=node_answer,
        content=build_node_content(node_answer, node_summary, scores),
        history=history,
        past=past,
        has_evidence=request.has_evidence,
        turns=[(change, describe_membership_change(change)) for change in past.membership],
        charts=build_charts(history, node_summary.rules),
        marks=_build_mark_texts(history, snapshot, node_summary.rules),
        ranges=list(_RANGES),
        range_name=range_name,
    )


def _find_end_time(snapshot: ApiSnapshot, node: Node) -> int:
    """Return the end of a node's chart in unix seconds: now, or when a former member left."""
    last_change = snapshot.uow.memberships.get_effective_change(node.address)
    is_member = node.membership is Membership.MEMBER
    return snapshot.cursor.time if last_change is None or is_member else last_change.time


def build_node_content(
    answer: NodeView, node_summary: NodeSummary, scores: Sequence[ScoreEntry]
) -> NodePageContent:
    """Return the sentences and drawings of a node."""
    rules, (qos, chain_words) = node_summary.rules, describe_on_chain_score(answer)
    slot_count = max(answer.pool_size, len(scores))
    score_bars = lay_out_bars(
        [entry.score for entry in scores], slot_count, _SCORE_BOX, rules.q_max
    )
    return NodePageContent(
        headline=format_headline(node_summary),
        details=format_details(node_summary),
        lift=format_improvement(node_summary),
        on_chain=qos,
        on_chain_label=chain_words,
        exclusion=describe_exclusion(answer),
        kickout=describe_kickout(answer),
        reliability=answer.row.reliability / UNIT,
        exclude_below=answer.excluded_below / UNIT,
        mean=(answer.kickout.mean or 0) / UNIT,
        kick_below=answer.kickout.below / UNIT,
        best_score=rules.q_max,
        bars=[
            (bar, describe_score(entry, rules))
            for bar, entry in zip(score_bars, scores, strict=False)
        ],
    )


def build_charts(history: NodeHistory, rules: Rules) -> list[TrendChart]:
    """Return the chart twice, for wide and for narrow screens; empty without samples."""
    samples = [
        Sample(time, float(qos), float(long_term), float(reliability))
        for time, qos, long_term, reliability in history.rows
    ]
    falls = _select_drawn_changes(history, ReliabilityMark.FALL)
    rises = _select_drawn_changes(history, ReliabilityMark.RISE)
    excluded = [(mark.time, mark.back_at) for mark in history.marks if mark.back_at is not None]
    limit = rules.exclude_enter / UNIT
    charts = (
        build_trend_chart(samples, limit, width, falls=falls, rises=rises, excluded=excluded)
        for width in (BROAD, NARROW)
    )
    return [chart for chart in charts if chart is not None]


def _select_drawn_changes(
    history: NodeHistory, mark: ReliabilityMark
) -> list[tuple[int, float, int]]:
    """Return time, H and index of the changes with this mark that had an effect."""
    return [
        (change.time, float(change.after), index)
        for index, change in enumerate(history.marks)
        if CAUSES[ReliabilityCause(change.cause)].mark is mark and change.before != change.after
    ]


def _build_legend(mark: ReliabilityMark) -> str:
    return ", ".join(dict.fromkeys(info.legend for info in CAUSES.values() if info.mark is mark))


def _build_mark_texts(history: NodeHistory, snapshot: ApiSnapshot, rules: Rules) -> dict[str, Any]:
    return {
        "labels": [describe_mark(mark) for mark in history.marks],
        "is_short": history.last - history.first < _CLOCK_SECONDS,
        "now_text": "now" if history.last == snapshot.cursor.time else "",
        "falls": _build_legend(ReliabilityMark.FALL),
        "rises": _build_legend(ReliabilityMark.RISE),
        "limit": format_two_digits(f"{rules.exclude_enter / UNIT:.4f}"),
    }
