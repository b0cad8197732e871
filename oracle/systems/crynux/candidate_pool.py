"""Indexes members for fast selection.

The results are the same as those of `evaluate_members`. The cost of a selection grows with the
number of members that fit the task, not with their history.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple

from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import compute_long_term_score
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, Task
from oracle.systems.crynux.candidate_columns import CandidateColumns, IndexedCandidate
from oracle.systems.crynux.crynux_policy import (
    Weighting,
    compute_locality_boost,
    compute_max_stake,
    evaluate_members,
)
from oracle.systems.crynux.requirements import Requirement, build_requirement, find_misfit_reason
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import NodeDraw, draw_indexes


class CandidateList(NamedTuple):
    """Candidates sorted by address.

    `draw_indexes` modifies the last two fields.
    """

    addresses: list[Address]
    weights: "list[int] | array[int]"
    offered: bytearray


class CandidateIndex:
    """Candidates in columns, sorted by address.

    Weights are as of the last `update_weights`. Nodes that are busy, paused or excluded stay in
    the index with weight 0, so that most changes insert or remove no row. Only the weight of a
    recovering node changes with time.
    """

    __slots__ = ("_addresses", "_columns")

    def __init__(
        self,
        rules: Rules,
        weighting: Weighting,
        candidates: Iterable[tuple[Address, IndexedCandidate]],
    ) -> None:
        sorted_candidates = sorted(candidates, key=lambda entry: entry[0])
        self._addresses = [address for address, _ in sorted_candidates]
        self._columns = CandidateColumns(rules, weighting, [row for _, row in sorted_candidates])

    def __len__(self) -> int:
        return len(self._addresses)

    def update_node(self, address: Address, candidate: IndexedCandidate) -> None:
        """Add a node or replace its row."""
        index = bisect_left(self._addresses, address)
        if self._is_address_at_index(index, address):
            self._columns.set_row(index, candidate)
        else:
            self._addresses.insert(index, address)
            self._columns.insert_row(index, candidate)

    def remove_node(self, address: Address) -> None:
        """Remove a node if the index contains it."""
        index = bisect_left(self._addresses, address)
        if self._is_address_at_index(index, address):
            del self._addresses[index]
            self._columns.remove_row(index)

    def update_weights(self, time: int, largest_stake: int) -> None:
        """Update the weights for a block time and for the largest stake in the network."""
        self._columns.update_weights(time, largest_stake)

    def list_available(self, reserved: AbstractSet[Address]) -> CandidateList | None:
        """Return the available candidates that are not reserved, or None if there are none."""
        offered_flags = self._columns.offered.copy()
        indexes = [bisect_left(self._addresses, address) for address in reserved]
        reserved_indexes = [
            index
            for index, address in zip(indexes, reserved, strict=True)
            if self._is_address_at_index(index, address)
        ]
        for index in reserved_indexes:
            offered_flags[index] = 0
        if 1 not in offered_flags:
            return None
        weights = self._columns.weights[:]
        for index in reserved_indexes:
            weights[index] = 0
        return CandidateList(self._addresses, weights, offered_flags)

    def _is_address_at_index(self, index: int, address: Address) -> bool:
        return index < len(self._addresses) and self._addresses[index] == address


# Maximum number of cached views, and of nodes in all of them (250 bytes each). Made-up
# requirements could otherwise exhaust the memory. The most recently used views are kept.
_MAX_VIEWS = 64
_MAX_INDEXED_NODES = 1_000_000
# A view is rebuilt if more members changed than this number plus an eighth of all members. In that
# case, rebuilding is cheaper than updating.
_MIN_STALE_CHANGES = 64
_STALE_DIVISOR = 8


@dataclass(slots=True)
class _RequirementView:
    """The members that fit a requirement, separated by whether they have all models.

    Only the models in `counted_models` matter.
    """

    counted_models: frozenset[str]
    with_models: CandidateIndex
    without_models: CandidateIndex
    # Nodes that changed since the view was last updated.
    changed_addresses: set[Address]


class CandidatePool:
    """All members as candidates under one rule set.

    The caller must pass every change of a node. Times are block times in seconds, and may go back
    in a rewind. Under legacy rules, every score depends on all other scores, so nothing is cached
    and every selection evaluates every member.
    """

    __slots__ = ("_max_stake", "_members", "_views", "rules", "weighting")

    def __init__(self, rules: Rules, weighting: Weighting) -> None:
        self.rules = rules
        self.weighting = weighting
        self._members: dict[Address, Node] = {}
        self._views: dict[Requirement, _RequirementView] = {}
        # Largest stake of any member, or None if it must be computed again.
        self._max_stake: int | None = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Mapping[Address, Node]:
        """All members, each as of its last update."""
        return self._members

    def update_node(self, node: Node) -> None:
        """Store the current row of a node.

        A node that is not a member is removed.
        """
        if node.membership is not Membership.MEMBER:
            self.remove_node(node.address)
            return
        self._update_max_stake(node.address, node.stake or 0)
        self._members[node.address] = replace(node)
        self._mark_node_changed(node.address)

    def remove_node(self, address: Address) -> None:
        """Remove a node if the pool contains it."""
        if address in self._members:
            self._update_max_stake(address, 0)
            del self._members[address]
            self._mark_node_changed(address)

    def list_candidates(
        self, task: Task, time: int, reserved: AbstractSet[Address] = frozenset()
    ) -> list[tuple[Address, int]]:
        """Return the candidates, sorted by address, with their weights."""
        available_candidates = self._list_available(task, time, reserved)
        if available_candidates is None:
            return []
        rows = zip(
            available_candidates.addresses,
            available_candidates.weights,
            available_candidates.offered,
            strict=True,
        )
        return [(address, weight) for address, weight, offered in rows if offered]

    def draw_nodes(
        self,
        task: Task,
        time: int,
        seed: bytes,
        *,
        count: int = 1,
        reserved: AbstractSet[Address] = frozenset(),
    ) -> list[NodeDraw]:
        """Draw the same nodes as `weighted_draw.draw_nodes`, but without listing candidates.

        Raises:
            ValueError: the seed is not 32 bytes long.
        """
        available_candidates = self._list_available(task, time, reserved)
        if available_candidates is None:
            return []
        index_draws = draw_indexes(
            available_candidates.weights, available_candidates.offered, seed, count
        )
        return [
            index_draw.to_node_draw(available_candidates.addresses) for index_draw in index_draws
        ]

    def _list_available(
        self, task: Task, time: int, reserved: AbstractSet[Address]
    ) -> CandidateList | None:
        """Return the available nodes with all models, or else those that lack some.

        Nodes that lack models are returned only if `weighting.fallback` is set. The result is None
        if there are no such nodes.
        """
        if self.rules.legacy is not None:
            return self._compute_available_candidates(task, time, reserved)
        if self._max_stake is None:
            self._max_stake = compute_max_stake(self._members.values())
        view = self._get_view(build_requirement(task), time)
        view.with_models.update_weights(time, self._max_stake)
        available_candidates = view.with_models.list_available(reserved)
        if available_candidates is None and self.weighting.fallback:
            view.without_models.update_weights(time, self._max_stake)
            available_candidates = view.without_models.list_available(reserved)
        return available_candidates

    def _compute_available_candidates(
        self, task: Task, time: int, reserved: AbstractSet[Address]
    ) -> CandidateList | None:
        policy_input = PolicyInput(self._members, self.rules, time, reserved)
        verdicts = evaluate_members(task, policy_input, self.weighting)
        weight_by_node = {
            verdict.node: verdict.weight for verdict in verdicts if verdict.weight is not None
        }
        if weight_by_node:
            return CandidateList(
                [*weight_by_node],
                [*weight_by_node.values()],
                bytearray(b"\1" * len(weight_by_node)),
            )
        return None

    def _get_view(self, requirement: Requirement, time: int) -> _RequirementView:
        view = self._views.pop(requirement, None)
        if view is None or self._is_view_stale(view):
            view = self._build_view(requirement, time)
        for address in view.changed_addresses:
            self._refresh_node_in_view(address, requirement, view, time)
        view.changed_addresses.clear()
        # Views are in the order of their use. The most recently used view comes last.
        self._views[requirement] = view
        while len(self._views) > 1 and self._exceeds_view_limits():
            del self._views[next(iter(self._views))]
        return view

    def _exceeds_view_limits(self) -> bool:
        indexed_node_count = sum(
            len(view.with_models) + len(view.without_models) for view in self._views.values()
        )
        return len(self._views) > _MAX_VIEWS or indexed_node_count > _MAX_INDEXED_NODES

    def _is_view_stale(self, view: _RequirementView) -> bool:
        """Return whether a view has changed so much that it is cheaper to rebuild it."""
        return (
            len(view.changed_addresses) > _MIN_STALE_CHANGES + len(self._members) // _STALE_DIVISOR
        )

    def _build_view(self, requirement: Requirement, time: int) -> _RequirementView:
        counted_models = self.weighting.select_counted_models(requirement.models)
        with_models: list[tuple[Address, IndexedCandidate]] = []
        without_models: list[tuple[Address, IndexedCandidate]] = []
        for node in self._members.values():
            if find_misfit_reason(node, requirement) is None:
                candidate_list = (
                    with_models if counted_models.issubset(node.models) else without_models
                )
                candidate_list.append(
                    (node.address, self._build_candidate(node, counted_models, time))
                )
        return _RequirementView(
            counted_models=counted_models,
            with_models=CandidateIndex(self.rules, self.weighting, with_models),
            without_models=CandidateIndex(self.rules, self.weighting, without_models),
            changed_addresses=set(),
        )

    def _refresh_node_in_view(
        self, address: Address, requirement: Requirement, view: _RequirementView, time: int
    ) -> None:
        node = self._members.get(address)
        index = None
        if node is not None and find_misfit_reason(node, requirement) is None:
            index = (
                view.with_models
                if view.counted_models.issubset(node.models)
                else view.without_models
            )
            index.update_node(address, self._build_candidate(node, view.counted_models, time))
        for candidate_index in (view.with_models, view.without_models):
            if candidate_index is not index:
                candidate_index.remove_node(address)

    def _build_candidate(
        self, node: Node, counted_models: frozenset[str], time: int
    ) -> IndexedCandidate:
        rules = self.rules
        if not rules.has_exclusion_hysteresis:
            exclusion_threshold = rules.exclude_enter
        else:
            exclusion_threshold = rules.exclude_exit if node.excluded else 0
        return IndexedCandidate(
            is_free=not node.paused and not node.running,
            stake=node.stake or 0,
            boost=compute_locality_boost(node, counted_models, self.weighting),
            long_term=compute_long_term_score(node, rules, time),
            base=node.base,
            since=node.since,
            exclusion_threshold=exclusion_threshold,
        )

    def _update_max_stake(self, address: Address, stake: int) -> None:
        """Update the largest stake of all members.

        It is cleared if its only owner may have lowered the stake.
        """
        previous_node = self._members.get(address)
        if self._max_stake is None:
            return
        if stake >= self._max_stake:
            self._max_stake = stake
        elif previous_node is not None and (previous_node.stake or 0) == self._max_stake:
            self._max_stake = None

    def _mark_node_changed(self, address: Address) -> None:
        for view in self._views.values():
            view.changed_addresses.add(address)
        for requirement in [
            requirement for requirement, view in self._views.items() if self._is_view_stale(view)
        ]:
            del self._views[requirement]
