"""What a report would have the contract hold: the lanes of all who have an index, or get one.

It is the fold's view, held to what the contract takes in one round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.ids import Address
from oracle.domain.registrations import NO_REGISTRATIONS, Registrations
from oracle.domain.reports.lanes import lane_of, with_lane, word_of
from oracle.domain.reports.rounds import Rounds
from oracle.domain.reports.share_cap import FallCap, FallCause, fall_cause_of, limit_falls
from oracle.domain.scoring.legacy_factors import PopulationMaxima, peers_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node


@dataclass(frozen=True, slots=True)
class WantedWords:
    """Word number to word, and whom the report registers.

    `of_fresh`: the words with the lanes of those nodes, which are sent whatever waits for it;
    `falls_waiting`: lanes that would fall and are left for later rounds.
    """

    words: Mapping[int, int]
    registrations: Registrations = NO_REGISTRATIONS
    of_fresh: frozenset[int] = frozenset()
    falls_waiting: int = 0


# Returns the nodes of these addresses that are there.
NodesNamed = Callable[[Sequence[Address]], Mapping[Address, Node]]


@dataclass(frozen=True, slots=True)
class ScoredAt:
    """How nodes are scored at the as-of block's `time`; legacy rules need their `peers` there."""

    rules: Rules
    time: int
    named: NodesNamed
    peers: PopulationMaxima | None = None

    def lane(self, node: Node | None) -> int:
        """Return what a report says about a node that has an index."""
        return lane_of(node, self.time, self.rules, self.peers)


def folded_words(
    rounds: Rounds, nodes: Mapping[Address, Node], scored_at: ScoredAt
) -> dict[int, int]:
    """Return every word with an assigned lane as the fold has it, from nothing."""
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
    """Add the lanes of nodes that get an index, and leave falls beyond the share for later.

    Args:
        rounds: the contract's state at the as-of block.
        folded: every word with an assigned lane, as the fold has it there.
        registrations: whom the report registers.
        scored_at: what nodes are scored by.
    """
    words = dict(folded)
    given = registrations.placed(rounds.index_by_node, rounds.node_count)
    fresh = scored_at.named(registrations.fresh)
    for index, node in given.items():
        number = word_of(index)
        words[number] = with_lane(words.get(number, 0), index, scored_at.lane(fresh.get(node)))
    on_chain = {number: word.value for number, word in rounds.words.items()}
    limits = rounds.limits

    def causes(indexes: list[int]) -> dict[int, FallCause]:
        # Lanes of rounds before the first block that we read have no holder that we know of.
        known = {index: rounds.indexes[index].node for index in indexes if index in rounds.indexes}
        nodes = scored_at.named(list(known.values()))
        return dict.fromkeys(indexes, FallCause.OTHER) | {
            index: fall_cause_of(nodes.get(node), scored_at.time, scored_at.rules)
            for index, node in known.items()
        }

    spread_words = limit_falls(
        on_chain, words, FallCap(limits.fall_share, limits.big_fall), causes
    )
    return WantedWords(
        words=spread_words.words,
        registrations=registrations,
        of_fresh=frozenset(word_of(index) for index in given),
        falls_waiting=spread_words.waiting,
    )


def scored_among(nodes: Mapping[Address, Node], time: int, rules: Rules) -> ScoredAt:
    """Return how nodes are scored where all of them are at hand."""

    def named(wanted: Sequence[Address]) -> Mapping[Address, Node]:
        return {node: nodes[node] for node in wanted if node in nodes}

    return ScoredAt(rules, time, named, peers_at(nodes.values(), time, rules))
