"""The order of nodes as of a block, kept in memory and updated for the nodes that changed.

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
    Set as AbstractSet,
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
    compute_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.queries.api.card_table import Card, count_members_by_card
from oracle.queries.api.draw_weights import DrawWeights, DrawWeightTable
from oracle.queries.api.history_points import TrendCache
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.systems.crynux.crynux_policy import Weighting

# A minus means ascending order; nodes without a QoS come last in both orders.
NodeSort = Literal[
    "qos", "-qos", "long_term", "-long_term", "reliability", "-reliability",
    "scored", "-scored", "changed_at", "-changed_at", "address",
]  # fmt: skip


class SortKey(NamedTuple):
    """The sort key of a node; it is unique, because it ends with the address."""

    group: int
    value: int
    address: Address


class _Order(NamedTuple):
    """A sorted list of keys, and the same keys by address."""

    keys: list[SortKey]
    key_by_address: dict[Address, SortKey]


# An order is sorted from scratch if at least one in eight nodes, and at least a thousand, may have
# moved since it was last requested.
_MAX_STALE_SHARE, _MIN_STALE_NODES = 8, 1000


class NodeRanking:
    """All nodes as of one block; a sort order is updated when it is requested."""

    def __init__(self, cursor: Cursor, nodes: Mapping[Address, Node], rules: Rules) -> None:
        self.cursor = cursor
        self.nodes = nodes
        self._rules = rules
        self.peers: PopulationMaxima | None = compute_population_maxima(
            nodes.values(), cursor.time, rules
        )
        self._orders: dict[NodeSort, _Order] = {}
        # Orders as of an earlier block, and the nodes whose key may have changed since then.
        self._stale_orders: dict[NodeSort, tuple[_Order, AbstractSet[Address]]] = {}
        self._shares: Mapping[Address, int] | None = None
        self._draw_weights: DrawWeights | None = None
        self._weight_table: DrawWeightTable | None = None
        # Nodes whose row in `_weight_table` is older than this ranking.
        self._unweighted_addresses: Collection[Address] = ()
        self._lock = threading.Lock()
        # The reliability of each node that is recovering; that of every other node is 1.
        self._recovering: Mapping[Address, int] = {}
        self.counts: Counter[NodeState] = Counter()
        self.state_by_address: dict[Address, NodeState] = {}
        # The sets are shared with later rankings, so they are never changed in place.
        self._addresses_by_card: Mapping[str, frozenset[Address]] = {}
        self.members_by_card: Counter[Card] = count_members_by_card(nodes.values())
        if nodes:
            self._classify_nodes(nodes.keys())
            self._addresses_by_card = _update_addresses_by_card({}, {}, nodes, nodes)

    def with_changed_nodes(
        self, cursor: Cursor, nodes: Mapping[Address, Node], changed_addresses: Iterable[Address]
    ) -> "NodeRanking":
        """Return the ranking of a later block, in which only `changed_addresses` have changed.

        Only nodes that changed or are recovering get a new position, so the cost of a block
        depends mainly on the number of its events. All nodes are ranked again under rules whose
        scores depend on time or other nodes.
        """
        is_later = cursor.time >= self.cursor.time
        if self._rules.legacy is not None or self._rules.restarts or not is_later:
            return NodeRanking(cursor, nodes, self._rules)
        successor = NodeRanking(cursor, {}, self._rules)
        successor.nodes = nodes
        changed = set(changed_addresses)
        moved_addresses = changed.union(self._recovering)
        successor.state_by_address = self.state_by_address.copy()
        successor.counts = self.counts - Counter(
            self.state_by_address[address]
            for address in moved_addresses
            if address in self.state_by_address
        )
        successor._classify_nodes(moved_addresses)
        successor._addresses_by_card = _update_addresses_by_card(
            self._addresses_by_card, self.nodes, nodes, changed
        )
        successor.members_by_card = (
            self.members_by_card
            + count_members_by_card(nodes[address] for address in changed)
            - count_members_by_card(
                self.nodes[address] for address in changed if address in self.nodes
            )
        )
        with self._lock:
            # The table is handed over, because only one ranking may update it.
            successor._weight_table, self._weight_table = self._weight_table, None
        if successor._weight_table is not None:
            successor._unweighted_addresses = moved_addresses.union(self._unweighted_addresses)
        successor._stale_orders = dict(self._list_stale_orders(moved_addresses))
        return successor

    def _list_stale_orders(
        self, moved_addresses: AbstractSet[Address]
    ) -> Iterator[tuple[NodeSort, tuple[_Order, AbstractSet[Address]]]]:
        """Yield the orders for the next ranking, each with the nodes that may have moved."""
        nothing = frozenset[Address]()
        with self._lock:
            stale_orders = self._stale_orders | {
                sort: (order, nothing) for sort, order in self._orders.items()
            }
        max_stale = max(len(self.nodes) // _MAX_STALE_SHARE, _MIN_STALE_NODES)
        for sort, (order, earlier_moved) in stale_orders.items():
            moved = moved_addresses | earlier_moved if earlier_moved else moved_addresses
            if len(moved) <= max_stale:
                yield sort, (order, moved)

    def _classify_nodes(self, addresses: Iterable[Address]) -> None:
        """Count these nodes by state, and store the reliability of those that are recovering."""
        time, rules = self.cursor.time, self._rules
        recovering = {}
        for address in addresses:
            node = self.nodes[address]
            reliability = compute_reliability(node, time, rules)
            self.state_by_address[address] = state = classify_node_state(node, reliability, rules)
            self.counts[state] += 1
            if reliability < UNIT:
                recovering[address] = reliability
        self._recovering = recovering

    def compute_qos(self, node: Node) -> int | None:
        """Return the QoS of a node in units of 10^-18, or None if it is not a member."""
        return compute_node_qos(node, self.cursor.time, self._rules, self.peers)

    def _compute_ranked_qos(self, node: Node) -> int | None:
        """Return the QoS of a node of this ranking, from its stored reliability."""
        reliability = self._recovering.get(node.address, UNIT)
        return compute_qos_with_reliability(
            node, reliability, self.cursor.time, self._rules, self.peers
        )

    def get_sorted_keys(self, sort: NodeSort) -> list[SortKey]:
        """Return the keys of all nodes, sorted by `sort`."""
        with self._lock:
            order = self._orders.get(sort)
            if order is None:
                order = self._orders[sort] = self._sort_keys(sort)
        return order.keys

    def _sort_keys(self, sort: NodeSort) -> _Order:
        stale = self._stale_orders.pop(sort, None)
        if stale is None:
            keys = self._sort_addresses(sort, self.nodes)
            return _Order(keys, {key.address: key for key in keys})
        (old_sorted_keys, old_key_by_address), moved_addresses = stale
        build_key = self._build_key_function(sort)
        new_keys = {
            address: key
            for address in moved_addresses
            if (key := build_key(self.nodes[address])) != old_key_by_address.get(address)
        }
        old_keys = [
            old_key_by_address[address] for address in new_keys if address in old_key_by_address
        ]
        return _Order(
            _merge_sorted_keys(old_sorted_keys, sorted(old_keys), sorted(new_keys.values())),
            old_key_by_address | new_keys,
        )

    def iterate_sorted_keys(
        self, sort: NodeSort, key: SortKey | None, candidates: Collection[Address] | None
    ) -> Iterator[SortKey]:
        """Yield the sorted keys that follow `key`, or all keys if `key` is None.

        If `candidates` are given, only these nodes are sorted and yielded.
        """
        order = (
            self.get_sorted_keys(sort)
            if candidates is None
            else self._sort_addresses(sort, candidates)
        )
        return islice(order, 0 if key is None else bisect_right(order, key), None)

    def _sort_addresses(self, sort: NodeSort, addresses: Iterable[Address]) -> list[SortKey]:
        build_key = self._build_key_function(sort)
        return sorted(build_key(self.nodes[address]) for address in addresses)

    def list_by_prefix(self, prefix: str) -> list[Address]:
        """Return the addresses that begin with `prefix`."""
        order = self.get_sorted_keys("address")
        get_address = attrgetter("address")
        first = bisect_left(order, prefix, key=get_address)
        # "g" sorts after every hexadecimal digit.
        last = bisect_left(order, prefix + "g", first, key=get_address)
        return [key.address for key in order[first:last]]

    def find_nodes_by_card(self, text: str) -> frozenset[Address]:
        """Return the nodes whose GPU name contains this text, case-insensitively."""
        folded_text = text.casefold()
        matches = [
            addresses
            for name, addresses in self._addresses_by_card.items()
            if folded_text in name.casefold()
        ]
        return matches[0] if len(matches) == 1 else frozenset().union(*matches)

    def build_sort_key(self, sort: NodeSort, node: Node) -> SortKey:
        return self._build_key_function(sort)(node)

    def find_rank(self, address: Address) -> int | None:
        """Return a member's rank by QoS, counted from 1, or None if the node is no member."""
        node = self.nodes.get(address)
        return None if node is None else self.find_rank_by_qos(address, self.compute_qos(node))

    def find_rank_by_qos(self, address: Address, qos: int | None) -> int | None:
        """Return the rank of a node if it had this QoS, counted from 1, or None without a QoS."""
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
        """Return a member's stake, and its QoS if it is available; or None for a non-member."""
        node = self.nodes[address]
        qos = self._compute_ranked_qos(node)
        if qos is None:
            return None
        is_available = self.state_by_address[address] in {"selectable", "recovering"}
        return node.stake or 0, qos if is_available else None

    def list_member_keys(self) -> list[SortKey]:
        """Return the keys of the members, best QoS first; `value` is the negated QoS."""
        return self.get_sorted_keys("qos")[: self.member_count]

    @property
    def member_count(self) -> int:
        """The number of nodes that have a QoS."""
        return bisect_right(self.get_sorted_keys("qos"), SortKey(0, UNIT, Address("g")))

    def _build_key_function(self, sort: NodeSort) -> Callable[[Node], SortKey]:
        name = sort.removeprefix("-")
        if name == "address":
            return lambda node: SortKey(0, 0, node.address)
        get_value = self._build_value_functions()[name]
        sign = 1 if sort.startswith("-") else -1

        def build_key(node: Node) -> SortKey:
            number = get_value(node)
            return SortKey(int(number is None), sign * (number or 0), node.address)

        return build_key

    def _build_value_functions(self) -> dict[str, Callable[[Node], int | None]]:
        rules, time = self._rules, self.cursor.time
        return {
            "qos": self._compute_ranked_qos,
            "long_term": lambda node: compute_long_term_score(node, rules, time),
            "reliability": lambda node: self._recovering.get(node.address, UNIT),
            "scored": lambda node: node.scored,
            "changed_at": lambda node: node.changed_at,
        }


