"""Whether a free node fits equals a scan of all nodes, whatever changes came before."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.domain.state import Node, Task
from oracle.systems.crynux import free_nodes
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING, RELAY_WEIGHTING, Weighting
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.crynux.free_nodes import FreeNodes
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    build_requirement,
    find_misfit_reason,
    find_unavailability_reason,
)
from tests.support.examples import examples
from tests.unit.systems.crynux.networks import networks, requests
from tests.unit.systems.crynux.scenes import NOW, a_node, a_task

TURNS = st.lists(
    st.tuples(networks(), st.integers(-900, 4000), st.sets(st.integers(0, 9), max_size=3)),
    max_size=5,
)


def fits(node: Node, task: Task, weighting: Weighting) -> bool:
    requirement = build_requirement(task)
    has_models = weighting.select_counted_models(requirement.models).issubset(node.models)
    return find_misfit_reason(node, requirement) is None and (weighting.fallback or has_models)


@pytest.mark.parametrize("stale", [0, 64])
@examples(60)
@given(
    turns=TURNS,
    tasks=st.lists(requests(), min_size=1, max_size=4),
    weighting=st.sampled_from([CRYNUX_WEIGHTING, RELAY_WEIGHTING]),
)
def test_incrementally_tracked_free_nodes_match_a_full_check(
    turns: list[tuple[list[Node], int, set[int]]],
    tasks: list[Task],
    weighting: Weighting,
    stale: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(free_nodes, "_MAX_STALE_ROWS", stale)
    free = FreeNodes(CRYNUX, weighting)
    rows = dict[Address, Node]()
    time = NOW
    for changed, seconds, places in turns:
        time += seconds
        free.advance_to(time)
        for node in changed:
            rows[node.address] = node
            free.update_node(node)
        reason_by_address = {
            candidate.address: find_unavailability_reason(candidate, time, CRYNUX)
            for candidate in rows.values()
        }
        able = [
            candidate
            for candidate in rows.values()
            if reason_by_address[candidate.address] is None
        ]
        assert free.nodes == {candidate.address: candidate for candidate in able}
        assert {candidate.address for candidate in free.iter_idle_nodes()} == {
            address
            for address, out in reason_by_address.items()
            if out in {None, IneligibilityReason.EXCLUDED}
        }
        nobody = frozenset[Address]()
        reserved = frozenset(
            candidate.address for place, candidate in enumerate(able) if place in places
        )
        for out in (nobody, reserved):
            for task in tasks:
                left = [candidate for candidate in able if candidate.address not in out]
                has_match = free.has_matching_node(build_requirement(task), out)
                assert has_match == any(fits(candidate, task, weighting) for candidate in left)


def test_task_without_a_matching_node_is_checked_only_for_changed_nodes(monkeypatch):
    checked_nodes: list[Node] = []

    def check_node(node: Node, requirement: Any) -> IneligibilityReason | None:
        checked_nodes.append(node)
        return find_misfit_reason(node, requirement)

    monkeypatch.setattr(free_nodes, "find_misfit_reason", check_node)
    free = FreeNodes(CRYNUX, CRYNUX_WEIGHTING)
    requirement = build_requirement(a_task(min_vram=40))
    for number in range(40):
        free.update_node(a_node(f"{number}", gpu_vram=8))
    assert not free.has_matching_node(requirement, frozenset())
    assert len(checked_nodes) == 40
    free.update_node(a_node("new", gpu_vram=8))
    assert not free.has_matching_node(requirement, frozenset())
    assert len(checked_nodes) == 41
