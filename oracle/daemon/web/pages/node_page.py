"""The page of one node: a summary sentence, and all its inputs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.figures.drawings import (
    BROAD,
    NARROW,
    Bar,
    CourseChart,
    Marks,
    Sample,
    bars,
    course_chart,
)
from oracle.daemon.web.pages.node_words import (
    ScoreWords,
    exclusion_words,
    kickout_words,
    mark_label,
    on_chain_words,
    score_words,
    turn_words,
)
from oracle.daemon.web.pages.page_frame import PageRequest, address_prefix, page, two_digits
from oracle.daemon.web.pages.status_line import framed
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import CAUSES, ReliabilityCause, ReliabilityMark, ScoreEntry
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node
from oracle.queries.api.node_history import HistoryQuery, NodeHistory, node_history
from oracle.queries.api.node_list import named
from oracle.queries.api.node_view import NodeView, node_view
from oracle.queries.api.records.node_past import node_past
from oracle.queries.api.source import ApiSnapshot, QuestionError
from oracle.queries.sentences.node_sentences import NodeStanding, details, headline, lifted
from oracle.queries.sentences.node_standing import standing_of

# The ranges in seconds; all: since the node was first seen.
_RANGES = {
    "1h": 3_600,
    "6h": 21_600,
    "24h": 86_400,
    "7d": 604_800,
    "30d": 2_592_000,
    "all": None,
}
_DEFAULT = "all"
_SCORE_BOX = (1_120, 118)
# A chart of at most this length has clock times, a longer one has dates.
_CLOCK_SECONDS = 129_600
# The number of points of a chart, which is the number of its columns.
_POINTS = 600


class NodeTold(NamedTuple):
    """The sentences and drawings of the page; lengths of distances are fractions."""

    headline: str
    details: str
    lift: str | None
    on_chain: str
    on_chain_words: str
    exclusion: str
    kickout: str
    reliability: float
    exclude_below: float
    mean: float
    kick_below: float
    best_score: int
    bars: list[tuple[Bar, ScoreWords]]


def node_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """One node: a summary sentence, then all its inputs."""
    span = asked.text("range") or _DEFAULT
    if span not in _RANGES:
        raise QuestionError(f"range: is one of {', '.join(_RANGES)}")
    node = named(look, address_prefix(asked.path["address"]))
    answer = node_view(look, node)
    standing, scores = standing_of(look, node, answer)
    last, length = _end_of(look, node), _RANGES[span]
    first = None if length is None else max(0, last - length)
    history = node_history(
        look, node.address, HistoryQuery(first=first, last=last, points=_POINTS)
    )
    past = node_past(look, node.address)
    return page(
        "node.html",
        **framed(look, "Nodes", f"/v1/nodes/{node.address}"),
        node=answer,
        told=told_of(answer, standing, scores),
        history=history,
        past=past,
        has_evidence=asked.has_evidence,
        turns=[(one, turn_words(one)) for one in past.membership],
        charts=charts_of(history, standing.rules),
        marks=_marks(history, look, standing.rules),
        ranges=list(_RANGES),
        range_name=span,
    )


def _end_of(look: ApiSnapshot, node: Node) -> int:
    """Return the end of a node's chart in unix seconds; for a former member, when it left."""
    turned = look.uow.memberships.in_effect(node.address)
    is_member = node.membership is Membership.MEMBER
    return look.cursor.time if turned is None or is_member else turned.time


def told_of(answer: NodeView, standing: NodeStanding, scores: Sequence[ScoreEntry]) -> NodeTold:
    """Return the sentences and drawings of a node."""
    rules, (qos, words) = standing.rules, on_chain_words(answer)
    places = max(answer.pool_size, len(scores))
    lengths = bars([entry.score for entry in scores], places, _SCORE_BOX, rules.q_max)
    return NodeTold(
        headline=headline(standing),
        details=details(standing),
        lift=lifted(standing),
        on_chain=qos,
        on_chain_words=words,
        exclusion=exclusion_words(answer),
        kickout=kickout_words(answer),
        reliability=answer.row.reliability / UNIT,
        exclude_below=answer.excluded_below / UNIT,
        mean=(answer.kickout.mean or 0) / UNIT,
        kick_below=answer.kickout.below / UNIT,
        best_score=rules.q_max,
        bars=[
            (bar, score_words(entry, rules)) for bar, entry in zip(lengths, scores, strict=False)
        ],
    )


def charts_of(history: NodeHistory, rules: Rules) -> list[CourseChart]:
    """Return the chart twice, for wide and for narrow screens; empty without samples."""
    samples = [
        Sample(time, float(qos), float(long_term), float(reliability))
        for time, qos, long_term, reliability in history.rows
    ]
    marks = Marks(
        falls=_drawn(history, ReliabilityMark.FALL),
        rises=_drawn(history, ReliabilityMark.RISE),
        excluded=[(one.time, one.back_at) for one in history.marks if one.back_at is not None],
    )
    limit = rules.exclude_enter / UNIT
    made = [course_chart(samples, marks, limit, width) for width in (BROAD, NARROW)]
    return [one for one in made if one is not None]


def _drawn(history: NodeHistory, mark: ReliabilityMark) -> list[tuple[int, float, int]]:
    """Return time, H and index of the changes with this mark that had an effect."""
    return [
        (change.time, float(change.after), index)
        for index, change in enumerate(history.marks)
        if CAUSES[ReliabilityCause(change.cause)].mark is mark and change.before != change.after
    ]


def _legend(mark: ReliabilityMark) -> str:
    return ", ".join(dict.fromkeys(info.legend for info in CAUSES.values() if info.mark is mark))


def _marks(history: NodeHistory, look: ApiSnapshot, rules: Rules) -> dict[str, Any]:
    return {
        "labels": [mark_label(one) for one in history.marks],
        "is_short": history.last - history.first < _CLOCK_SECONDS,
        "now_text": "now" if history.last == look.cursor.time else "",
        "falls": _legend(ReliabilityMark.FALL),
        "rises": _legend(ReliabilityMark.RISE),
        "limit": two_digits(f"{rules.exclude_enter / UNIT:.4f}"),
    }
