"""Builds the leaves of nodes, from folded nodes or from database rows.

Each report encodes the leaves of the nodes that changed since the last report, which may be
millions, so the native code encodes rows without an object for each node. See
docs/reference/report-format.md#roots.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.fixed_point import encode_decay_table
from oracle.domain.ids import Address
from oracle.domain.native import native
from oracle.domain.reports.kickout_review import KickoutReviewer
from oracle.domain.reports.lanes import compute_lane_with_reliability
from oracle.domain.roots.leaves import Keccak, LeafFlag, NodeLeaf
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_population_maxima
from oracle.domain.scoring.legacy_tally import compute_window_tally
from oracle.domain.scoring.node_scores import (
    compute_reliability,
    is_excluded_with_reliability,
    is_kickout_due,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node

# A function that returns the nodes that exist at these addresses.
NodeLoader = Callable[[Sequence[Address]], Mapping[Address, Node]]


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """The inputs of scoring as of a block.

    `time` is the time of the block. `review_kickout` reviews the kickout of a node whose kickout
    is due at that block. Legacy rules also need the population maxima at that time.
    """

    rules: Rules
    time: int
    load_nodes: NodeLoader
    review_kickout: KickoutReviewer
    population_maxima: PopulationMaxima | None = None


def build_scoring_context(
    nodes: Mapping[Address, Node], time: int, rules: Rules, review_kickout: KickoutReviewer
) -> ScoringContext:
    """Build a scoring context from all nodes, held in memory."""

    def load_nodes(addresses: Sequence[Address]) -> Mapping[Address, Node]:
        return {node: nodes[node] for node in addresses if node in nodes}

    population_maxima = compute_population_maxima(nodes.values(), time, rules)
    return ScoringContext(rules, time, load_nodes, review_kickout, population_maxima)


# A leaf has 16 bits for the number of scores; only a window of legacy rules can exceed that.
_MAX_SCORE_COUNT = 0xFFFF


# The values from which a node's leaf is computed, except under legacy rules: seat, address, next
# address, whether the node is a member, paused and excluded, base, since, pool, pool sum, prior,
# last_scored_at and kickout_due_time of `oracle.domain.state.Node`. Up to a million rows are
# encoded, so the values are kept as the database driver returns them: addresses have 20 bytes, and
# flags may be 0 and 1.
LeafRow = tuple[
    int, bytes, bytes, bool, bool, bool, int, int, bytes, int, int | None, int | None, int | None
]


def encode_leaves(rows: list[LeafRow], context: ScoringContext, keccak: Keccak) -> bytes:
    """Encode the leaves of nodes as of `context.time`.

    The nodes are those in `rows`, and the leaves are in any order. The native code does not encode
    nodes with an open kickout interval, or any node under legacy rules. These nodes are loaded and
    encoded by Python code.
    """
    leaves, other_rows = _encode_leaves_natively(rows, context)
    nodes = context.load_nodes([_format_address(row[1]) for row in other_rows])
    return leaves + b"".join(
        build_node_leaf(
            nodes[_format_address(row[1])], _format_address(row[2]), context, keccak
        ).encode()
        for row in other_rows
    )


def _encode_leaves_natively(
    rows: list[LeafRow], context: ScoringContext
) -> tuple[bytes, Sequence[LeafRow]]:
    rules = context.rules
    if native is None or rules.legacy is not None:
        return b"", rows
    return native.encode_leaves(
        rows,
        convert_rules_to_native(rules),
        context.time,
        encode_decay_table(rules.tau_seconds),
    )


def convert_rules_to_native(rules: Rules) -> tuple[int, bool, int, int, bool]:
    """Convert the rules to the form that `native.encode_leaves` expects."""
    has_hysteresis = rules.has_exclusion_hysteresis
    return (
        rules.exclude_exit if has_hysteresis else rules.exclude_enter,
        has_hysteresis,
        rules.q_max,
        rules.new_node_long_term,
        rules.zero_mean_is_new,
    )


def _format_address(address: bytes) -> Address:
    return Address("0x" + address.hex())


def iter_linked_leaves(
    nodes: Iterable[Node], context: ScoringContext, keccak: Keccak
) -> Iterator[NodeLeaf]:
    """Yield the leaves of nodes, which are sorted by address.

    The nodes are not kept in memory.
    """
    first_address: Address | None = None
    previous_node: Node | None = None
    for node in nodes:
        if previous_node is None:
            first_address = node.address
        else:
            yield build_node_leaf(previous_node, node.address, context, keccak)
        previous_node = node
    if previous_node is not None and first_address is not None:
        yield build_node_leaf(previous_node, first_address, context, keccak)


def build_node_leaf(
    node: Node, next_node: Address, context: ScoringContext, keccak: Keccak
) -> NodeLeaf:
    """Build the leaf of a node as of `context.time`.

    Under legacy rules, the leaf holds the number and the sum of the scores in the window. The leaf
    states no kickout while a log behind the kickout could not be decoded. A kickout that needs an
    operator's approval is marked as held.
    """
    rules, time = context.rules, context.time
    reliability = compute_reliability(node, time, rules)
    score_count = len(node.pool)
    score_sum = node.pool_sum
    if rules.legacy is not None:
        tally = compute_window_tally(node, time, rules.legacy)
        score_count = min(tally.tasks, _MAX_SCORE_COUNT)
        score_sum = tally.total
    due_since = node.kickout_due_time or 0
    flags = _build_flags(node, reliability, context)
    # A restart of pools or the end of a window may have emptied the low pool without an event, so
    # the kickout may no longer be due.
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


# Looking up flags by their bits is five times faster than combining LeafFlags.
_FLAGS = tuple(LeafFlag(bits) for bits in range(2 * LeafFlag.EXCLUDED))
_MEMBER_BIT, _PAUSED_BIT, _EXCLUDED_BIT = map(
    int, (LeafFlag.MEMBER, LeafFlag.PAUSED, LeafFlag.EXCLUDED)
)


def _build_flags(node: Node, reliability: int, context: ScoringContext) -> LeafFlag:
    flag_bits = 0
    if node.membership is Membership.MEMBER:
        flag_bits |= _MEMBER_BIT
    if node.paused:
        flag_bits |= _PAUSED_BIT
    if is_excluded_with_reliability(node, reliability, context.rules):
        flag_bits |= _EXCLUDED_BIT
    return _FLAGS[flag_bits]
