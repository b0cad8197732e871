"""Computes the entries of a node list from the nodes and network-wide data."""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import (
    NEVER_REPORTED,
    compute_node_lane_from_scores,
    decode_qos,
)
from oracle.domain.reports.report import Lanes
from oracle.domain.scoring.legacy_factors import (
    PopulationMaxima,
    compute_incentive_shares,
    compute_population_maxima,
)
from oracle.domain.scoring.legacy_tally import compute_window_start
from oracle.domain.scoring.node_figures import NodeScores, compute_node_scores
from oracle.domain.scoring.node_scores import compute_node_qos
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.indexer.round_leaves import LeafCache, load_round_lanes
from oracle.queries.answers import build_as_of
from oracle.queries.node_models import LegacyScore, NodeEntry, NodePage
from oracle.store.database import Store, UnitOfWork

# Maximum length of a GPU name. Longer names are truncated, because a node's operator can
# choose any name.
_MAX_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class OnChainScores:
    """The nodes' lanes in an accepted round, in seat order; empty if no longer stored."""

    accepted: RoundAccepted | None
    lanes: Lanes

    def get_lane(self, node: Node) -> int:
        """Return a node's lane in the round, or NEVER_REPORTED if the node has none."""
        return self.lanes[node.seat] if node.seat < len(self.lanes) else NEVER_REPORTED


def load_on_chain_scores(
    uow: UnitOfWork, accepted_round: RoundAccepted | None, cache: LeafCache | None = None
) -> OnChainScores:
    """Return the lanes of an accepted round, which are empty if its leaves are not stored."""
    if accepted_round is None:
        return OnChainScores(None, array("H"))
    return OnChainScores(
        accepted_round, load_round_lanes(uow, cache or LeafCache(), accepted_round)
    )


@dataclass(frozen=True, slots=True)
class Population:
    """The network-wide data that scores depend on, at the block time `time` in seconds.

    `on_chain` are the scores in the last accepted round. `shares` has each member's share of the
    window's incentive. Except under legacy rules, `peers` is None and `shares` is empty. `labels`
    are the operator's names for addresses.
    """

    time: int
    rules: Rules
    peers: PopulationMaxima | None
    shares: Mapping[Address, int]
    on_chain: OnChainScores
    uses_feed: bool
    labels: Mapping[Address, str] = field(default_factory=dict)

    def compute_qos(self, node: Node) -> int | None:
        """Return the QoS of a node, or None if the node is not a member."""
        return compute_node_qos(node, self.time, self.rules, self.peers)

    def compute_node_scores(self, node: Node) -> NodeScores:
        """Return a node's score and the values derived from it."""
        return compute_node_scores(node, self.time, self.rules, self.peers)


class RankedNodes(Protocol):
    """All nodes as of one block, with values that are computed once for all of them."""

    @property
    def nodes(self) -> Mapping[Address, Node]: ...

    @property
    def peers(self) -> PopulationMaxima | None: ...

    def get_incentive_shares(self) -> Mapping[Address, int]: ...

    def find_rank_by_qos(self, address: Address, qos: int | None) -> int | None: ...


def load_ranked_population(
    uow: UnitOfWork, ranking: RankedNodes, time: int, rules: Rules, on_chain: OnChainScores
) -> Population:
    """Return the network-wide data at a block time, with precomputed values of a ranking."""
    shares = ranking.get_incentive_shares()
    return Population(time, rules, ranking.peers, shares, on_chain, _uses_feed(uow))


def load_population(
    uow: UnitOfWork, nodes: Collection[Node], time: int, rules: Rules, on_chain: OnChainScores
) -> Population:
    """Return the network-wide data at a block time, computed from all nodes."""
    population_maxima = compute_population_maxima(nodes, time, rules)
    shares = compute_incentive_shares(nodes, time, rules, population_maxima)
    return Population(time, rules, population_maxima, shares, on_chain, _uses_feed(uow))


def _uses_feed(uow: UnitOfWork) -> bool:
    """Return whether events come from a feed, so that they have no proofs."""
    return uow.feed.get_cursor() is not None


