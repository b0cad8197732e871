"""The tree of a round, kept up to date with the folded nodes.

Each cut of a report updates the leaves of the nodes that changed, so that the root is known for
every report. See docs/reference/report-format.md#roots.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import compute_lane_with_reliability
from oracle.domain.roots.leaves import Keccak, LeafFlag, NodeLeaf
from oracle.domain.roots.pieces import PieceDigest, PieceEdit
from oracle.domain.roots.round_tree import RoundTree
from oracle.domain.roots.scoring_context import ScoringContext
from oracle.domain.scoring.legacy_tally import compute_tally
from oracle.domain.scoring.node_scores import (
    compute_reliability,
    is_excluded_with_reliability,
    is_kickout_due,
)
from oracle.domain.state import Membership, Node

# The leaf has 16 bits for the number of scores; only a window of legacy rules can exceed them.
_MAX_SCORE_COUNT = 0xFFFF


class NodeTree:
    """The tree of all nodes that events have named, as of the last update."""

    def __init__(self, keccak: Keccak) -> None:
        self._keccak = keccak
        self._tree = RoundTree((), keccak)
        # Addresses of all leaves in ascending order.
        self._addresses: list[Address] = []

    def rebuild(self, nodes: Iterable[Node], context: ScoringContext) -> None:
        """Build the tree of all nodes, sorted by address, as of `context.time`.

        Raises:
            ValueError: the seats of the nodes are not 0 to n - 1.
        """
        self._addresses = []
        leaves = iter_linked_leaves(nodes, context, self._keccak)
        self._tree = RoundTree(self._iter_recorded_leaves(leaves), self._keccak)

    def update(self, nodes: Iterable[Node], context: ScoringContext) -> None:
        """Renew the leaves of these nodes as of `context.time`, and add leaves for new nodes.

        A new node also changes the leaf of the next lower address, which names it.

        Raises:
            ValueError: new nodes are missing, so that their seats leave a gap.
        """
        node_by_address = {node.address: node for node in nodes}
        new_addresses = [
            node.address for node in node_by_address.values() if node.seat >= self._tree.node_count
        ]
        if new_addresses:
            self._addresses.extend(new_addresses)
            self._addresses.sort()
            predecessors = {
                self._addresses[self._find_index(address) - 1] for address in new_addresses
            }
            missing_addresses = sorted(predecessors - node_by_address.keys())
            node_by_address |= context.load_nodes(missing_addresses)
        self._tree.update(
            build_node_leaf(node, self._get_next_address(address), context, self._keccak)
            for address, node in node_by_address.items()
        )

    def _iter_recorded_leaves(self, leaves: Iterable[NodeLeaf]) -> Iterator[NodeLeaf]:
        for leaf in leaves:
            self._addresses.append(leaf.node)
            yield leaf

    def compute_root(self, chain_id: int, oracle: Address, round_number: int, as_of: int) -> Hash:
        """Return the root of the round with this number, which holds the current leaves."""
        summary = self._tree.summarize(chain_id, oracle, round_number, as_of)
        return Hash("0x" + self._tree.compute_root(summary).hex())

    @property
    def lanes(self) -> "array[int]":
        """The lanes of all nodes, by seat; the caller must not change them."""
        return self._tree.lanes

    def take_edits(self) -> dict[int, PieceEdit]:
        """Return the leaves that changed since the last call, by piece."""
        return self._tree.edits.take()

    def get_piece_digest(self, piece: int) -> PieceDigest:
        """Return the digest of a piece as of the last update."""
        return self._tree.get_piece_digest(piece)

    def _find_index(self, address: Address) -> int:
        return bisect_left(self._addresses, address)

    def _get_next_address(self, address: Address) -> Address:
        return self._addresses[(self._find_index(address) + 1) % len(self._addresses)]


def iter_linked_leaves(
    nodes: Iterable[Node], context: ScoringContext, keccak: Keccak
) -> Iterator[NodeLeaf]:
    """Yield the leaves of all nodes, which are sorted by address; keep no node."""
    first_address: Address | None = None
    previous: Node | None = None
    for node in nodes:
        if previous is None:
            first_address = node.address
        else:
            yield build_node_leaf(previous, node.address, context, keccak)
        previous = node
    if previous is not None and first_address is not None:
        yield build_node_leaf(previous, first_address, context, keccak)


def build_node_leaf(
    node: Node, next_node: Address, context: ScoringContext, keccak: Keccak
) -> NodeLeaf:
    """Return the leaf of a node as of `context.time`.

    Under legacy rules the leaf holds the number and the sum of the scores in the window. No
    kickout is due while a dead letter lies in its evidence. A kickout that only an operator may
    allow is marked as held.
    """
    rules, time = context.rules, context.time
    reliability = compute_reliability(node, time, rules)
    score_count, score_sum = len(node.pool), node.pool_sum
    if rules.legacy is not None:
        tally = compute_tally(node, time, rules.legacy)
        score_count, score_sum = min(tally.tasks, _MAX_SCORE_COUNT), tally.total
    due_since, flags = node.kickout_due_time or 0, _build_flags(node, reliability, context)
    # A restart may have lost the low pool, or its window may have ended, without an event.
    is_due = node.kickout_due_time is not None and is_kickout_due(node, rules, time)
    review = context.review_kickout(node) if is_due else None
    if review is None or review.has_dead_letter:
        due_since = 0
    elif review.hold_reason is not None:
        flags |= LeafFlag.HELD
    return NodeLeaf(
        node=node.address,
        next_node=next_node,
        lane=compute_lane_with_reliability(
            node, reliability, time, rules, context.population_maxima
        ),
        flags=flags,
        seat=node.seat,
        score_count=score_count,
        score_sum=score_sum,
        reliability=reliability,
        kickout_due_since=due_since,
        last_scored_at=node.last_scored_at or 0,
        pool_hash=keccak(node.pool),
    )


# By their bits: combining flags as integers is five times faster than as LeafFlag.
_FLAGS = tuple(LeafFlag(bits) for bits in range(2 * LeafFlag.EXCLUDED))
_MEMBER_BIT, _PAUSED_BIT, _EXCLUDED_BIT = map(
    int, (LeafFlag.MEMBER, LeafFlag.PAUSED, LeafFlag.EXCLUDED)
)


def _build_flags(node: Node, reliability: int, context: ScoringContext) -> LeafFlag:
    bits = 0
    if node.membership is Membership.MEMBER:
        bits |= _MEMBER_BIT
    if node.paused:
        bits |= _PAUSED_BIT
    if is_excluded_with_reliability(node, reliability, context.rules):
        bits |= _EXCLUDED_BIT
    return _FLAGS[bits]
