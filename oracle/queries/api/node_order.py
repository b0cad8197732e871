"""The order of nodes as of a block, kept in memory and updated for changed nodes.

SQL never sorts by QoS, because reliability recovers without an event, so the order depends on the
block's time (docs/reference/read-api.md#order-of-nodes).
"""

import threading
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import (
    PopulationMaxima,
    compute_incentive_shares,
    compute_population_maxima,
)
from oracle.domain.scoring.node_figures import NodeState, classify_node_state
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_node_qos,
    compute_qos_with_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.queries.api.draw_weights import DrawWeights, DrawWeightTable
from oracle.queries.api.gpu_table import Gpu, count_members_by_gpu
from oracle.queries.api.history_points import TrendCache
from oracle.queries.api.recovering_nodes import RecoveringNodes
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.systems.crynux.crynux_policy import Weighting

# `-` means ascending. In both directions, nodes without a QoS come last.
NodeSort = Literal[
    "qos", "-qos", "long_term", "-long_term", "reliability", "-reliability",
    "scored", "-scored", "changed_at", "-changed_at", "address",
]  # fmt: skip


class SortKey(NamedTuple):
    """The sort key of a node; it is unique, because it ends with the address."""

    group: int
    value: int
    address: Address


# Orders in which recovering nodes move even without any event.
_TIMED_SORTS = frozenset[NodeSort]({"qos", "-qos", "reliability", "-reliability"})


class _Order(NamedTuple):
    """The sort keys of nodes that only events move, and of nodes that also move with time."""

    settled_keys: list[SortKey]
    recovering_keys: list[SortKey]

    def count_keys_below(self, key: SortKey) -> int:
        """Return how many keys are less than `key`."""
        return bisect_left(self.settled_keys, key) + bisect_left(self.recovering_keys, key)

    def get_key(self, index: int) -> SortKey:
        """Return the key at an index in the sorted list of all keys."""
        settled_keys, recovering_keys = self

        def get_index(recovering_index: int) -> int:
            key = recovering_keys[recovering_index]
            return recovering_index + bisect_left(settled_keys, key)

        # Number of recovering keys that come before the index.
        preceding_count = bisect_left(range(len(recovering_keys)), index, key=get_index)
        if preceding_count < len(recovering_keys) and get_index(preceding_count) == index:
            return recovering_keys[preceding_count]
        return settled_keys[index - preceding_count]

    def iterate_keys_after(self, key: SortKey | None) -> Iterator[SortKey]:
        """Return an iterator over the sorted keys after `key`, or over all keys for None."""
        if key is None:
            return merge(self.settled_keys, self.recovering_keys)
        return merge(*(islice(keys, bisect_right(keys, key), None) for keys in self if keys))


class _StaleOrder(NamedTuple):
    """The settled keys as of an earlier block, and the nodes that have changed since then.

    `earlier_nodes` has each of these nodes as of that block, or None if `settled_keys` does not
    include the node.
    """

    settled_keys: list[SortKey]
    earlier_nodes: Mapping[Address, Node | None]


# An order is rebuilt from scratch if many nodes may have moved since it was last requested. This
# is at least 1/8 of the nodes, and at least a thousand.
_MAX_STALE_SHARE, _MIN_STALE_NODES = 8, 1000


