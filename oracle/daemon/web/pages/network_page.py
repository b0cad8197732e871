"""The page `/`: the network in a sentence, the quality of its nodes, and recent events."""

from typing import NamedTuple

from fastapi.responses import Response

from oracle.daemon.web.pages.event_rows import newest_rows
from oracle.daemon.web.pages.figures.drawings import Bar, bars, shares
from oracle.daemon.web.pages.nodes_page import courses_of
from oracle.daemon.web.pages.page_frame import PageRequest, page
from oracle.daemon.web.pages.status_line import framed
from oracle.domain.ids import Address
from oracle.queries.api.network_view import SPAN_SECONDS, NetworkAnswer, network
from oracle.queries.api.node_list import NodeListQuery, nodes
from oracle.queries.api.records.event_feed import EVENT_KINDS
from oracle.queries.api.source import ApiSnapshot, QuestionError
from oracle.queries.node_models import NodeEntry
from oracle.queries.sentences.node_sentences import short_reason
from oracle.queries.sentences.node_standing import causes_of
from oracle.queries.text.human_numbers import capital, counted, in_words

# The default range, and the range used if the default one is still empty before its last part.
_SPAN, _SHORT_SPAN = "24h", "1h"
# The number of best nodes, each shown with its reason.
_BEST = 12
_WIDE = 1_120
_BOX = 500
_HISTOGRAM, _SCORES, _TIMEOUTS = (_BOX, 130), (_BOX, 60), (_BOX, 40)


class NetworkTold(NamedTuple):
    """The sentences and drawings of the page."""

    headline: str
    lead: str
    shares: list[tuple[str, Bar]]
    shares_words: str
    histogram: list[Bar]
    scores: int
    timeouts: int
    most_scores: int
    most_timeouts: int
    score_bars: list[Bar]
    timeout_bars: list[Bar]


def network_page(look: ApiSnapshot, asked: PageRequest) -> Response:
    """The network at a glance: number and quality of nodes, recent events, open actions."""
    answer, span = _answer(look, asked.text("range"))
    best = nodes(look, NodeListQuery(limit=_BEST)).nodes
    feed, place = newest_rows(look)
    return page(
        "network.html",
        **framed(look, "Network", "/v1/network"),
        network=answer,
        told=told_of(answer, span),
        best=best,
        reasons={row.node: _reason(look, row) for row in best},
        courses=courses_of(look, best),
        feed=feed,
        place=place,
        kinds=",".join(EVENT_KINDS),
        spans=list(SPAN_SECONDS),
        span_name=span,
        act=asked.act,
    )


def _answer(look: ApiSnapshot, asked: str | None) -> tuple[NetworkAnswer, str]:
    """Return the network's figures and their range, which is an hour for a new network."""
    if asked is not None and asked not in SPAN_SECONDS:
        raise QuestionError(f"range: is one of {', '.join(SPAN_SECONDS)}")
    answer = network(look, asked or _SPAN)
    before = answer.activity[:-1]
    if asked is None and not any(part.scores or part.timeouts for part in before):
        return network(look, _SHORT_SPAN), _SHORT_SPAN
    return answer, asked or _SPAN


def _reason(look: ApiSnapshot, row: NodeEntry) -> str:
    node = look.ranking().nodes[Address(row.node)]
    return short_reason(causes_of(look, node))


def told_of(answer: NetworkAnswer, span: str) -> NetworkTold:
    """Return the sentences and drawings of the network's figures."""
    scores = [part.scores for part in answer.activity]
    timeouts = [part.timeouts for part in answer.activity]
    states = list(answer.states.items())
    return NetworkTold(
        headline=headline(answer),
        lead=lead(answer, sum(scores), sum(timeouts), span),
        shares=shares(states, _WIDE),
        shares_words=", ".join(f"{count} {name.replace('_', ' ')}" for name, count in states),
        histogram=bars(answer.histogram, len(answer.histogram), _HISTOGRAM),
        scores=sum(scores),
        timeouts=sum(timeouts),
        most_scores=max(scores, default=0),
        most_timeouts=max(timeouts, default=0),
        score_bars=bars(scores, len(scores), _SCORES),
        timeout_bars=bars(timeouts, len(timeouts), _TIMEOUTS),
    )


def headline(answer: NetworkAnswer) -> str:
    """Return how many nodes can be given tasks, in one sentence."""
    able = answer.states["selectable"] + answer.states["recovering"]
    if not answer.members:
        return "No node is in the network yet."
    if able == answer.members:
        word = "The only node" if able == 1 else f"All {answer.members} nodes"
        return f"{word} can be given tasks."
    return f"{capital(in_words(able))} of {answer.members} nodes can be given tasks."


def lead(answer: NetworkAnswer, scores: int, timeouts: int, span: str) -> str:
    """Return why the other nodes cannot be given tasks, and the recent activity."""
    parts = [
        f"{capital(in_words(count))} {'is' if count == 1 else 'are'} {word}."
        for state, word in (
            ("excluded", "excluded after timeouts"),
            ("paused", "paused"),
            ("kicked_out", "kicked out"),
        )
        if (count := answer.states[state])  # type: ignore[index]  # each is a state
    ]
    happened = f"{capital(counted(scores, 'task score'))}, {counted(timeouts, 'timeout')}"
    return " ".join([*parts, f"{happened} in the last {span}."])
