"""Shows which nodes rose, fell, left and joined over the network's newest rounds.

The points are read from the stored leaves of the rounds, so no round is folded again. Reading a
round takes 128 bytes of leaves for each node, and happens once for each root. A larger network has
fewer rounds in its timeline, so that a starting server reads at most `_MAX_LANES` lanes.
"""

import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from heapq import nlargest, nsmallest
from operator import and_, gt, mul, sub
from typing import Literal, NamedTuple

from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import HIGHEST_SCORE, LOWEST_SCORE
from oracle.domain.reports.report import Lanes
from oracle.indexer.round_leaves import LeafCache, load_round_lanes
from oracle.store.database import UnitOfWork

_MAX_ROUNDS, _MIN_ROUNDS, _MAX_LANES = 24, 2, 600_000
# The timeline shows this many of the best nodes of the last round, and of the nodes that moved
# most in each way.
_BEST_NODES, _MOVERS = 8, 3

Movement = Literal["rose", "fell", "left", "joined", "stayed"]


class NodeTrack(NamedTuple):
    """A node's lane, and its rank among the nodes with a score, in each round of a timeline.

    The rank is 0 in a round in which the node could not be selected.
    """

    node: Address
    movement: Movement
    lanes: tuple[int, ...]
    ranks: tuple[int, ...]


class NetworkTimeline(NamedTuple):
    """The newest rounds (oldest first), the number of nodes by movement, and some nodes' tracks.

    A movement compares the first round with the last one. The tracks are sorted as in the last
    round.
    """

    rounds: tuple[RoundAccepted, ...]
    counts: Counter[Movement]
    tracks: tuple[NodeTrack, ...]