def _update_addresses_by_card(
    addresses_by_card: Mapping[str, frozenset[Address]],
    nodes_before: Mapping[Address, Node],
    nodes: Mapping[Address, Node],
    changed_addresses: Iterable[Address],
) -> Mapping[str, frozenset[Address]]:
    """Return the addresses by GPU name; an unknown GPU has an empty name."""
    removed = defaultdict[str, set[Address]](set)
    added = defaultdict[str, set[Address]](set)
    for address in changed_addresses:
        node_before = nodes_before.get(address)
        card = nodes[address].gpu_name or ""
        card_before = None if node_before is None else node_before.gpu_name or ""
        if card == card_before:
            continue
        added[card].add(address)
        if card_before is not None:
            removed[card_before].add(address)
    nothing = frozenset[Address]()
    changes = {
        card: addresses_by_card.get(card, nothing) - removed[card] | added[card]
        for card in removed.keys() | added.keys()
    }
    return {**addresses_by_card, **changes} if changes else addresses_by_card


def _merge_sorted_keys(
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
        # The number of rewrites of the index at the time when the ranking was computed.
        self._rewrite_count = 0
        self._trends = TrendCache(rules)
        # Incremented when all nodes are read again, because older trends belong to another fold.
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
        changed = {
            node.address: node for node in uow.nodes.iterate_changed_since(ranking.cursor.number)
        }
        # The mapping is copied, because another thread may still read the old ranking's mapping.
        return ranking.with_changed_nodes(cursor, {**ranking.nodes, **changed}, changed)


def _has_only_grown(uow: UnitOfWork, earlier: Cursor, cursor: Cursor) -> bool:
    """Return whether the index has only grown since an earlier cursor, without a rewind."""
    if cursor.number < earlier.number:
        return False
    # Headers of old blocks are deleted; if the header is still stored, its hash must match.
    block = uow.blocks.find_canonical(earlier.number)
    return block is None or block.hash == earlier.hash
