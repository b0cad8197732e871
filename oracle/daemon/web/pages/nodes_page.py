"""The page `/nodes`: all nodes, sorted, filtered and paged."""

import re
from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, cast, get_args
from urllib.parse import urlencode

from fastapi.responses import Response

from oracle.chain.hex_names import HexNameError, parse_address
from oracle.daemon.web.pages.figures.sparklines import sparkline
from oracle.daemon.web.pages.page_frame import PageRequest, address_prefix, page
from oracle.daemon.web.pages.status_line import framed
from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NODE_STATES
from oracle.queries.api.node_list import NodeListQuery, nodes
from oracle.queries.api.node_order import NodeSort
from oracle.queries.api.source import ApiSnapshot, QuestionError
from oracle.queries.node_models import NodeEntry
from oracle.queries.text.text_tables import foreign

# The maximum number of addresses in a user's own list, which is kept in the link only.
_MOST_OF = 200
_LONGEST_OF = 9_000
_COLUMNS = (
    ("qos", "QoS"),
    ("long_term", "Long-term"),
    ("reliability", "H"),
    ("scored", "Scores"),
)
_ORDERS = MappingProxyType({
    "qos": "the best first",
    "-qos": "the worst first",
    "long_term": "the best long-term first",
    "-long_term": "the worst long-term first",
    "reliability": "the most reliable first",
    "-reliability": "the least reliable first",
    "scored": "the most scored first",
    "-scored": "the least scored first",
    "changed_at": "the last changed first",
    "-changed_at": "the longest unchanged first",
    "address": "by address",
})  # fmt: skip


def nodes_page(look: ApiSnapshot, asked_of: PageRequest) -> Response:
    """All nodes, sorted and filtered, a hundred per page."""
    asked = query_of(asked_of)
    found = nodes(look, asked)
    return page(
        "nodes.html",
        **framed(look, "Nodes", "/v1/nodes"),
        page=found,
        asked=asked,
        order_words=_ORDERS[asked.sort],
        counts=[(state, found.counts.get(state, 0)) for state in NODE_STATES],
        columns=_COLUMNS,
        courses=courses_of(look, found.nodes),
        of=of_text(asked),
        link=partial(link, asked),
    )


def courses_of(look: ApiSnapshot, rows: Sequence[NodeEntry]) -> dict[str, str]:
    """Return the sparkline of each listed node that has one, as an SVG path."""
    nodes_shown = [look.ranking().nodes[Address(row.node)] for row in rows]
    found = look.source.order.courses(look.uow, nodes_shown)
    drawn = {name: sparkline(course) for name, course in found.items()}
    return {name: path for name, path in drawn.items() if path is not None}


def query_of(asked: PageRequest) -> NodeListQuery:
    """Return the query of a request. Raises QuestionError: unknown order, state or prefix."""
    sort, state, prefix = asked.text("sort") or "qos", asked.text("state"), asked.text("prefix")
    if sort not in get_args(NodeSort):
        raise QuestionError(f"sort: is one of {', '.join(get_args(NodeSort))}")
    if state is not None and state not in NODE_STATES:
        raise QuestionError(f"state: is one of {', '.join(NODE_STATES)}")
    return NodeListQuery(
        sort=cast("NodeSort", sort),
        state=state,
        prefix=None if prefix is None else address_prefix(prefix),
        gpu=asked.text("gpu"),
        of=_own_nodes(asked.text("of", _LONGEST_OF)),
        cursor=asked.text("cursor"),
    )


def _own_nodes(text: str | None) -> frozenset[str]:
    """Return the addresses of `?of=`. Raises QuestionError: too many, or one is not valid."""
    entries = [] if text is None else [entry for entry in re.split(r"[\s,]+", text) if entry]
    if len(entries) > _MOST_OF:
        raise QuestionError(f"of: {len(entries)} addresses; expected at most {_MOST_OF}")
    return frozenset(_own_node(entry) for entry in entries)


def _own_node(text: str) -> str:
    try:
        return parse_address(text)
    except HexNameError as error:
        raise QuestionError(f"of: {foreign(text)}: {error}") from error


def of_text(asked: NodeListQuery) -> str | None:
    """Return the user's own list as text for a link, or None if all nodes are shown."""
    return ",".join(sorted(asked.of)) or None


def link(asked: NodeListQuery, **changes: Any) -> str:  # noqa: ANN401 - a template's values
    """Return the query string of the same list with changes; None removes a field."""
    fields = {
        "sort": asked.sort,
        "state": asked.state,
        "prefix": asked.prefix,
        "gpu": asked.gpu,
        "of": of_text(asked),
        "cursor": asked.cursor,
    }
    told = {name: value for name, value in (fields | changes).items() if value is not None}
    return urlencode(told)