class TimelineCache:
    """A thread-safe cache of the newest timeline, which is computed once for each new round."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._roots: list[Hash] = []
        self._timeline: NetworkTimeline | None = None
        # For each root of the timeline: the lane of each seat, and the number of better nodes for
        # each lane. They are kept here because the leaf cache holds fewer rounds, which the hot
        # set needs.
        self._lanes: dict[Hash, Lanes] = {}
        self._better: dict[Hash, Sequence[int]] = {}

    def load_timeline(self, uow: UnitOfWork, leaf_cache: LeafCache) -> NetworkTimeline | None:
        """Return the timeline of the newest rounds, or None if fewer than two have leaves."""
        accepted_rounds = uow.rounds.list_accepted(_MAX_ROUNDS)
        roots = [accepted.root for accepted in accepted_rounds]
        with self._lock:
            if roots != self._roots:
                self._timeline = self._build_timeline(uow, leaf_cache, accepted_rounds)
                self._roots = roots
            return self._timeline

    def _build_timeline(
        self, uow: UnitOfWork, leaf_cache: LeafCache, accepted_rounds: Sequence[RoundAccepted]
    ) -> NetworkTimeline | None:
        self._lanes = self._load_newest_lanes(uow, leaf_cache, accepted_rounds)
        lanes_by_round = list(self._lanes.values())
        if len(lanes_by_round) < _MIN_ROUNDS:
            return None
        rounds = tuple(accepted_rounds[-len(lanes_by_round) :])
        self._better = {
            accepted.root: self._better.get(accepted.root) or count_better_nodes(lanes)
            for accepted, lanes in zip(rounds, lanes_by_round, strict=True)
        }
        movements = RoundComparison(lanes_by_round[0], lanes_by_round[-1])
        seats = movements.select_shown_seats()
        node_by_seat = uow.nodes.get_address_by_seat(seats)
        tracks = []
        for seat in seats:
            if seat in node_by_seat:
                seat_lanes = tuple(_get_seat_lane(lanes, seat) for lanes in lanes_by_round)
                ranks = tuple(
                    better[lane] + 1 if lane >= LOWEST_SCORE else 0
                    for lane, better in zip(seat_lanes, self._better.values(), strict=True)
                )
                movement = classify_movement(seat_lanes[0], seat_lanes[-1])
                tracks.append(NodeTrack(node_by_seat[seat], movement, seat_lanes, ranks))
        return NetworkTimeline(
            rounds=rounds,
            counts=movements.counts,
            tracks=tuple(sorted(tracks, key=lambda track: (not track.ranks[-1], track.ranks[-1]))),
        )

    def _load_newest_lanes(
        self, uow: UnitOfWork, leaf_cache: LeafCache, accepted_rounds: Sequence[RoundAccepted]
    ) -> dict[Hash, Lanes]:
        """Return the lanes of up to `_MAX_LANES` newest rounds by root, oldest first."""
        newest_first: dict[Hash, Lanes] = {}
        for accepted in reversed(accepted_rounds):
            root = accepted.root
            lanes = self._lanes.get(root) or load_round_lanes(uow, leaf_cache, accepted)
            is_over = len(lanes) * (len(newest_first) + 1) > _MAX_LANES
            if not lanes or (is_over and len(newest_first) >= _MIN_ROUNDS):
                break
            newest_first[root] = lanes
        return dict(reversed(newest_first.items()))


class RoundComparison:
    """The change of every lane between two rounds, computed without a Python loop over the nodes.

    The computation takes about 50 ms of processor time for 100,000 nodes.
    """

    def __init__(self, first: Lanes, last: Lanes) -> None:
        """Compare two rounds; a node without a leaf in the first one counts as not selectable."""
        padded = array("H", first)
        padded.extend(array("H", bytes(2 * max(0, len(last) - len(first)))))
        self._last = last
        was_ranked = _build_ranked_flags(padded)
        is_ranked = _build_ranked_flags(last)
        # The change of each node's lane if the node is ranked in both rounds, else 0.
        self._changes = list(map(mul, map(sub, last, padded), map(and_, was_ranked, is_ranked)))
        self._left_from = array("H", map(mul, padded, map(gt, was_ranked, is_ranked)))
        counts: dict[Movement, int] = {
            "rose": sum(map((0).__lt__, self._changes)),
            "fell": sum(map((0).__gt__, self._changes)),
            "left": sum(map(gt, was_ranked, is_ranked)),
            "joined": sum(map(gt, is_ranked, was_ranked)),
        }
        self.counts = Counter(counts)

    def select_shown_seats(self) -> list[int]:
        """Return the best seats of the last round, and the seats that moved most each way."""
        seats = range(len(self._last))
        last = self._last
        changes = self._changes
        best = nlargest(_BEST_NODES, seats, key=last.__getitem__)
        risers = nlargest(_MOVERS, seats, key=changes.__getitem__)
        fallers = nsmallest(_MOVERS, seats, key=changes.__getitem__)
        leavers = nlargest(_MOVERS, seats, key=self._left_from.__getitem__)
        chosen = [seat for seat in best if last[seat] >= LOWEST_SCORE]
        chosen += [seat for seat in (*risers, *fallers) if changes[seat]]
        return list(dict.fromkeys([*chosen, *(seat for seat in leavers if self._left_from[seat])]))


def _build_ranked_flags(lanes: Lanes) -> bytes:
    """Return one byte for each seat, which is 1 if its lane encodes a QoS, else 0."""
    return bytes(map((LOWEST_SCORE - 1).__lt__, lanes))


def _get_seat_lane(lanes: Lanes, seat: int) -> int:
    return lanes[seat] if seat < len(lanes) else 0


def classify_movement(then: int, now: int) -> Movement:
    """Return how a node moved between its lane in the first round and its lane in the last."""
    if now < LOWEST_SCORE:
        return "left" if then >= LOWEST_SCORE else "stayed"
    if then < LOWEST_SCORE:
        return "joined"
    if now == then:
        return "stayed"
    return "rose" if now > then else "fell"


def count_better_nodes(lanes: Lanes) -> Sequence[int]:
    """Return, indexed by lane, the number of nodes that have a higher lane."""
    count_by_lane = Counter(lanes)
    better = 0
    counts = array("I", bytes(4 * (HIGHEST_SCORE + 1)))
    for lane in range(HIGHEST_SCORE, LOWEST_SCORE - 1, -1):
        counts[lane] = better
        better += count_by_lane[lane]
    return counts
