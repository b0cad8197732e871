"""The target words of a report: lanes of all members, within the share that one round may change.

They follow from the folded state and from the contract's limits for one round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.registrations import NO_REGISTRATIONS, Registrations
from oracle.domain.reports.contract_state import RoundLimits
from oracle.domain.reports.lanes import (
    LANES_PER_WORD,
    LOWEST_SCORE,
    lane_of,
    lanes_of,
    with_lane,
    word_of,
)
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.legacy_factors import PopulationMaxima, peers_at
from oracle.domain.scoring.node_scores import is_excluded, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node


class FallCause(IntEnum):
    """The reason why a lane falls; lower values come first."""

    KICKOUT_DUE = 0
    EXCLUDED = 1
    NO_MEMBER = 2
    PAUSED = 3
    OTHER = 4


def fall_cause_of(node: Node | None, time: int, rules: Rules) -> FallCause:
    """Return why the lane of a node falls, if it does; None: a node that was never mentioned."""
    if node is None or node.membership is not Membership.MEMBER:
        return FallCause.NO_MEMBER
    if is_kickout_due(node, rules, time):
        return FallCause.KICKOUT_DUE
    if is_excluded(node, time, rules):
        return FallCause.EXCLUDED
    return FallCause.PAUSED if node.paused else FallCause.OTHER


class SpreadWords(NamedTuple):
    """The words that one round may carry; `deferred_falls` counts the falls left for later rounds.

    The contract refuses a round in which too many lanes fall, and every reporter defers the same
    falls (docs/reference/report-format.md#share-cap).
    """

    words: dict[int, int]
    waiting: int


def count_open_lanes(words: Mapping[int, int]) -> int:
    """Count the lanes that may be selected."""
    return sum(lane >= LOWEST_SCORE for word in words.values() for lane in lanes_of(word))


def falling_lanes(
    on_chain: Mapping[int, int], wanted: Mapping[int, int], limits: RoundLimits
) -> Iterator[tuple[int, int]]:
    """Yield the index of each lane that would fall, ascending, with its current lane."""
    for number in sorted(wanted):
        before, after = on_chain.get(number, 0), wanted[number]
        if before == after:
            continue
        pairs = zip(lanes_of(before), lanes_of(after), strict=True)
        for place, (old, new) in enumerate(pairs):
            if limits.is_fall(old, new):
                yield number * LANES_PER_WORD + place, old


def limit_falls(
    on_chain: Mapping[int, int],
    wanted: Mapping[int, int],
    limits: RoundLimits,
    causes: Callable[[list[int]], Mapping[int, FallCause]],
) -> SpreadWords:
    """Keep the first falls by cause and index; the other lanes are left unchanged.

    Args:
        on_chain: word number to word, as stored in the contract.
        target_words: the same, as computed by the fold.
        limits: the contract's limits.
        get_causes: returns why these indexes fall; called only if too many do.
    """
    falling = dict(falling_lanes(on_chain, wanted, limits))
    most = limits.max_falls(count_open_lanes(on_chain))
    words = dict(wanted)
    if len(falling) <= most:
        return SpreadWords(words, 0)
    why = causes(list(falling))
    ranked = sorted(falling, key=lambda index: (why[index], index))
    for index in ranked[most:]:
        number = index // LANES_PER_WORD
        words[number] = with_lane(words[number], index, falling[index])
    return SpreadWords(words, len(ranked) - most)


@dataclass(frozen=True, slots=True)
class WantedWords:
    """Target words by word number, and the registrations of the report.

    `new_node_words`: the words with the lanes of new nodes, which are always sent;
    `deferred_falls`: lanes that would fall and are left for later rounds.
    """

    words: Mapping[int, int]
    registrations: Registrations = NO_REGISTRATIONS
    of_fresh: frozenset[int] = frozenset()
    falls_waiting: int = 0


# Returns the existing nodes of these addresses.
NodesNamed = Callable[[Sequence[Address]], Mapping[Address, Node]]


@dataclass(frozen=True, slots=True)
class ScoredAt:
    """The inputs of scoring at the as-of block's `time`; legacy rules need their `peers` there."""

    rules: Rules
    time: int
    named: NodesNamed
    peers: PopulationMaxima | None = None

    def lane(self, node: Node | None) -> int:
        """Return the lane of a node that has an index."""
        return lane_of(node, self.time, self.rules, self.peers)


def folded_words(
    rounds: Rounds, nodes: Mapping[Address, Node], scored_at: ScoredAt
) -> dict[int, int]:
    """Return every word with an assigned lane, computed from the folded state."""
    words: dict[int, int] = {}
    for entry in rounds.indexes.values():
        number, lane = word_of(entry.index), scored_at.lane(nodes.get(entry.node))
        words[number] = with_lane(words.get(number, 0), entry.index, lane)
    return words


def wanted_words(
    rounds: Rounds,
    folded: Mapping[int, int],
    registrations: Registrations,
    scored_at: ScoredAt,
) -> WantedWords:
    """Add the lanes of nodes that get an index, and defer falls beyond the allowed share.

    Args:
        rounds: the contract's state at the as-of block.
        folded_words: every word with an assigned lane, as computed by the fold.
        registrations: the nodes that the report registers.
        context: the inputs of scoring.
    """
    words = dict(folded)
    given = registrations.placed(rounds.index_by_node, rounds.node_count)
    fresh = scored_at.named(registrations.fresh)
    for index, node in given.items():
        number = word_of(index)
        words[number] = with_lane(words.get(number, 0), index, scored_at.lane(fresh.get(node)))
    on_chain = {number: word.value for number, word in rounds.words.items()}

    def causes(indexes: list[int]) -> dict[int, FallCause]:
        # Lanes of rounds before the first block read have no known holder.
        known = {index: rounds.indexes[index].node for index in indexes if index in rounds.indexes}
        nodes = scored_at.named(list(known.values()))
        return dict.fromkeys(indexes, FallCause.OTHER) | {
            index: fall_cause_of(nodes.get(node), scored_at.time, scored_at.rules)
            for index, node in known.items()
        }

    spread_words = limit_falls(on_chain, words, rounds.limits, causes)
    return WantedWords(
        words=spread_words.words,
        registrations=registrations,
        of_fresh=frozenset(word_of(index) for index in given),
        falls_waiting=spread_words.waiting,
    )


def scored_among(nodes: Mapping[Address, Node], time: int, rules: Rules) -> ScoredAt:
    """Return the scoring context of a complete set of nodes in memory."""

    def named(wanted: Sequence[Address]) -> Mapping[Address, Node]:
        return {node: nodes[node] for node in wanted if node in nodes}

    return ScoredAt(rules, time, named, peers_at(nodes.values(), time, rules))
