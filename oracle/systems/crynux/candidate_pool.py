"""Members indexed for selection: the same results as `CrynuxFollower`, much faster.

The cost of a selection grows with the members that fit the task, never with their history.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import long_term
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.candidate_columns import CandidateColumns, IndexedCandidate
from oracle.systems.crynux.crynux_policy import CrynuxFollower
from oracle.systems.crynux.requirements import Requirement, misfit_reason, requirement_of
from oracle.systems.crynux.selection_weight import Weighting, largest_stake, locality_boost
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import Drawn, draw_places


class CandidateList(NamedTuple):
    """Candidates ascending by address, for `draw_places`, which modifies the last two fields."""

    addresses: list[Address]
    weights: "list[int] | array[int]"
    offered: bytearray


class CandidateIndex:
    """Candidates in columns, ascending by address, with weights as of the last `update_weights`.

    Nodes that are busy, paused or excluded stay in the index with weight 0, so that most changes
    move nothing. Only the weight of a recovering node changes with time.
    """

    __slots__ = ("_addresses", "_columns")

    def __init__(
        self,
        rules: Rules,
        weighting: Weighting,
        candidates: Iterable[tuple[Address, IndexedCandidate]],
    ) -> None:
        ordered = sorted(candidates, key=lambda each: each[0])
        self._addresses = [address for address, _ in ordered]
        self._columns = CandidateColumns(rules, weighting, [row for _, row in ordered])

    def __len__(self) -> int:
        return len(self._addresses)

    def put(self, address: Address, candidate: IndexedCandidate) -> None:
        """Add a node, or replace its row."""
        place = bisect_left(self._addresses, address)
        if self._is_at(place, address):
            self._columns.put(place, candidate)
        else:
            self._addresses.insert(place, address)
            self._columns.insert(place, candidate)

    def drop(self, address: Address) -> None:
        """Remove a node, if it is in the index."""
        place = bisect_left(self._addresses, address)
        if self._is_at(place, address):
            del self._addresses[place]
            self._columns.remove(place)

    def settle(self, time: int, largest: int) -> None:
        """Update the weights to a block time, given the network's largest stake."""
        self._columns.settle(time, largest)

    def offer(self, taken: AbstractSet[Address]) -> CandidateList | None:
        """Return all candidates that are not reserved, or None if there is none."""
        offered = self._columns.offered.copy()
        places = [bisect_left(self._addresses, address) for address in taken]
        hidden = [
            place
            for place, address in zip(places, taken, strict=True)
            if self._is_at(place, address)
        ]
        for place in hidden:
            offered[place] = 0
        if 1 not in offered:
            return None
        weights = self._columns.weights[:]
        for place in hidden:
            weights[place] = 0
        return CandidateList(self._addresses, weights, offered)

    def _is_at(self, place: int, address: Address) -> bool:
        return place < len(self._addresses) and self._addresses[place] == address


# Limits of the cached views, the most recent ones, and of the nodes in all of them, 250 bytes
# each, so that invented requirements cannot fill the memory.
_VIEWS = 64
_PLACES = 1_000_000
# With more changes than this plus one in eight members, rebuilding a view is cheaper than updating
# it.
_FEW = 64
_ONE_IN = 8


@dataclass(slots=True)
class _View:
    """The members that fit a requirement, split by whether they have all counted models on disk."""

    counted: frozenset[str]
    near: CandidateIndex
    far: CandidateIndex
    # Nodes to check again.
    changed: set[Address]