def compute_qos_rank(
    node: Node, qos: int | None, nodes: Iterable[Node], population: Population
) -> int | None:
    """Return a node's rank by QoS, counted from 1, or None if it has no QoS."""
    if qos is None:
        return None
    qos_by_address = (
        (population.compute_qos(candidate), candidate.address) for candidate in nodes
    )
    own_key = (-qos, node.address)
    return 1 + sum(
        score is not None and (-score, name) < own_key for score, name in qos_by_address
    )


def build_node_entry(
    node: Node, node_scores: NodeScores, population: Population, rank: int | None
) -> NodeEntry:
    """Build the entry of a node for a list of nodes."""
    address = node.address
    lane_on_chain = population.on_chain.get_lane(node)
    return NodeEntry(
        place=rank,
        node=address,
        label=population.labels.get(address),
        state=node_scores.state,
        status=node_scores.status,
        excluded=node_scores.is_excluded,
        back_at=node_scores.back_at,
        kickout_due=node_scores.is_kickout_due,
        proof="none" if population.uses_feed else "chain",
        gpu=None if node.gpu_name is None else sanitize_name(node.gpu_name),
        vram=node.gpu_vram,
        scores_in_pool=len(node.pool),
        scored_in_all=node.scored,
        long_term=node_scores.long_term,
        reliability=node_scores.reliability,
        qos=node_scores.qos,
        lane=compute_node_lane_from_scores(node_scores),
        seat=node.seat,
        lane_on_chain=lane_on_chain,
        on_chain=decode_qos(lane_on_chain),
        changed_at=node.changed_at,
        legacy=build_legacy_score(node, node_scores, population),
    )


def build_legacy_score(
    node: Node, node_scores: NodeScores, population: Population
) -> LegacyScore | None:
    """Return a node's score under legacy rules, or None under other rules."""
    legacy, factors = population.rules.legacy, node_scores.factors
    if legacy is None or factors is None:
        return None
    tally = factors.tally
    is_member = node.membership is Membership.MEMBER
    return LegacyScore(
        window=tally.window,
        window_began=compute_window_start(tally.window, legacy),
        tasks=tally.tasks,
        node_score=tally.node_score,
        online_seconds=tally.online_seconds,
        R=factors.size if is_member else None,
        P=factors.promptness if is_member else None,
        B=factors.speed if is_member else None,
        Q=factors.combined if is_member else None,
        incentive_share=population.shares.get(node.address),
    )


def load_all_nodes(
    store: Store, rules: Rules, labels: Mapping[Address, str], now: int
) -> NodePage | None:
    """Return all nodes on one page, best QoS first, or None if nothing is indexed.

    `now` is the unix time from which the age of the answer is computed.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            return None
        as_of = build_as_of(uow, cursor, rules, head=None, now=now)
        nodes = list(uow.nodes.iterate_all())
        on_chain = load_on_chain_scores(uow, uow.rounds.find_last_provable_round())
        population = load_population(uow, nodes, cursor.time, rules, on_chain)
    population = replace(population, labels=labels)
    ranked_nodes = [(node, population.compute_node_scores(node)) for node in nodes]
    ranked_nodes.sort(key=lambda pair: (pair[1].qos is None, -(pair[1].qos or 0), pair[0].address))
    return NodePage(
        as_of=as_of,
        total=len(nodes),
        counts=dict(Counter(node_scores.state for _, node_scores in ranked_nodes)),
        nodes=[
            build_node_entry(
                node, node_scores, population, None if node_scores.qos is None else place
            )
            for place, (node, node_scores) in enumerate(ranked_nodes, start=1)
        ],
        next=None,
        moved=False,
    )


def sanitize_name(name: str) -> str:
    """Shorten third-party text, and replace unprintable characters with `?`.

    Control and direction marks could otherwise reorder or hide the text around the name.
    """
    return "".join(char if char.isprintable() else "?" for char in name)[:_MAX_NAME_LENGTH]
