"""The order of nodes as of a block, kept in memory and updated by the nodes that changed.

SQL never sorts by QoS: reliability recovers without an event, so the order at a block is a
function of the block's time (docs/explanation/read-api.md#order).
"""

import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Literal, NamedTuple

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, Hash
from oracle.domain.scoring.legacy_factors import PopulationMaxima, incentive_shares, peers_at
from oracle.domain.scoring.node_figures import NodeState, state_at, state_by
from oracle.domain.scoring.node_scores import long_term, qos_at, reliability_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.queries.api.recent_courses import RecentCourses
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

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
        self.peers: PopulationMaxima | None = peers_at(nodes.values(), cursor.time, rules)
        self._orders: dict[NodeSort, list[SortKey]] = {}
        self._shares: Mapping[Address, int] | None = None
        self._lock = threading.Lock()
        # Nodes whose figures change without an event.
        self._healing: frozenset[Address] = frozenset()
        self.counts: Counter[NodeState] = Counter()
        if nodes:
            self._look_at(nodes.keys())

    def next(
        self, cursor: Cursor, nodes: Mapping[Address, Node], changed: Iterable[Address]
    ) -> "NodeRanking":
        """Return the ranking of a later block, in which only the `changed` nodes have changed.

        Nodes that neither changed nor recover keep their position, so that the cost of a block
        depends on its events only. All nodes are ranked again under rules whose scores depend on
        time or other nodes.
        """
        is_later = cursor.time >= self.cursor.time
        if self._rules.legacy is not None or self._rules.restarts or not is_later:
            return NodeRanking(cursor, nodes, self._rules)
        made = NodeRanking(cursor, {}, self._rules)
        made.nodes = nodes
        moved = self._healing.union(changed)
        before = [self.nodes[address] for address in moved if address in self.nodes]
        made.counts = self.counts - Counter(map(self.state_of, before))
        made._look_at(moved)
        with self._lock:
            order = self._orders.get("qos")
        if order is not None:
            gone, come = self._key_of("qos"), made._key_of("qos")
            now = (come(nodes[address]) for address in moved)
            made._orders["qos"] = _moved(order, sorted(map(gone, before)), sorted(now))
        return made

    def _look_at(self, moved: Iterable[Address]) -> None:
        """Count the states of these nodes, and record which of them recover."""
        time, rules = self.cursor.time, self._rules
        nodes = [self.nodes[address] for address in moved]
        scored = [(node, reliability_at(node, time, rules)) for node in nodes]
        self.counts.update(state_by(node, reliability, rules) for node, reliability in scored)
        self._healing = frozenset(
            node.address for node, reliability in scored if reliability < UNIT
        )

    def qos(self, node: Node) -> int | None:
        """Return the QoS of a node in units of 10^-18, or None if it is no member."""
        return qos_at(node, self.cursor.time, self._rules, self.peers)

    def state_of(self, node: Node) -> NodeState:
        """Return the state of a node at the block."""
        return state_at(node, self.cursor.time, self._rules)

    def ordered(self, sort: NodeSort) -> list[SortKey]:
        """Return the keys of all nodes, sorted."""
        with self._lock:
            known = self._orders.get(sort)
            if known is None:
                key = self._key_of(sort)
                known = self._orders[sort] = sorted(key(node) for node in self.nodes.values())
        return known

    def after(self, sort: NodeSort, key: SortKey | None) -> Iterator[Node]:
        """Yield the nodes behind a key; the node of the key itself may no longer exist."""
        order = self.ordered(sort)
        start = 0 if key is None else bisect_right(order, key)
        for index in range(start, len(order)):
            yield self.nodes[Address(order[index].address)]

    def key(self, sort: NodeSort, node: Node) -> SortKey:
        """Return the key of a node in a sort order."""
        return self._key_of(sort)(node)

    def place_of(self, address: Address) -> int | None:
        """Return the place of a member by QoS, from 1, or None if it is no member."""
        node = self.nodes.get(address)
        return None if node is None else self.place_by(address, self.qos(node))

    def place_by(self, address: Address, qos: int | None) -> int | None:
        """Return the place of a node with this QoS, from 1, or None if it has no QoS."""
        if qos is None:
            return None
        return bisect_left(self.ordered("qos"), SortKey(0, -qos, address)) + 1

    def incentive_shares(self) -> Mapping[Address, int]:
        """Return the incentive share of every node, computed once per block."""
        with self._lock:
            if self._shares is None:
                self._shares = incentive_shares(
                    self.nodes.values(), self.cursor.time, self._rules, self.peers
                )
            return self._shares

    @property
    def members(self) -> int:
        """Return the number of nodes that have a QoS."""
        return bisect_right(self.ordered("qos"), SortKey(0, UNIT, "g"))

    def _key_of(self, sort: NodeSort) -> Callable[[Node], SortKey]:
        name = sort.removeprefix("-")
        if name == "address":
            return lambda node: SortKey(0, 0, node.address)
        value, sign = self._values()[name], 1 if sort.startswith("-") else -1

        def key(node: Node) -> SortKey:
            found = value(node)
            return SortKey(int(found is None), sign * (found or 0), node.address)

        return key

    def _values(self) -> dict[str, Callable[[Node], int | None]]:
        rules, time = self._rules, self.cursor.time
        return {
            "qos": self.qos,
            "long_term": lambda node: long_term(node, rules, time),
            "reliability": lambda node: reliability_at(node, time, rules),
            "scored": lambda node: node.scored,
            "changed_at": lambda node: node.changed_at,
        }