class CandidatePool:
    """The members under one rule set and weighting, as copies; callers must pass on every change.

    Times are block times in seconds, and may go back (a rewind). Under legacy rules every score
    depends on all others, so nothing is cached and every selection evaluates every member.
    """

    __slots__ = ("_largest", "_members", "_views", "rules", "weighting")

    def __init__(self, rules: Rules, weighting: Weighting) -> None:
        self.rules = rules
        self.weighting = weighting
        self._members: dict[Address, Node] = {}
        self._views: dict[Requirement, _View] = {}
        # The largest stake of all members; None if it must be recomputed.
        self._largest: int | None = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Mapping[Address, Node]:
        """Return the members, each as of its last update."""
        return self._members

    def put(self, node: Node) -> None:
        """Apply a node's current row; a node that is no member is removed."""
        if node.membership is not Membership.MEMBER:
            self.drop(node.address)
            return
        self._restake(node.address, node.stake or 0)
        self._members[node.address] = replace(node)
        self._stir(node.address)

    def drop(self, address: Address) -> None:
        """Remove a node, if it is in the pool."""
        if address in self._members:
            self._restake(address, 0)
            del self._members[address]
            self._stir(address)

    def candidates(
        self, task: Task, time: int, taken: AbstractSet[Address] = frozenset()
    ) -> list[tuple[Address, int]]:
        """Return the candidates with their weights, ascending by address."""
        offer = self._offer(task, time, taken)
        if offer is None:
            return []
        found = zip(offer.addresses, offer.weights, offer.offered, strict=True)
        return [(address, weight) for address, weight, offered in found if offered]

    def has_candidate(
        self, task: Task, time: int, taken: AbstractSet[Address] = frozenset()
    ) -> bool:
        """Return whether a node can be given the task."""
        return self._offer(task, time, taken) is not None

    def draw(
        self,
        task: Task,
        time: int,
        seed: bytes,
        *,
        draws: int = 1,
        taken: AbstractSet[Address] = frozenset(),
    ) -> list[Drawn]:
        """Return `weighted_draw.draw_nodes` of the candidates, without building a list of them.

        Raises:
            ValueError: a seed that is not 32 bytes long.
        """
        offer = self._offer(task, time, taken)
        if offer is None:
            return []
        found = draw_places(offer.weights, offer.offered, seed, draws)
        return [pick.of(offer.addresses) for pick in found]

    def _offer(self, task: Task, time: int, taken: AbstractSet[Address]) -> CandidateList | None:
        """Return the nodes with all models or, if the policy falls back, all nodes that fit."""
        if self.rules.legacy is not None:
            return self._plainly(task, time, taken)
        if self._largest is None:
            self._largest = largest_stake(self._members.values())
        view = self._view(requirement_of(task), time)
        view.near.settle(time, self._largest)
        offer = view.near.offer(taken)
        if offer is None and self.weighting.fallback:
            view.far.settle(time, self._largest)
            offer = view.far.offer(taken)
        return offer

    def _plainly(self, task: Task, time: int, taken: AbstractSet[Address]) -> CandidateList | None:
        policy_input = PolicyInput(self._members, self.rules, time, taken)
        verdicts = CrynuxFollower(self.weighting).verdicts(task, policy_input)
        found = {each.node: each.weight for each in verdicts if each.weight is not None}
        return (
            CandidateList([*found], [*found.values()], bytearray(b"\1" * len(found)))
            if found
            else None
        )

    def _view(self, wanted: Requirement, time: int) -> _View:
        view = self._views.pop(wanted, None)
        if view is None or self._is_worn(view):
            view = self._new_view(wanted, time)
        for address in view.changed:
            self._look_again(address, wanted, view, time)
        view.changed.clear()
        # The most recent view is last.
        self._views[wanted] = view
        while len(self._views) > 1 and self._is_full():
            del self._views[next(iter(self._views))]
        return view

    def _is_full(self) -> bool:
        places = sum(len(view.near) + len(view.far) for view in self._views.values())
        return len(self._views) > _VIEWS or places > _PLACES

    def _is_worn(self, view: _View) -> bool:
        """Return whether rebuilding a view is cheaper than updating it."""
        return len(view.changed) > _FEW + len(self._members) // _ONE_IN

    def _new_view(self, wanted: Requirement, time: int) -> _View:
        counted = self.weighting.counted(wanted.models)
        near: list[tuple[Address, IndexedCandidate]] = []
        far: list[tuple[Address, IndexedCandidate]] = []
        for node in self._members.values():
            if misfit_reason(node, wanted) is None:
                side = near if counted.issubset(node.models) else far
                side.append((node.address, self._candidate(node, counted, time)))
        return _View(
            counted=counted,
            near=CandidateIndex(self.rules, self.weighting, near),
            far=CandidateIndex(self.rules, self.weighting, far),
            changed=set(),
        )

    def _look_again(self, address: Address, wanted: Requirement, view: _View, time: int) -> None:
        node = self._members.get(address)
        index = None
        if node is not None and misfit_reason(node, wanted) is None:
            index = view.near if view.counted.issubset(node.models) else view.far
            index.put(address, self._candidate(node, view.counted, time))
        for other in (view.near, view.far):
            if other is not index:
                other.drop(address)

    def _candidate(self, node: Node, counted: frozenset[str], time: int) -> IndexedCandidate:
        rules = self.rules
        if not rules.remembers_exclusion:
            barred_below = rules.exclude_enter
        else:
            barred_below = rules.exclude_exit if node.excluded else 0
        return IndexedCandidate(
            free=not node.paused and not node.running,
            stake=node.stake or 0,
            boost=locality_boost(node, counted, self.weighting),
            long_term=long_term(node, rules, time),
            base=node.base,
            since=node.since,
            barred_below=barred_below,
        )

    def _restake(self, address: Address, stake: int) -> None:
        """Update the largest stake, or clear it if its only holder may have lowered its stake."""
        before = self._members.get(address)
        if self._largest is None:
            return
        if stake >= self._largest:
            self._largest = stake
        elif before is not None and (before.stake or 0) == self._largest:
            self._largest = None

    def _stir(self, address: Address) -> None:
        for view in self._views.values():
            view.changed.add(address)
        for wanted in [wanted for wanted, view in self._views.items() if self._is_worn(view)]:
            del self._views[wanted]
