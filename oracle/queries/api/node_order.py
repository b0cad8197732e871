"""The order of nodes as of a block, kept in memory and updated for the nodes that changed.

SQL never sorts by QoS: reliability recovers without an event, so the order at a block is a
function of the block's time (docs/reference/read-api.md#order-of-nodes).
"""

import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Literal, NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import (
    PopulationMaxima,
    compute_incentive_shares,
    compute_population_maxima,
)
from oracle.domain.scoring.node_figures import NodeState, classify_state, compute_node_state
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.queries.api.draw_weights import DrawWeights, sum_draw_weights
from oracle.queries.api.history_points import TrendCache
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.systems.crynux.crynux_policy import Weighting

# A minus sorts ascending; nodes without QoS come last either way.
NodeSort = Literal[
    "qos", "-qos", "long_term", "-long_term", "reliability", "-reliability",
    "scored", "-scored", "changed_at", "-changed_at", "address",
]  # fmt: skip


class SortKey(NamedTuple):
    """The sort key of a node; unique, because it ends with the address."""

    group: int
    value: int
    address: str


class NodeRanking:
    """All nodes as of one block; each sort order is computed on first use."""

    def __init__(self, cursor: Cursor, nodes: Mapping[Address, Node], rules: Rules) -> None:
        self.cursor = cursor
        self.nodes = nodes
        self._rules = rules
        self.peers: PopulationMaxima | None = compute_population_maxima(
            nodes.values(), cursor.time, rules
        )
        self._orders: dict[NodeSort, list[SortKey]] = {}
        self._shares: Mapping[Address, int] | None = None
        self._draw_weights: DrawWeights | None = None
        self._lock = threading.Lock()
        # Nodes whose reliability changes without an event.
        self._recovering: frozenset[Address] = frozenset()
        self.counts: Counter[NodeState] = Counter()
        if nodes:
            self._count_states(nodes.keys())

    def with_changed_nodes(
        self, cursor: Cursor, nodes: Mapping[Address, Node], changed_addresses: Iterable[Address]
    ) -> "NodeRanking":
        """Return the ranking of a later block, in which only `changed_addresses` have changed.

        Only nodes that changed or are recovering get a new position, so the cost of a block
        depends mainly on its events. All nodes are ranked again under rules whose scores depend on
        time or other nodes.
        """
        is_later = cursor.time >= self.cursor.time
        if self._rules.legacy is not None or self._rules.restarts or not is_later:
            return NodeRanking(cursor, nodes, self._rules)
        successor = NodeRanking(cursor, {}, self._rules)
        successor.nodes = nodes
        moved_addresses = self._recovering.union(changed_addresses)
        old_nodes = [self.nodes[address] for address in moved_addresses if address in self.nodes]
        successor.counts = self.counts - Counter(map(self.compute_state, old_nodes))
        successor._count_states(moved_addresses)
        with self._lock:
            order = self._orders.get("qos")
        if order is not None:
            old_key, new_key = self._make_key_function("qos"), successor._make_key_function("qos")
            new_keys = (new_key(nodes[address]) for address in moved_addresses)
            successor._orders["qos"] = _merge_keys(
                order, sorted(map(old_key, old_nodes)), sorted(new_keys)
            )
        return successor

    def _count_states(self, addresses: Iterable[Address]) -> None:
        """Count the states of these nodes, and record those whose reliability is recovering."""
        time, rules = self.cursor.time, self._rules
        nodes = [self.nodes[address] for address in addresses]
        node_reliability = [(node, compute_reliability(node, time, rules)) for node in nodes]
        self.counts.update(
            classify_state(node, reliability, rules) for node, reliability in node_reliability
        )
        self._recovering = frozenset(
            node.address for node, reliability in node_reliability if reliability < UNIT
        )

    def compute_qos(self, node: Node) -> int | None:
        """Return the QoS of a node in units of 10^-18, or None if it is not a member."""
        return compute_node_qos(node, self.cursor.time, self._rules, self.peers)

    def compute_state(self, node: Node) -> NodeState:
        """Return the state of a node at the block."""
        return compute_node_state(node, self.cursor.time, self._rules)

    def get_sorted_keys(self, sort: NodeSort) -> list[SortKey]:
        """Return the keys of all nodes, sorted."""
        with self._lock:
            order = self._orders.get(sort)
            if order is None:
                key = self._make_key_function(sort)
                order = self._orders[sort] = sorted(key(node) for node in self.nodes.values())
        return order

    def iterate_after(self, sort: NodeSort, key: SortKey | None) -> Iterator[Node]:
        """Yield the nodes after a sort key (all nodes if None); the key's node need not exist."""
        order = self.get_sorted_keys(sort)
        start = 0 if key is None else bisect_right(order, key)
        for index in range(start, len(order)):
            yield self.nodes[Address(order[index].address)]

    def build_sort_key(self, sort: NodeSort, node: Node) -> SortKey:
        return self._make_key_function(sort)(node)

    def find_rank(self, address: Address) -> int | None:
        """Return the rank of a member by QoS, from 1, or None if the node is not a member."""
        node = self.nodes.get(address)
        return None if node is None else self.find_rank_by_qos(address, self.compute_qos(node))

    def find_rank_by_qos(self, address: Address, qos: int | None) -> int | None:
        """Return the rank of a node with this QoS, from 1, or None if `qos` is None."""
        if qos is None:
            return None
        return bisect_left(self.get_sorted_keys("qos"), SortKey(0, -qos, address)) + 1

    def get_incentive_shares(self) -> Mapping[Address, int]:
        """Return the incentive share of every node, computed once per block."""
        with self._lock:
            if self._shares is None:
                self._shares = compute_incentive_shares(
                    self.nodes.values(), self.cursor.time, self._rules, self.peers
                )
            return self._shares

    def get_draw_weights(self, weighting: Weighting) -> DrawWeights:
        """Return the weights of all available members, computed once per block."""
        with self._lock:
            weights = self._draw_weights
        if weights is None:
            weights = sum_draw_weights(
                ((self.nodes[Address(key.address)], -key.value) for key in self._list_members()),
                self.cursor.time,
                self._rules,
                weighting,
            )
            with self._lock:
                self._draw_weights = weights
        return weights

    def _list_members(self) -> list[SortKey]:
        return self.get_sorted_keys("qos")[: self.member_count]

    @property
    def member_count(self) -> int:
        """Return the number of nodes that have a QoS."""
        return bisect_right(self.get_sorted_keys("qos"), SortKey(0, UNIT, "g"))

    def _make_key_function(self, sort: NodeSort) -> Callable[[Node], SortKey]:
        name = sort.removeprefix("-")
        if name == "address":
            return lambda node: SortKey(0, 0, node.address)
        get_value, sign = self._build_value_functions()[name], 1 if sort.startswith("-") else -1

        def build_key(node: Node) -> SortKey:
            number = get_value(node)
            return SortKey(int(number is None), sign * (number or 0), node.address)

        return build_key

    def _build_value_functions(self) -> dict[str, Callable[[Node], int | None]]:
        rules, time = self._rules, self.cursor.time
        return {
            "qos": self.compute_qos,
            "long_term": lambda node: compute_long_term_score(node, rules, time),
            "reliability": lambda node: compute_reliability(node, time, rules),
            "scored": lambda node: node.scored,
            "changed_at": lambda node: node.changed_at,
        }


