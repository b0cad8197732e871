"""Sorted and filtered pages of nodes; each page starts after the last key of the page before."""

import base64
import binascii
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
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
    load_on_chain_scores,
    load_ranked_population,
)

MAX_ROWS = 200
_MAX_CANDIDATES = 10
# Number of nodes of the complete order that can be skipped at about the cost of sorting one
# candidate.
_MIN_NODES_PER_CANDIDATE = 16


@dataclass(frozen=True, slots=True)
class NodeListQuery:
    """The sort order, filters and position of a page.

    `of` has the addresses of the selected nodes; all nodes are selected if it is empty. `gpu`
    selects the nodes whose GPU name contains this text, case-insensitively.
    """

    sort: NodeSort = "qos"
    state: NodeState | None = None
    prefix: str | None = None
    gpu: str | None = None
    of: frozenset[str] = frozenset()
    cursor: str | None = None
    limit: int = 100

    def list_candidates(self, ranking: NodeRanking) -> Collection[Address] | None:
        """Return the nodes that may pass the filters, or None if there may be too many."""
        max_candidates = len(ranking.nodes) // _MIN_NODES_PER_CANDIDATE
        return next(
            (
                candidates
                for candidates in self._iterate_candidate_sets(ranking, max_candidates)
                if len(candidates) <= max_candidates
            ),
            None,
        )

    def _iterate_candidate_sets(
        self, ranking: NodeRanking, max_candidates: int
    ) -> Iterator[Collection[Address]]:
        """Yield the set of nodes that match each single filter, fastest filter first."""
        if self.of:
            yield [Address(text) for text in self.of if Address(text) in ranking.nodes]
        if self.gpu is not None:
            yield ranking.find_nodes_by_gpu(self.gpu)
        if self.prefix is not None:
            yield ranking.list_by_prefix(self.prefix)
        if self.state is not None and ranking.counts[self.state] <= max_candidates:
            yield [
                address
                for address, state in ranking.state_by_address.items()
                if state == self.state
            ]

    def filter_sort_keys(self, ranking: NodeRanking, keys: Iterator[SortKey]) -> Iterator[SortKey]:
        """Yield the sort keys of the nodes that pass the filters."""
        prefix, state_by_address = self.prefix, ranking.state_by_address
        if prefix is not None:
            keys = (key for key in keys if key.address.startswith(prefix))
        if self.of:
            keys = (key for key in keys if key.address in self.of)
        if self.gpu is not None:
            matching_addresses = ranking.find_nodes_by_gpu(self.gpu)
            keys = (key for key in keys if key.address in matching_addresses)
        if self.state is not None:
            keys = (key for key in keys if state_by_address[key.address] == self.state)
        return keys


def list_nodes(snapshot: ApiSnapshot, query: NodeListQuery) -> NodePage:
    """Return one page of nodes.

    Raises:
        RequestError: the query's cursor was not issued by this API.
    """
    ranking = snapshot.get_ranking()
    epoch, start_key = (None, None) if query.cursor is None else _decode_cursor(query)
    candidates = query.list_candidates(ranking)
    keys = query.filter_sort_keys(
        ranking, ranking.iterate_sorted_keys(query.sort, start_key, candidates)
    )
    page_keys = list(islice(keys, query.limit + 1))
    listed_nodes = [ranking.nodes[key.address] for key in page_keys[: query.limit]]
    last_key = page_keys[query.limit - 1] if len(page_keys) > query.limit else None
    return NodePage(
        as_of=snapshot.as_of,
        total=len(ranking.nodes),
        counts=dict(ranking.counts),
        nodes=list(_build_node_entries(snapshot, listed_nodes)),
        next=None
        if last_key is None
        else _encode_cursor(snapshot.cursor.epoch, query.sort, last_key),
        moved=epoch is not None and epoch != snapshot.cursor.epoch,
    )


def load_current_population(snapshot: ApiSnapshot) -> Population:
    """Load the network-wide data that scores depend on, as of the cursor."""
    ranking = snapshot.get_ranking()
    on_chain = load_on_chain_scores(
        snapshot.uow, snapshot.uow.rounds.find_last_provable_round(), snapshot.source.leaves
    )
    population = load_ranked_population(
        snapshot.uow,
        ranking,
        snapshot.cursor.time,
        snapshot.source.archive.rules,
        on_chain,
    )
    return replace(population, labels=snapshot.source.labels)


def _build_node_entries(snapshot: ApiSnapshot, nodes: Sequence[Node]) -> Iterator[NodeEntry]:
    """Yield the list entry of each node, in the given order."""
    ranking = snapshot.get_ranking()
    population = load_current_population(snapshot)
    for node in nodes:
        node_scores = population.compute_node_scores(node)
        rank = ranking.find_rank_by_qos(node.address, node_scores.qos)
        yield build_node_entry(node, node_scores, population, rank)


def find_node_by_prefix(snapshot: ApiSnapshot, prefix: str) -> Node:
    """Return the node with this address, or the only node whose address starts with `prefix`.

    Raises:
        NotFoundError: no address starts with `prefix`.
        AmbiguousPrefixError: several addresses start with `prefix`.
    """
    addresses = snapshot.uow.nodes.list_addresses_by_prefix(prefix[2:], _MAX_CANDIDATES)
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
    cursor_text = query.cursor or ""
    try:
        cursor_fields = json.loads(
            base64.urlsafe_b64decode(cursor_text + "=" * (-len(cursor_text) % 4))
        )
        epoch, sort, group, value, address = cursor_fields
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise RequestError(
            "cursor: not issued by this API; start again without a cursor"
        ) from None
    has_valid_numbers = all(type(number) is int for number in (epoch, group, value))
    if not has_valid_numbers or sort not in get_args(NodeSort) or not isinstance(address, str):
        raise RequestError("cursor: not issued by this API; start again without a cursor")
    if sort != query.sort:
        raise RequestError("cursor: issued for another sort order; start again without a cursor")
    return epoch, SortKey(group, value, Address(address))
