"""How many nodes may fall in one round: what is more waits for the next ones.

The contract refuses a round in which too many lanes fall; every reporter leaves the same ones
for later. See docs/reference/report-format.md#share-cap.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from oracle.domain.reports.lanes import LANES_PER_WORD, LOWEST_SCORE, lanes_of, with_lane
from oracle.domain.scoring.node_scores import is_excluded, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node

# A small network may always lose so many at once.
LEAST_FALLS = 4
_WHOLE_SHARE = 10_000


class FallCause(IntEnum):
    """Why a lane falls; the first ones do not wait for the others."""

    KICKOUT_DUE = 0
    EXCLUDED = 1
    NO_MEMBER = 2
    PAUSED = 3
    OTHER = 4


def fall_cause_of(node: Node | None, time: int, rules: Rules) -> FallCause:
    """Return why the lane of a node falls, if it does; None: a node that nobody mentioned."""
    if node is None or node.membership is not Membership.MEMBER:
        return FallCause.NO_MEMBER
    if is_kickout_due(node, rules, time):
        return FallCause.KICKOUT_DUE
    if is_excluded(node, time, rules):
        return FallCause.EXCLUDED
    return FallCause.PAUSED if node.paused else FallCause.OTHER


class FallCap(NamedTuple):
    """What the contract takes: `share` in 1/10,000 of the open lanes; `big_fall` in lane steps."""

    share: int
    big_fall: int

    def most(self, open_lanes: int) -> int:
        """Return how many lanes may fall where so many were open before."""
        return max(LEAST_FALLS, open_lanes * self.share // _WHOLE_SHARE)

    def is_fall(self, before: int, after: int) -> bool:
        """Tell whether a lane closes, or sinks by more than a big fall; a first lane does not."""
        is_closed = before >= LOWEST_SCORE > after
        return is_closed or after + self.big_fall < before


class SpreadWords(NamedTuple):
    """The words that a round may carry; `waiting`: falls that were left for later ones."""

    words: dict[int, int]
    waiting: int


def count_open_lanes(words: Mapping[int, int]) -> int:
    """Count the lanes that may be selected."""
    return sum(lane >= LOWEST_SCORE for word in words.values() for lane in lanes_of(word))


def falling_lanes(
    on_chain: Mapping[int, int], wanted: Mapping[int, int], cap: FallCap
) -> Iterator[tuple[int, int]]:
    """Yield the indexes whose lane would fall, ascending, each with the lane that it has."""
    for number in sorted(wanted):
        before, after = on_chain.get(number, 0), wanted[number]
        if before == after:
            continue
        pairs = zip(lanes_of(before), lanes_of(after), strict=True)
        for place, (old, new) in enumerate(pairs):
            if cap.is_fall(old, new):
                yield number * LANES_PER_WORD + place, old


def limit_falls(
    on_chain: Mapping[int, int],
    wanted: Mapping[int, int],
    cap: FallCap,
    causes: Callable[[list[int]], Mapping[int, FallCause]],
) -> SpreadWords:
    """Keep the first falls by cause and index; the lanes of the others stay as they are.

    Args:
        on_chain: word number to word, as the contract holds them.
        wanted: the same, as the fold would have them.
        cap: what the contract takes.
        causes: why these indexes fall; asked only where too many do.
    """
    falling = dict(falling_lanes(on_chain, wanted, cap))
    most = cap.most(count_open_lanes(on_chain))
    words = dict(wanted)
    if len(falling) <= most:
        return SpreadWords(words, 0)
    why = causes(list(falling))
    ranked = sorted(falling, key=lambda index: (why[index], index))
    for index in ranked[most:]:
        number = index // LANES_PER_WORD
        words[number] = with_lane(words[number], index, falling[index])
    return SpreadWords(words, len(ranked) - most)