def _merge_keys(
    sorted_keys: list[SortKey], removed: Sequence[SortKey], added: Sequence[SortKey]
) -> list[SortKey]:
    """Return a copy of `sorted_keys` without the `removed` and with the `added` keys.

    Both key sequences are sorted, and every removed key is in the list. Runs of the list between
    two keys are copied as slices.
    """
    merged: list[SortKey] = []
    copied_until = 0
    for key, is_removed in merge(
        ((key, True) for key in removed), ((key, False) for key in added), key=itemgetter(0)
    ):
        index = bisect_left(sorted_keys, key, copied_until)
        merged += sorted_keys[copied_until:index]
        if not is_removed:
            merged.append(key)
        copied_until = index + is_removed
    merged += sorted_keys[copied_until:]
    return merged


class NodeRankingCache:
    """A thread-safe cache of the newest ranking, which is computed by one thread at a time."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._ranking: NodeRanking | None = None
        # How often the index had been rebuilt when the ranking was computed.
        self._rebuild_count = 0
        self._trends = TrendCache(rules)
        # Incremented when all nodes are read again, because older results belong to another fold.
        self._generation = 0

    def load_trends(
        self, uow: UnitOfWork, nodes: Sequence[Node]
    ) -> dict[Address, tuple[int, ...]]:
        """Return the last few QoS values of nodes in the newest ranking, oldest first."""
        return self._trends.load_trends(uow, nodes, self._generation)

    def get_ranking(self, uow: UnitOfWork, cursor: Cursor) -> NodeRanking:
        """Return the ranking as of the cursor of this snapshot."""
        with self._lock:
            if self._ranking is None or self._ranking.cursor.epoch != cursor.epoch:
                rebuild_count = uow.bookmarks.get_rebuild_count()
                self._ranking = self._compute_ranking(uow, cursor, rebuild_count)
                self._rebuild_count = rebuild_count
            return self._ranking

    def _compute_ranking(self, uow: UnitOfWork, cursor: Cursor, rebuild_count: int) -> NodeRanking:
        ranking = self._ranking
        if (
            ranking is None
            or rebuild_count != self._rebuild_count
            or not _is_continuation(uow, ranking.cursor, cursor)
        ):
            self._generation += 1
            return NodeRanking(
                cursor,
                {stored_node.address: stored_node for stored_node in uow.nodes.iterate_all()},
                self._rules,
            )
        changed = {
            node.address: node for node in uow.nodes.iterate_changed_since(ranking.cursor.number)
        }
        # The mapping is copied, because another thread may still read the old ranking.
        return ranking.with_changed_nodes(cursor, {**ranking.nodes, **changed}, changed)


def _is_continuation(uow: UnitOfWork, earlier: Cursor, cursor: Cursor) -> bool:
    """Return whether the index only grew since an earlier cursor, without a rewind."""
    if cursor.number < earlier.number:
        return False
    # Historical headers are not kept; a header that is kept must match.
    block = uow.blocks.get_canonical(earlier.number)
    return block is None or block.hash == earlier.hash
