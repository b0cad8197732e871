"""`nodes`: every node as a row, the best first, and as JSON. Asks the database alone."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import lane_of
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.legacy_factors import (
    Factors,
    PopulationMaxima,
    incentive_shares,
    peers_at,
)
from oracle.domain.scoring.node_scores import (
    factors_of,
    is_excluded,
    is_kickout_due,
    long_term,
    qos_at,
    reliability_at,
    status_of,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.queries.legacy_answers import factors_answer, share_answer, tally_answer
from oracle.store.database import Store
from oracle.store.state.rule_set_repository import RuleSet, named_by


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node at the cursor's time; fractions in units of 10^-18, `qos` None: no member.

    `lane` is what a report would say now, `lane_on_chain` what the contract holds; `index` None:
    the contract does not know the node. `is_of_feed`: it rests on a feed, and has no proof.
    """

    node: Node
    # Whose score this is.
    rules: RuleSet
    status: str
    long_term: int
    reliability: int
    qos: int | None
    is_excluded: bool
    is_kickout_due: bool
    # R, P, B and the window behind `qos`; None but for members under legacy rules.
    factors: Factors | None
    # What part of the window's incentive it would get; None where `factors` is.
    incentive_share: int | None
    lane: int
    lane_on_chain: int
    index: int | None
    is_of_feed: bool = False


def node_rows(store: Store, rules: Rules) -> list[NodeRow]:
    """Return every node, the best first, those out of the network last."""
    with store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return []
        rounds, has_feed = uow.rounds.load(), uow.feed.cursor() is not None
        nodes = list(uow.nodes.all())
        peers = peers_at(nodes, cursor.time, rules)
        shares = incentive_shares(nodes, cursor.time, rules)
        seen = _RowContext(cursor.time, rules, named_by(rules), peers, shares, rounds, has_feed)
        rows = [_row(node, seen) for node in nodes]
    return sorted(rows, key=lambda row: (row.qos is None, -(row.qos or 0), row.node.address))


@dataclass(frozen=True, slots=True)
class _RowContext:
    """What a row is read by; `peers` under legacy rules alone."""

    time: int
    rules: Rules
    named: RuleSet
    peers: PopulationMaxima | None
    shares: Mapping[Address, int]
    rounds: Rounds
    is_of_feed: bool


def _row(node: Node, seen: _RowContext) -> NodeRow:
    time, rules, rounds = seen.time, seen.rules, seen.rounds
    qos = qos_at(node, time, rules, seen.peers)
    return NodeRow(
        node=node,
        rules=seen.named,
        status=status_of(node),
        long_term=long_term(node, rules, time),
        reliability=reliability_at(node, time, rules),
        qos=qos,
        is_excluded=is_excluded(node, time, rules),
        is_kickout_due=is_kickout_due(node, rules, time),
        factors=None if qos is None else factors_of(node, time, rules, seen.peers),
        incentive_share=seen.shares.get(node.address),
        lane=lane_of(node, time, rules, seen.peers),
        lane_on_chain=rounds.lane_of_node(node.address),
        index=rounds.index_by_node.get(node.address),
        is_of_feed=seen.is_of_feed,
    )


def node_answer(row: NodeRow) -> dict[str, Any]:
    """Return one node as `nodes --json` says it; fractions as decimal text.

    `legacy` is there under legacy rules alone.
    """
    found = row.factors
    said = (
        {}
        if found is None
        else {
            **tally_answer(found.tally),
            **factors_answer(found),
            "incentive_share": share_answer(row.incentive_share),
        }
    )
    return {
        "node": row.node.address,
        "rules": asdict(row.rules),
        "status": row.status,
        "proof": "none" if row.is_of_feed else "chain",
        "excluded": row.is_excluded,
        "kickout_due": row.is_kickout_due,
        "task_scores": len(row.node.pool),
        "scored_in_all": row.node.scored,
        "long_term": decimal_text(row.long_term),
        "reliability": decimal_text(row.reliability),
        "qos": None if row.qos is None else decimal_text(row.qos),
        "lane": row.lane,
        "lane_on_chain": row.lane_on_chain,
        "index": row.index,
        **({"legacy": said} if said else {}),
    }
