"""Computes the target words of a report: the lanes of all nodes, within the contract's limits.

The words depend on the folded state and on the contract's limits for one round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from oracle.domain.events.oracle_events import NO_REGISTRATIONS, Registrations
from oracle.domain.ids import Address
from oracle.domain.reports.contract_state import RoundLimits
from oracle.domain.reports.kickout_review import KickoutReviewer
from oracle.domain.reports.lanes import (
    LANES_PER_WORD,
    LOWEST_SCORE,
    compute_node_lane,
    get_word_index,
    replace_lane,
    unpack_lanes,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_population_maxima
from oracle.domain.scoring.node_scores import is_excluded, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node


class FallCause(IntEnum):
    """The reason why a lane falls; falls with a lower value are sent first."""

    KICKOUT_DUE = 0
    EXCLUDED = 1
    NO_MEMBER = 2
    PAUSED = 3
    OTHER = 4


def get_fall_cause(node: Node | None, time: int, rules: Rules) -> FallCause:
    """Return why the lane of a node falls; `node` is None if no event ever named the node."""
    if node is None or node.membership is not Membership.MEMBER:
        return FallCause.NO_MEMBER
    if is_kickout_due(node, rules, time):
        return FallCause.KICKOUT_DUE
    if is_excluded(node, time, rules):
        return FallCause.EXCLUDED
    return FallCause.PAUSED if node.paused else FallCause.OTHER


def count_open_lanes(words: Mapping[int, int]) -> int:
    """Count the lanes of nodes that may be selected."""
    return sum(lane >= LOWEST_SCORE for word in words.values() for lane in unpack_lanes(word))


def iter_falling_lanes(
    on_chain_words: Mapping[int, int], target_words: Mapping[int, int], limits: RoundLimits
) -> Iterator[tuple[int, int]]:
    """Yield the index and the current lane of each lane that would fall, by ascending index."""
    for number in sorted(target_words):
        old_word, new_word = on_chain_words.get(number, 0), target_words[number]
        if old_word == new_word:
            continue
        pairs = zip(unpack_lanes(old_word), unpack_lanes(new_word), strict=True)
        for lane_offset, (old_lane, new_lane) in enumerate(pairs):
            if limits.is_fall(old_lane, new_lane):
                yield number * LANES_PER_WORD + lane_offset, old_lane


def limit_falls(
    on_chain_words: Mapping[int, int],
    target_words: Mapping[int, int],
    limits: RoundLimits,
    get_causes: Callable[[list[int]], Mapping[int, FallCause]],
) -> tuple[dict[int, int], int]:
    """Return the words that one round may carry, and the number of falls left for later rounds.

    As many falls as allowed are kept, by cause and index, and the other lanes are left unchanged:
    the contract rejects a round in which too many lanes fall, and every reporter defers the same
    falls (docs/reference/report-format.md#share-cap).

    Args:
        on_chain_words: words by word number, as stored in the contract.
        target_words: words by word number, as computed by the fold.
        limits: the contract's limits.
        get_causes: returns why the lanes with these indexes fall; called only if too many fall.
    """
    lane_by_index = dict(iter_falling_lanes(on_chain_words, target_words, limits))
    max_falls = limits.compute_max_falls(count_open_lanes(on_chain_words))
    words = dict(target_words)
    if len(lane_by_index) <= max_falls:
        return words, 0
    cause_by_index = get_causes(list(lane_by_index))
    ranked_indexes = sorted(lane_by_index, key=lambda index: (cause_by_index[index], index))
    for index in ranked_indexes[max_falls:]:
        number = index // LANES_PER_WORD
        words[number] = replace_lane(words[number], index, lane_by_index[index])
    return words, len(ranked_indexes) - max_falls


@dataclass(frozen=True, slots=True)
class TargetWords:
    """Target words by word number, and the registrations of the report.

    `new_node_words` holds the numbers of the words with lanes of new nodes, which are always sent.
    `deferred_falls` counts the falls that are left for later rounds.
    """

    words: Mapping[int, int]
    registrations: Registrations = NO_REGISTRATIONS
    new_node_words: frozenset[int] = frozenset()
    deferred_falls: int = 0


# Returns the nodes that exist at these addresses.
NodeLoader = Callable[[Sequence[Address]], Mapping[Address, Node]]


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """The inputs of scoring at the as-of block, whose time is `time`.

    `review_kickout` reviews the kickout of a node whose kickout is due at that block. Legacy rules
    also need the population maxima at that time.
    """

    rules: Rules
    time: int
    load_nodes: NodeLoader
    review_kickout: KickoutReviewer
    population_maxima: PopulationMaxima | None = None

    def compute_lane(self, node: Node | None) -> int:
        """Return the lane of a node that has an index."""
        return compute_node_lane(node, self.time, self.rules, self.population_maxima)


def compute_folded_words(
    rounds: Rounds, nodes: Mapping[Address, Node], context: ScoringContext
) -> dict[int, int]:
    """Return every word with an assigned lane, computed from the folded state."""
    words: dict[int, int] = {}
    for entry in rounds.indexes.values():
        number, lane = get_word_index(entry.index), context.compute_lane(nodes.get(entry.node))
        words[number] = replace_lane(words.get(number, 0), entry.index, lane)
    return words


def build_target_words(
    rounds: Rounds,
    folded_words: Mapping[int, int],
    registrations: Registrations,
    context: ScoringContext,
) -> TargetWords:
    """Add the lanes of nodes that get an index, and defer falls beyond the contract's limit.

    Args:
        rounds: the contract's state at the as-of block.
        folded_words: every word with an assigned lane, as computed by the fold.
        registrations: the nodes that the report registers.
        context: the inputs of scoring.
    """
    words = dict(folded_words)
    node_by_index = registrations.compute_assigned_indexes(rounds.index_by_node, rounds.node_count)
    new_nodes = context.load_nodes(registrations.new_nodes)
    for index, node in node_by_index.items():
        number = get_word_index(index)
        words[number] = replace_lane(
            words.get(number, 0), index, context.compute_lane(new_nodes.get(node))
        )
    on_chain = {number: word.value for number, word in rounds.words.items()}

    def get_causes(indexes: list[int]) -> dict[int, FallCause]:
        # The holder of a lane is unknown if a round before the first block read assigned it.
        holder_by_index = {
            index: rounds.indexes[index].node for index in indexes if index in rounds.indexes
        }
        nodes = context.load_nodes(list(holder_by_index.values()))
        return dict.fromkeys(indexes, FallCause.OTHER) | {
            index: get_fall_cause(nodes.get(node), context.time, context.rules)
            for index, node in holder_by_index.items()
        }

    words, deferred_falls = limit_falls(on_chain, words, rounds.limits, get_causes)
    return TargetWords(
        words=words,
        registrations=registrations,
        new_node_words=frozenset(get_word_index(index) for index in node_by_index),
        deferred_falls=deferred_falls,
    )


def build_scoring_context(
    nodes: Mapping[Address, Node], time: int, rules: Rules, review_kickout: KickoutReviewer
) -> ScoringContext:
    """Return the scoring context for a complete set of nodes in memory."""

    def load_nodes(addresses: Sequence[Address]) -> Mapping[Address, Node]:
        return {node: nodes[node] for node in addresses if node in nodes}

    population_maxima = compute_population_maxima(nodes.values(), time, rules)
    return ScoringContext(rules, time, load_nodes, review_kickout, population_maxima)