class NodeRanking:
    """A ranking of all nodes as of one block; each sort order is updated on request."""

    def __init__(self, cursor: Cursor, nodes: Mapping[Address, Node], rules: Rules) -> None:
        self.cursor = cursor
        self.nodes = nodes
        self._rules = rules
        self.peers: PopulationMaxima | None = compute_population_maxima(
            nodes.values(), cursor.time, rules
        )
        self._orders: dict[NodeSort, _Order] = {}
        self._stale_orders: dict[NodeSort, _StaleOrder] = {}
        self._shares: Mapping[Address, int] | None = None
        self._draw_weights: DrawWeights | None = None
        self._weight_table: DrawWeightTable | None = None
        # Addresses of the nodes whose row in `_weight_table` is outdated.
        self._unweighted_addresses: Collection[Address] = ()
        self._lock = threading.Lock()
        # Every other node has reliability 1.
        self._recovering = RecoveringNodes(rules, cursor.time)
        self._qos_of_recovering: Mapping[Address, int | None] | None = None
        self.counts: Counter[NodeState] = Counter()
        self.state_by_address: dict[Address, NodeState] = {}
        # These sets are never changed in place, because later rankings use them, too.
        self._addresses_by_gpu: Mapping[str, frozenset[Address]] = {}
        self.members_by_gpu: Counter[Gpu] = count_members_by_gpu(nodes.values())
        if nodes:
            self._classify_nodes(nodes.values())
            self._addresses_by_gpu = _update_addresses_by_gpu({}, {}, nodes, nodes)

    def with_changed_nodes(
        self, cursor: Cursor, nodes: Mapping[Address, Node], changed_addresses: Iterable[Address]
    ) -> "NodeRanking":
        """Return the ranking of a later block, given the nodes that have changed since.

        Only the nodes in `changed_addresses` have changed. The score of each recovering node is
        computed again, and only nodes that changed get a new position among the other nodes. All
        nodes are ranked again under rules whose scores depend on time or other nodes.
        """
        is_later = cursor.time >= self.cursor.time
        if self._rules.legacy is not None or self._rules.restarts or not is_later:
            return NodeRanking(cursor, nodes, self._rules)
        next_ranking = NodeRanking(cursor, {}, self._rules)
        next_ranking.nodes = nodes
        changed_address_set = set(changed_addresses)
        next_ranking._recovering, moved_nodes = self._recovering.advance(
            cursor.time, changed_address_set
        )
        reclassified_nodes = [*moved_nodes, *(nodes[address] for address in changed_address_set)]
        next_ranking.state_by_address = self.state_by_address.copy()
        next_ranking.counts = self.counts - Counter(
            self.state_by_address[node.address]
            for node in reclassified_nodes
            if node.address in self.state_by_address
        )
        next_ranking._classify_nodes(reclassified_nodes)
        next_ranking._addresses_by_gpu = _update_addresses_by_gpu(
            self._addresses_by_gpu, self.nodes, nodes, changed_address_set
        )
        next_ranking.members_by_gpu = (
            self.members_by_gpu
            + count_members_by_gpu(nodes[address] for address in changed_address_set)
            - count_members_by_gpu(
                self.nodes[address] for address in changed_address_set if address in self.nodes
            )
        )
        with self._lock:
            # Hand the table over, because only one ranking may update it.
            next_ranking._weight_table, self._weight_table = self._weight_table, None
        if next_ranking._weight_table is not None:
            next_ranking._unweighted_addresses = changed_address_set.union(
                self._recovering.reliability_by_address, self._unweighted_addresses
            )
        recovering_reliabilities = self._recovering.reliability_by_address
        earlier_nodes = {address: self.nodes.get(address) for address in changed_address_set}
        earlier_settled_nodes = {
            node.address: None
            if node.address in recovering_reliabilities
            else self.nodes.get(node.address)
            for node in reclassified_nodes
        }
        next_ranking._stale_orders = {
            sort: stale_order
            for sort, stale_order in self._iterate_stale_orders(
                earlier_nodes, earlier_settled_nodes
            )
            if len(stale_order.earlier_nodes)
            <= max(len(nodes) // _MAX_STALE_SHARE, _MIN_STALE_NODES)
        }
        return next_ranking

    def _iterate_stale_orders(
        self,
        earlier_nodes: Mapping[Address, Node | None],
        earlier_settled_nodes: Mapping[Address, Node | None],
    ) -> Iterator[tuple[NodeSort, _StaleOrder]]:
        """Yield each sort order for the next ranking, with the nodes that may have moved in it."""
        with self._lock:
            stale_orders = self._stale_orders | {
                sort: _StaleOrder(order.settled_keys, {}) for sort, order in self._orders.items()
            }
        for sort, stale_order in stale_orders.items():
            moved_nodes = earlier_settled_nodes if sort in _TIMED_SORTS else earlier_nodes
            yield (
                sort,
                stale_order._replace(earlier_nodes={**moved_nodes, **stale_order.earlier_nodes}),
            )

    def _classify_nodes(self, nodes: Iterable[Node]) -> None:
        """Count the nodes by state, and collect the nodes whose reliability is recovering."""
        rules = self._rules
        for node in nodes:
            reliability = self._recovering.add_node(node)
            state = classify_node_state(node, reliability, rules)
            self.state_by_address[node.address] = state
            self.counts[state] += 1

    def compute_qos(self, node: Node) -> int | None:
        """Return the QoS of a node in units of 10^-18, or None if it is not a member."""
        return compute_node_qos(node, self.cursor.time, self._rules, self.peers)

    def _get_ranked_qos(self, node: Node) -> int | None:
        """Return the QoS of a node in this ranking."""
        qos_by_address = self._get_qos_of_recovering_nodes()
        if node.address in qos_by_address:
            return qos_by_address[node.address]
        return self._compute_settled_qos(node)

    def _compute_settled_qos(self, node: Node) -> int | None:
        """Return the QoS of a node whose reliability is 1."""
        return compute_qos_with_reliability(node, UNIT, self.cursor.time, self._rules, self.peers)

    def _get_values_of_recovering_nodes(self, sort: NodeSort) -> Mapping[Address, int | None]:
        """Return the sort values of recovering nodes, which are sorted separately."""
        if sort not in _TIMED_SORTS:
            return {}
        if sort.removeprefix("-") == "qos":
            return self._get_qos_of_recovering_nodes()
        return self._recovering.reliability_by_address

    def _get_qos_of_recovering_nodes(self) -> Mapping[Address, int | None]:
        """Return the QoS of every recovering node, computed once per block."""
        if self._qos_of_recovering is None:
            self._qos_of_recovering = dict(self._recovering.iterate_qos(self.peers))
        return self._qos_of_recovering

    def _get_order(self, sort: NodeSort) -> _Order:
        with self._lock:
            sorted_order = self._orders.get(sort)
            if sorted_order is None:
                sorted_order = self._orders[sort] = self._sort_keys(sort)
            return sorted_order

    def _sort_keys(self, sort: NodeSort) -> _Order:
        stale_order = self._stale_orders.pop(sort, None)
        recovering_values = self._get_values_of_recovering_nodes(sort)
        build_key = _make_key_builder(sort)
        recovering_keys = sorted(
            build_key(number, address) for address, number in recovering_values.items()
        )
        build_settled_key = self._build_key_function(sort, are_settled=True)
        if stale_order is None:
            settled_keys = sorted(
                build_settled_key(node)
                for address, node in self.nodes.items()
                if address not in recovering_values
            )
            return _Order(settled_keys, recovering_keys)
        removed_keys, added_keys = [], []
        for address, earlier_node in stale_order.earlier_nodes.items():
            old_key = None if earlier_node is None else build_settled_key(earlier_node)
            new_key = (
                None if address in recovering_values else build_settled_key(self.nodes[address])
            )
            if new_key == old_key:
                continue
            if old_key is not None:
                removed_keys.append(old_key)
            if new_key is not None:
                added_keys.append(new_key)
        settled_keys = _merge_sorted_keys(
            stale_order.settled_keys, sorted(removed_keys), sorted(added_keys)
        )
        return _Order(settled_keys, recovering_keys)

    def iterate_sorted_keys(
        self, sort: NodeSort, key: SortKey | None, candidates: Collection[Address] | None
    ) -> Iterator[SortKey]:
        """Yield the sorted keys that follow `key`, or all keys if `key` is None.

        If `candidates` are given, only these nodes are sorted and yielded.
        """
        if candidates is None:
            return self._get_order(sort).iterate_keys_after(key)
        build_key = self._build_key_function(sort)
        keys = sorted(build_key(self.nodes[address]) for address in candidates)
        return _Order(keys, []).iterate_keys_after(key)

    def list_by_prefix(self, prefix: str) -> list[Address]:
        """Return the addresses that begin with `prefix`."""
        sorted_keys = self._get_order("address").settled_keys
        get_address = attrgetter("address")
        first_index = bisect_left(sorted_keys, prefix, key=get_address)
        # "g" sorts after every hex digit.
        end_index = bisect_left(sorted_keys, prefix + "g", first_index, key=get_address)
        return [key.address for key in sorted_keys[first_index:end_index]]

    def find_nodes_by_gpu(self, text: str) -> frozenset[Address]:
        """Return the nodes whose GPU name contains this text, case-insensitively."""
        folded_text = text.casefold()
        matching_address_sets = [
            addresses
            for name, addresses in self._addresses_by_gpu.items()
            if folded_text in name.casefold()
        ]
        return (
            matching_address_sets[0]
            if len(matching_address_sets) == 1
            else frozenset().union(*matching_address_sets)
        )

    def find_rank(self, address: Address) -> int | None:
        """Return a member's rank by QoS, counted from 1, or None if the node is not a member."""
        node = self.nodes.get(address)
        return None if node is None else self.find_rank_by_qos(address, self.compute_qos(node))

    def find_rank_by_qos(self, address: Address, qos: int | None) -> int | None:
        """Return the rank that a node would have with the given QoS.

        Ranks are counted from 1. The result is None if the QoS is None.
        """
        if qos is None:
            return None
        return self._get_order("qos").count_keys_below(SortKey(0, -qos, address)) + 1

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
            if self._draw_weights is None:
                addresses = self._unweighted_addresses
                if self._weight_table is None:
                    self._weight_table = DrawWeightTable(weighting)
                    addresses = self.nodes.keys()
                self._draw_weights = self._weight_table.update_members(
                    (address, self._build_weight_row(address)) for address in addresses
                )
                self._unweighted_addresses = ()
            return self._draw_weights

    def _build_weight_row(self, address: Address) -> tuple[int, int | None] | None:
        """Return a member's stake, and its QoS if the member is available.

        The result is None for a node that is not a member.
        """
        node = self.nodes[address]
        qos = self._get_ranked_qos(node)
        if qos is None:
            return None
        is_available = self.state_by_address[address] in {"selectable", "recovering"}
        return node.stake or 0, qos if is_available else None

    def get_ranked_key(self, rank: int) -> SortKey:
        """Return the sort key of the node with this rank by QoS.

        The `value` of the key is the negated QoS.
        """
        return self._get_order("qos").get_key(rank - 1)

    @property
    def member_count(self) -> int:
        """The number of nodes that have a QoS."""
        return self.count_members_with_qos(0)

    def count_members_with_qos(self, min_qos: int) -> int:
        """Return how many members have at least this QoS."""
        # "g" sorts after every address.
        return self._get_order("qos").count_keys_below(SortKey(0, -min_qos, Address("g")))

    def _build_key_function(
        self, sort: NodeSort, *, are_settled: bool = False
    ) -> Callable[[Node], SortKey]:
        """Return a function that builds the sort key of a node of this ranking.

        If the nodes are settled, they may also be nodes as of an earlier block.
        """
        sort_name = sort.removeprefix("-")
        if sort_name == "address":
            return lambda node: SortKey(0, 0, node.address)
        get_value = self._build_value_functions(are_settled=are_settled)[sort_name]
        build_key = _make_key_builder(sort)
        return lambda node: build_key(get_value(node), node.address)

    def _build_value_functions(
        self, *, are_settled: bool
    ) -> dict[str, Callable[[Node], int | None]]:
        rules, time = self._rules, self.cursor.time
        recovering = self._recovering.reliability_by_address
        return {
            "qos": self._compute_settled_qos if are_settled else self._get_ranked_qos,
            "long_term": lambda node: compute_long_term_score(node, rules, time),
            "reliability": lambda node: (
                UNIT if are_settled else recovering.get(node.address, UNIT)
            ),
            "scored": lambda node: node.scored,
            "changed_at": lambda node: node.changed_at,
        }


def _make_key_builder(sort: NodeSort) -> Callable[[int | None, Address], SortKey]:
    """Return a function that builds a sort key from a value and the node's address."""
    sort_sign = 1 if sort.startswith("-") else -1
    return lambda number, address: SortKey(int(number is None), sort_sign * (number or 0), address)


def _update_addresses_by_gpu(
    addresses_by_gpu: Mapping[str, frozenset[Address]],
    nodes_before: Mapping[Address, Node],
    nodes: Mapping[Address, Node],
    changed_addresses: Iterable[Address],
) -> Mapping[str, frozenset[Address]]:
    """Return the updated addresses by GPU name after some nodes changed.

    An unknown GPU has an empty name.
    """
    removed_by_gpu = defaultdict[str, set[Address]](set)
    added_by_gpu = defaultdict[str, set[Address]](set)
    for address in changed_addresses:
        node_before = nodes_before.get(address)
        gpu = nodes[address].gpu_name or ""
        gpu_before = None if node_before is None else node_before.gpu_name or ""
        if gpu == gpu_before:
            continue
        added_by_gpu[gpu].add(address)
        if gpu_before is not None:
            removed_by_gpu[gpu_before].add(address)
    no_addresses = frozenset[Address]()
    changed_by_gpu = {
        gpu: addresses_by_gpu.get(gpu, no_addresses) - removed_by_gpu[gpu] | added_by_gpu[gpu]
        for gpu in removed_by_gpu.keys() | added_by_gpu.keys()
    }
    return {**addresses_by_gpu, **changed_by_gpu} if changed_by_gpu else addresses_by_gpu


def _merge_sorted_keys(
    sorted_keys: list[SortKey], removed_keys: Sequence[SortKey], added_keys: Sequence[SortKey]
) -> list[SortKey]:
    """Add and remove keys in a sorted list of sort keys.

    `added_keys` are added, and `removed_keys` are removed.

    Both key sequences are sorted, and every removed key is in the list. Runs of the list between
    two keys are copied as slices.
    """
    merged_keys: list[SortKey] = []
    copied_count = 0
    for key, is_removed in merge(
        ((key, True) for key in removed_keys),
        ((key, False) for key in added_keys),
        key=itemgetter(0),
    ):
        index = bisect_left(sorted_keys, key, copied_count)
        merged_keys += sorted_keys[copied_count:index]
        if not is_removed:
            merged_keys.append(key)
        copied_count = index + is_removed
    merged_keys += sorted_keys[copied_count:]
    return merged_keys


class NodeRankingCache:
    """A thread-safe cache of the newest ranking, computed by one thread at a time."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._ranking: NodeRanking | None = None
        # Number of times that the index had been rewritten when the ranking was computed.
        self._rewrite_count = 0
        self._trends = TrendCache(rules)
        # The generation is incremented when all nodes are read again, because older trends belong
        # to another fold.
        self._generation = 0

    def load_trends(
        self, uow: UnitOfWork, nodes: Sequence[Node]
    ) -> dict[Address, tuple[int, ...]]:
        """Return the last few QoS values of each node in the newest ranking, oldest first."""
        return self._trends.load_trends(uow, nodes, self._generation)

    def get_ranking(self, uow: UnitOfWork, cursor: Cursor) -> NodeRanking:
        """Return the ranking as of the cursor of this snapshot."""
        with self._lock:
            if self._ranking is None or self._ranking.cursor.epoch != cursor.epoch:
                rewrite_count = uow.bookmarks.get_rewrite_count()
                self._ranking = self._compute_ranking(uow, cursor, rewrite_count)
                self._rewrite_count = rewrite_count
            return self._ranking

    def _compute_ranking(self, uow: UnitOfWork, cursor: Cursor, rewrite_count: int) -> NodeRanking:
        ranking = self._ranking
        if (
            ranking is None
            or rewrite_count != self._rewrite_count
            or not _has_only_grown(uow, ranking.cursor, cursor)
        ):
            self._generation += 1
            return NodeRanking(
                cursor,
                {stored_node.address: stored_node for stored_node in uow.nodes.iterate_all()},
                self._rules,
            )
        changed_nodes = {
            node.address: node for node in uow.nodes.iterate_changed_since(ranking.cursor.number)
        }
        # The mapping is copied, because another thread may still be reading that of the old
        # ranking.
        return ranking.with_changed_nodes(
            cursor, {**ranking.nodes, **changed_nodes}, changed_nodes
        )


def _has_only_grown(uow: UnitOfWork, earlier_cursor: Cursor, cursor: Cursor) -> bool:
    """Return whether the index has only grown since an earlier cursor, without a rewind."""
    if cursor.number < earlier_cursor.number:
        return False
    # Headers of old blocks are deleted. If this header is still stored, it must match.
    block = uow.blocks.find_canonical(earlier_cursor.number)
    return block is None or block.hash == earlier_cursor.hash
