"""Pages of nodes: sorted, filtered, cut by key, so that nothing is counted twice or left out."""

import base64
import binascii
import json
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from pydantic import Field

from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.domain.scoring.node_scores import (
    is_kickout_due,
    long_term,
    reliability_at,
    status_of,
)
from oracle.domain.state.node import Node
from oracle.queries.answers import AddressText, Answer, ApiModel, FractionText
from oracle.queries.api.node_order import NodeRanking, NodeSort, NodeState, SortKey
from oracle.queries.api.source import AmbiguousError, ApiSnapshot, NotKnownError, QuestionError

MOST_ROWS = 200
# Lanes count in steps of a ten thousandth.
_LANE_STEP = UNIT // 10_000
_SHOWN_OF_SEVERAL = 10
# A name of a card comes from whoever runs the node.
_LONGEST_NAME = 64


class NodeEntry(ApiModel):
    """One row of the list of nodes."""

    place: int | None = Field(description="By QoS, from 1; null: it has none.", examples=[12])
    node: AddressText
    label: str | None = Field(description="The operator's name of it; null: it has none.")
    state: NodeState
    status: str = Field(description="As the contract has it: available, busy, paused …")
    card: str | None = Field(description="What the node says of its GPU.", examples=["RTX 4090"])
    vram: int | None = Field(description="In GB.", examples=[24])
    qos: FractionText | None = Field(description="null: it is no member.")
    long_term: FractionText
    reliability: FractionText = Field(description="H at the block's time.")
    scores_in_pool: int = Field(examples=[33])
    scored_in_all: int = Field(examples=[412])
    kickout_due: bool
    on_chain: FractionText | None = Field(
        description="QoS in the oracle contract; null: never reported, or not selectable."
    )
    changed_at: int = Field(description="The block of the last change.")


class NodePage(Answer):
    """A page of nodes."""

    total: int = Field(description="Nodes of the network, filtered or not.")
    counts: dict[NodeState, int] = Field(description="Of them in each state.")
    nodes: list[NodeEntry]
    next: str | None = Field(description="`cursor` of the next page; null: this is the last one.")
    moved: bool = Field(
        description="The cursor was of an earlier block: places may have changed since."
    )


@dataclass(frozen=True, slots=True)
class NodeListQuery:
    """What a page is asked for.

    `of`: only these nodes, empty: all; `gpu`: only cards whose name has this in it, whatever the
    case.
    """

    sort: NodeSort = "qos"
    state: NodeState | None = None
    prefix: str | None = None
    gpu: str | None = None
    of: frozenset[str] = frozenset()
    cursor: str | None = None
    limit: int = 100

    def wants(self, ranking: NodeRanking, node: Node) -> bool:
        """Tell whether a node passes the filters."""
        if self.prefix is not None and not node.address.startswith(self.prefix):
            return False
        if self.of and node.address not in self.of:
            return False
        if self.gpu is not None and self.gpu.casefold() not in (node.gpu_name or "").casefold():
            return False
        return self.state is None or ranking.state_of(node) == self.state


def nodes(look: ApiSnapshot, asked: NodeListQuery) -> NodePage:
    """Return one page. Raises QuestionError: the cursor is none of ours."""
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
        nodes=entries(look, rows),
        next=None if last is None else _closed(look.cursor.epoch, asked.sort, last),
        moved=epoch is not None and epoch != look.cursor.epoch,
    )


def entries(look: ApiSnapshot, rows: list[Node]) -> list[NodeEntry]:
    """Return some nodes as rows, in the order given."""
    rules, time = look.source.archive.rules, look.cursor.time
    ranking, rounds = look.ranking(), look.uow.rounds.about([node.address for node in rows])
    return [
        NodeEntry(
            place=ranking.place_of(node.address),
            node=node.address,
            label=look.source.labels.get(node.address),
            state=ranking.state_of(node),
            status=status_of(node),
            card=None if node.gpu_name is None else harmless(node.gpu_name),
            vram=node.gpu_vram,
            qos=fraction_or_none(ranking.qos(node)),
            long_term=decimal_text(long_term(node, rules, time)),
            reliability=decimal_text(reliability_at(node, time, rules)),
            scores_in_pool=len(node.pool),
            scored_in_all=node.scored,
            kickout_due=is_kickout_due(node, rules, time),
            on_chain=fraction_of_lane(rounds.lane_of_node(node.address)),
            changed_at=node.changed_at,
        )
        for node in rows
    ]


def named(look: ApiSnapshot, prefix: str) -> Node:
    """Return the node that an address, or the beginning of one, stands for.

    Raises:
        NotKnownError: none begins so.
        AmbiguousError: several do.
    """
    found = look.uow.nodes.beginning(prefix[2:], _SHOWN_OF_SEVERAL)
    if not found:
        raise NotKnownError(f"no node of this network begins with {prefix}")
    if len(found) > 1:
        raise AmbiguousError(prefix, list(found))
    return look.uow.nodes.named(found)[Address(found[0])]


def fraction_or_none(value: int | None) -> str | None:
    """Write units of 10^-18, or nothing."""
    return None if value is None else decimal_text(value)


def fraction_of_lane(lane: int) -> str | None:
    """Return the QoS that a lane says; None: it says none."""
    return decimal_text((lane - LOWEST_SCORE) * _LANE_STEP) if lane >= LOWEST_SCORE else None


def harmless(name: str) -> str:
    """Return a text of strangers without what turns or hides text around it, and short."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)[:_LONGEST_NAME]


def _closed(epoch: int, sort: NodeSort, key: SortKey) -> str:
    written = json.dumps([epoch, sort, *key], separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def _opened(asked: NodeListQuery) -> tuple[int, SortKey]:
    """Read a cursor. Raises QuestionError: it is none of ours, or of another order."""
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
