"""Renders the page `/nodes`, a sorted and filtered list of all nodes in pages."""

import re
from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi.responses import Response

from oracle.chain.hex_names import HexNameError, parse_address
from oracle.daemon.web.pages.drawings import build_sparkline_path
from oracle.daemon.web.pages.page_frame import (
    PageRequest,
    build_frame_values,
    parse_node_prefix,
    render_template,
)
from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NODE_STATES
from oracle.queries.api.node_list import NodeListQuery, list_nodes
from oracle.queries.api.node_order import NodeSort
from oracle.queries.api.source import ApiSnapshot, RequestError
from oracle.queries.node_models import NodeEntry
from oracle.queries.text.text_tables import sanitize_text

# Limits of a user's own list of addresses, which is stored only in the link.
_MAX_ADDRESSES = 200
_MAX_ADDRESSES_LENGTH = 9_000
_COLUMNS = (
    ("qos", "QoS"),
    ("long_term", "Long-term"),
    ("reliability", "H"),
    ("scored", "Scores"),
)
_ORDER_WORDS = MappingProxyType({
    "qos": "the best first",
    "-qos": "the worst first",
    "long_term": "the best long-term first",
    "-long_term": "the worst long-term first",
    "reliability": "the most reliable first",
    "-reliability": "the least reliable first",
    "scored": "the most scored first",
    "-scored": "the least scored first",
    "changed_at": "most recently changed first",
    "-changed_at": "least recently changed first",
    "address": "by address",
})  # fmt: skip


def render_nodes(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show all nodes, sorted and filtered, with a hundred per page."""
    query = parse_node_list_query(request)
    node_list = list_nodes(snapshot, query)
    return render_template(
        "nodes.html",
        **build_frame_values(snapshot, "Nodes", "/v1/nodes"),
        page=node_list,
        asked=query,
        order_words=_ORDER_WORDS[query.sort],
        counts=[(state, node_list.counts.get(state, 0)) for state in NODE_STATES],
        columns=_COLUMNS,
        courses=build_sparklines(snapshot, node_list.nodes),
        of=format_own_nodes(query),
        link=partial(build_query_string, query),
    )


def build_sparklines(snapshot: ApiSnapshot, rows: Sequence[NodeEntry]) -> dict[str, str]:
    """Build the SVG path of each listed node's sparkline.

    Nodes without a sparkline are left out.
    """
    nodes_shown = [snapshot.get_ranking().nodes[Address(row.node)] for row in rows]
    qos_values_by_node = snapshot.source.rankings.load_trends(snapshot.uow, nodes_shown)
    path_by_node = {
        name: build_sparkline_path(qos_values) for name, qos_values in qos_values_by_node.items()
    }
    return {name: path for name, path in path_by_node.items() if path is not None}


def parse_node_list_query(request: PageRequest) -> NodeListQuery:
    """Parse a request's query; raise RequestError if order, state or prefix is invalid."""
    prefix = request.get_query_field("prefix")
    return NodeListQuery(
        sort=request.get_query_choice("sort", get_args(NodeSort)) or "qos",
        state=request.get_query_choice("state", NODE_STATES),
        prefix=None if prefix is None else parse_node_prefix(prefix),
        gpu=request.get_query_field("gpu"),
        of=_parse_own_nodes(request.get_query_field("of", _MAX_ADDRESSES_LENGTH)),
        cursor=request.get_query_field("cursor"),
    )


def _parse_own_nodes(text: str | None) -> frozenset[str]:
    """Parse the addresses in the `of` parameter; raise RequestError if one is invalid."""
    node_texts = [] if text is None else [entry for entry in re.split(r"[\s,]+", text) if entry]
    if len(node_texts) > _MAX_ADDRESSES:
        raise RequestError(
            f"of: the list has {len(node_texts)} addresses; expected at most {_MAX_ADDRESSES}"
        )
    return frozenset(_parse_own_node_address(entry) for entry in node_texts)


def _parse_own_node_address(text: str) -> str:
    try:
        return parse_address(text)
    except HexNameError as error:
        raise RequestError(f"of: {sanitize_text(text)}: {error}") from error


def format_own_nodes(query: NodeListQuery) -> str | None:
    """Return the user's own list of nodes as text for a link, or None if it is empty."""
    return ",".join(sorted(query.of)) or None


def build_query_string(query: NodeListQuery, **changes: Any) -> str:  # noqa: ANN401 - a template's values
    """Build the query string of the node list with changed fields; None removes a field."""
    query_fields = {
        "sort": query.sort,
        "state": query.state,
        "prefix": query.prefix,
        "gpu": query.gpu,
        "of": format_own_nodes(query),
        "cursor": query.cursor,
    }
    present_fields = {
        name: value for name, value in (query_fields | changes).items() if value is not None
    }
    return urlencode(present_fields)