def _moved(
    order: list[SortKey], gone: Sequence[SortKey], come: Sequence[SortKey]
) -> list[SortKey]:
    """Return a sorted list without the `removed` keys, which are in it, and with the `added` ones.

    The key sequences are sorted. Runs of the list between two keys are copied as slices.
    """
    made: list[SortKey] = []
    at = 0
    for key, is_gone in merge(
        ((key, True) for key in gone), ((key, False) for key in come), key=itemgetter(0)
    ):
        place = bisect_left(order, key, at)
        made += order[at:place]
        if not is_gone:
            made.append(key)
        at = place + is_gone
    made += order[at:]
    return made


class _Held(NamedTuple):
    number: int
    hash: Hash
    remakes: int


class NodeOrder:
    """Serves the ranking of the cursor's block to any thread; one thread at a time computes it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._ranking: NodeRanking | None = None
        self._courses = RecentCourses(rules)
        # Incremented when all nodes are read again, because older results belong to another fold.
        self._generation = 0

    def courses(self, uow: UnitOfWork, nodes: Sequence[Node]) -> dict[Address, tuple[int, ...]]:
        """Return the last few QoS values of nodes of the newest ranking, oldest first."""
        return self._courses.of(uow, nodes, self._generation)

    def at(self, uow: UnitOfWork, cursor: Cursor) -> NodeRanking:
        """Return the ranking as of the cursor of this snapshot."""
        with self._lock:
            if self._ranking is None or self._ranking.cursor.epoch != cursor.epoch:
                remakes = uow.bookmarks.remakes()
                self._ranking = self._read(uow, cursor, remakes)
                self._held = _Held(cursor.number, cursor.hash, remakes)
            return self._ranking

    def _read(self, uow: UnitOfWork, cursor: Cursor, remakes: int) -> NodeRanking:
        held, ranking = self._held, self._ranking
        if (
            held is None
            or ranking is None
            or not self._is_continuation(uow, held, cursor, remakes)
        ):
            self._generation += 1
            return NodeRanking(cursor, {one.address: one for one in uow.nodes.all()}, self._rules)
        changed = {node.address: node for node in uow.nodes.changed_since(held.number)}
        # The mapping is copied, because another thread may still read the old ranking.
        return ranking.next(cursor, {**ranking.nodes, **changed}, changed)

    @staticmethod
    def _is_continuation(uow: UnitOfWork, held: _Held, cursor: Cursor, remakes: int) -> bool:
        """Return whether the index only grew since `basis`: no rewind and no rebuild since."""
        if remakes != held.remakes or cursor.number < held.number:
            return False
        # Historical headers are not kept; a header that is kept must match.
        block = uow.blocks.at(held.number)
        return block is None or block.hash == held.hash
