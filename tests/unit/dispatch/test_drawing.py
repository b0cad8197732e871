"""The planned draws equal those of the plain policy block by block, with few reads."""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import GroupKey, Hash
from oracle.domain.state import Node, Task
from oracle.systems.crynux import candidate_pool
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_WEIGHTING,
    RELAY_WEIGHTING,
    Weighting,
    evaluate_members,
)
from oracle.systems.crynux.requirements import IneligibilityReason, Requirement, find_misfit_reason
from oracle.systems.pocket.pocket_policy import (
    ARTICLE,
    PORTAL_API_HEAD,
    PocketEvaluator,
    PocketPolicy,
)
from tests.support.txmgr.dispatch_harness import build_dispatch_settings
from tests.unit.systems.crynux.networks import networks, requests
from tests.unit.systems.crynux.scenes import NOW, a_node, a_policy_input, a_task

POCKET = st.sampled_from([ARTICLE, PORTAL_API_HEAD])


class FixedView:
    """A view of a network, given complete or in two parts; none of its tasks has ended."""

    def __init__(
        self, nodes: Iterable[Node], tasks: Sequence[Task], pocket: PocketPolicy = ARTICLE
    ) -> None:
        self.pocket = pocket
        self.rows = {node.address: node for node in nodes}
        self.tasks = tasks

    def get_waiting_tasks(self) -> Sequence[Task]:
        return self.tasks

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for task in self.tasks if task.group in groups]

    def pop_changed_tasks(self) -> Sequence[Task]:
        return self.tasks

    def get_nodes_changed_since(self, _: int | None) -> Iterable[Node]:
        return self.rows.values()

    def get_pocket_evaluator(self, _: int) -> PocketEvaluator:
        return self.pocket.create_evaluator()


def at(number: int, time: int = NOW) -> BlockRef:
    return BlockRef(number, Hash(f"0x{number:064x}"), Hash(f"0x{number - 1:064x}"), time)


@given(
    before=networks(),
    after=networks(),
    task=requests(),
    seconds=st.integers(0, 2000),
    weighting=st.sampled_from([CRYNUX_WEIGHTING, RELAY_WEIGHTING]),
)
def test_task_is_armed_if_and_only_if_it_has_a_candidate(
    before: list[Node], after: list[Node], task: Task, seconds: int, weighting: Weighting
):
    drawer = BlockDrawer(build_dispatch_settings(weighting=weighting))
    rules = drawer.settings.rules
    drawer.restore_plan(FixedView(before, [task]), at(1), {})
    drawer.restore_plan(FixedView(after, [task]), at(2, NOW + seconds), {})

    rows = {node.address: node for node in [*before, *after]}
    policy_input = a_policy_input(rows.values(), rules, time=NOW + seconds)
    verdicts = evaluate_members(task, policy_input, weighting)
    assert bool(drawer.plan.armed_tasks) == any(verdict.weight is not None for verdict in verdicts)


@pytest.mark.parametrize("running", [0, 1])
def test_arming_many_tasks_does_not_check_each_node(monkeypatch: pytest.MonkeyPatch, running: int):
    kinds = [replace(a_task(f"{n}"), models=(f"base:{n}",)) for n in range(1000)]
    checked_nodes: list[Node] = []

    def check_node(node: Node, requirement: Requirement) -> IneligibilityReason | None:
        checked_nodes.append(node)
        return find_misfit_reason(node, requirement)

    monkeypatch.setattr(candidate_pool, "find_misfit_reason", check_node)
    drawer = BlockDrawer(build_dispatch_settings())
    drawer.restore_plan(
        FixedView([a_node(f"{n}", running=running) for n in range(9)], kinds), at(1), {}
    )
    assert len(drawer.plan.armed_tasks) == (0 if running else 1000)
    assert checked_nodes == []


@given(before=networks(), after=networks(), task=requests(), policy=POCKET)
def test_pocket_task_is_armed_if_and_only_if_it_has_a_candidate(
    before: list[Node], after: list[Node], task: Task, policy: PocketPolicy
):
    drawer = BlockDrawer(build_dispatch_settings(policy=policy.name))
    drawer.restore_plan(FixedView(before, [task], policy), at(1), {})
    drawer.restore_plan(FixedView(after, [task], policy), at(2), {})

    rows = [*{node.address: node for node in [*before, *after]}.values()]
    verdicts = policy.create_evaluator().evaluate_candidates(
        task, a_policy_input(rows, drawer.settings.rules)
    )
    assert bool(drawer.plan.armed_tasks) == any(verdict.weight is not None for verdict in verdicts)
