"""Sorted and filtered pages of nodes; each continues after the last key of the previous page."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NodeState
from oracle.domain.state import Node
from oracle.queries.api.node_order import NodeRanking, NodeSort, SortKey
from oracle.queries.api.source import (
    AmbiguousPrefixError,
    ApiSnapshot,
    NotFoundError,
    RequestError,
)
from oracle.queries.node_models import NodeEntry, NodePage
from oracle.queries.population import (
    Population,
    build_node_entry,
    has_feed_cursor,
    load_on_chain_scores,
)

MAX_ROWS = 200
_MAX_CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class NodeListQuery:
    """The sort order, filters and position of a page.

    `of` selects these nodes, or all nodes if it is empty. `gpu` selects the nodes whose card name
    contains this text, case-insensitively.
    """

    sort: NodeSort = "qos"
    state: NodeState | None = None
    prefix: str | None = None
    gpu: str | None = None
    of: frozenset[str] = frozenset()
    cursor: str | None = None
    limit: int = 100

    def matches(self, ranking: NodeRanking, node: Node) -> bool:
        """Return whether a node passes the filters."""
        if self.prefix is not None and not node.address.startswith(self.prefix):
            return False
        if self.of and node.address not in self.of:
            return False
        if self.gpu is not None and self.gpu.casefold() not in (node.gpu_name or "").casefold():
            return False
        return self.state is None or ranking.compute_state(node) == self.state


def list_nodes(snapshot: ApiSnapshot, query: NodeListQuery) -> NodePage:
    """Return one page; raise RequestError if this API did not issue the cursor."""
    ranking = snapshot.get_ranking()
    epoch, start_key = (None, None) if query.cursor is None else _decode_cursor(query)
    matching_nodes = (
        node
        for node in ranking.iterate_after(query.sort, start_key)
        if query.matches(ranking, node)
    )
    page_nodes = list(islice(matching_nodes, query.limit + 1))
    rows = page_nodes[: query.limit]
    last_key = (
        ranking.build_sort_key(query.sort, rows[-1]) if len(page_nodes) > query.limit else None
    )
    return NodePage(
        as_of=snapshot.as_of,
        total=len(ranking.nodes),
        counts=dict(ranking.counts),
        nodes=list(_build_entries(snapshot, rows)),
        next=None
        if last_key is None
        else _encode_cursor(snapshot.cursor.epoch, query.sort, last_key),
        moved=epoch is not None and epoch != snapshot.cursor.epoch,
    )


def load_population(snapshot: ApiSnapshot) -> Population:
    """Return the network data from which scores are computed, as of the cursor."""
    ranking = snapshot.get_ranking()
    return Population(
        time=snapshot.cursor.time,
        rules=snapshot.source.archive.rules,
        peers=ranking.peers,
        shares=ranking.get_incentive_shares(),
        on_chain=load_on_chain_scores(
            snapshot.uow,
            snapshot.uow.rounds.get_last_provable_round(),
            snapshot.source.leaves,
        ),
        uses_feed=has_feed_cursor(snapshot.uow),
        labels=snapshot.source.labels,
    )


def _build_entries(snapshot: ApiSnapshot, nodes: Sequence[Node]) -> Iterator[NodeEntry]:
    """Yield the row of each node, in the given order."""
    ranking, population = snapshot.get_ranking(), load_population(snapshot)
    for node in nodes:
        node_scores = population.compute_node_scores(node)
        place = ranking.find_rank_by_qos(node.address, node_scores.qos)
        yield build_node_entry(node, node_scores, population, place)


def find_node_by_prefix(snapshot: ApiSnapshot, prefix: str) -> Node:
    """Return the node with this address, or the only node whose address starts with `prefix`.

    Raises:
        NotFoundError: no address starts with `prefix`.
        AmbiguousPrefixError: several addresses start with `prefix`.
    """
    addresses = snapshot.uow.nodes.list_by_prefix(prefix[2:], _MAX_CANDIDATES)
    if not addresses:
        raise NotFoundError(f"no node address starts with {prefix}")
    if len(addresses) > 1:
        raise AmbiguousPrefixError(prefix, list(addresses))
    return snapshot.uow.nodes.get_many(addresses)[Address(addresses[0])]


def _encode_cursor(epoch: int, sort: NodeSort, key: SortKey) -> str:
    cursor_json = json.dumps([epoch, sort, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(cursor_json.encode()).decode().rstrip("=")


def _decode_cursor(query: NodeListQuery) -> tuple[int, SortKey]:
    """Decode a cursor; raise RequestError if it is malformed or belongs to another sort order."""
    text = query.cursor or ""
    try:
        fields = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        epoch, sort, group, value, address = fields
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise RequestError(
            "cursor: not issued by this API; start again without a cursor"
        ) from None
    has_valid_numbers = all(type(number) is int for number in (epoch, group, value))
    if not has_valid_numbers or sort not in get_args(NodeSort) or not isinstance(address, str):
        raise RequestError("cursor: not issued by this API; start again without a cursor")
    if sort != query.sort:
        raise RequestError("cursor: issued for another sort order; start again without a cursor")
    return epoch, SortKey(group, value, address)
