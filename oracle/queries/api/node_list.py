"""Pages of nodes: sorted, filtered and cut by key, so that no node is repeated or left out."""

import base64
import binascii
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NodeState
from oracle.domain.state.node import Node
from oracle.queries.api.node_order import NodeRanking, NodeSort, SortKey
from oracle.queries.api.source import AmbiguousError, ApiSnapshot, NotKnownError, QuestionError
from oracle.queries.node_models import NodeEntry, NodePage
from oracle.queries.population import Population, node_entry, rests_on_feed

MOST_ROWS = 200
_SHOWN_OF_SEVERAL = 10


@dataclass(frozen=True, slots=True)
class NodeListQuery:
    """The sort order, filters and position of a page.

    `of`: only these nodes, or all if empty. `gpu`: only nodes whose card name contains this text,
    case-insensitively.
    """

    sort: NodeSort = "qos"
    state: NodeState | None = None
    prefix: str | None = None
    gpu: str | None = None
    of: frozenset[str] = frozenset()
    cursor: str | None = None
    limit: int = 100

    def wants(self, ranking: NodeRanking, node: Node) -> bool:
        """Return whether a node passes the filters."""
        if self.prefix is not None and not node.address.startswith(self.prefix):
            return False
        if self.of and node.address not in self.of:
            return False
        if self.gpu is not None and self.gpu.casefold() not in (node.gpu_name or "").casefold():
            return False
        return self.state is None or ranking.state_of(node) == self.state


def nodes(look: ApiSnapshot, asked: NodeListQuery) -> NodePage:
    """Return one page; raise QuestionError if this API did not issue the cursor."""
    ranking = look.ranking()
    epoch, start = (None, None) if asked.cursor is None else _opened(asked)
    wanted = (node for node in ranking.after(asked.sort, start) if asked.wants(ranking, node))
    found = list(islice(wanted, asked.limit + 1))
    rows = found[: asked.limit]
    last = ranking.key(asked.sort, rows[-1]) if len(found) > asked.limit else None
    return NodePage(
        as_of=look.as_of,
        total=len(ranking.nodes),
        counts=dict(ranking.counts),
        nodes=list(_entries(look, rows)),
        next=None if last is None else _closed(look.cursor.epoch, asked.sort, last),
        moved=epoch is not None and epoch != look.cursor.epoch,
    )


def population_at(look: ApiSnapshot, nodes: Collection[Node]) -> Population:
    """Return the data that the figures of some nodes depend on, as of the cursor."""
    ranking = look.ranking()
    return Population(
        time=look.cursor.time,
        rules=look.source.archive.rules,
        peers=ranking.peers,
        shares=ranking.incentive_shares(),
        rounds=look.uow.rounds.about([node.address for node in nodes]),
        rests_on_feed=rests_on_feed(look.uow),
        labels=look.source.labels,
    )


def _entries(look: ApiSnapshot, nodes: Sequence[Node]) -> Iterator[NodeEntry]:
    """Yield some nodes as rows, in the given order."""
    ranking, population = look.ranking(), population_at(look, nodes)
    for node in nodes:
        figures = population.figures(node)
        place = ranking.place_by(node.address, figures.qos)
        yield node_entry(node, figures, population, place)


def named(look: ApiSnapshot, prefix: str) -> Node:
    """Return the node with this address, or the only node whose address starts with `prefix`.

    Raises:
        NotKnownError: no address starts with `prefix`.
        AmbiguousError: several addresses start with it.
    """
    found = look.uow.nodes.beginning(prefix[2:], _SHOWN_OF_SEVERAL)
    if not found:
        raise NotKnownError(f"no node of this network begins with {prefix}")
    if len(found) > 1:
        raise AmbiguousError(prefix, list(found))
    return look.uow.nodes.named(found)[Address(found[0])]


def _closed(epoch: int, sort: NodeSort, key: SortKey) -> str:
    written = json.dumps([epoch, sort, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def _opened(asked: NodeListQuery) -> tuple[int, SortKey]:
    """Decode a cursor; raise QuestionError if it is malformed or belongs to another sort order."""
    text = asked.cursor or ""
    try:
        held = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        epoch, sort, group, value, address = held
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise QuestionError("cursor: is none that this API gave out") from None
    known = all(type(number) is int for number in (epoch, group, value))
    if not known or sort not in get_args(NodeSort) or not isinstance(address, str):
        raise QuestionError("cursor: is none that this API gave out")
    if sort != asked.sort:
        raise QuestionError("cursor: belongs to another sort")
    return epoch, SortKey(group, value, address)
