"""`queue --node` offers the task for which the dispatcher's planner draws the node."""

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.state import Node, Task
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.queue_view import build_queue_answer
from oracle.systems.pocket.pocket_policy import PocketEvaluator, PocketPolicy
from oracle.systems.registry import get_policy
from tests.support.examples import examples
from tests.support.harness import RULES
from tests.support.histories import make_group_key, make_node_address
from tests.support.txmgr.dispatch_harness import PRICING, build_dispatch_settings
from tests.unit.systems.legacy.networks import RULES as LEGACY_RULES, member, waiting_task

GPUS = [("T4", 16), ("RTX 4090", 24), (None, None)]
MODELS = [(), ("base:a",)]

nodes_st = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(GPUS),
        "models": st.sampled_from(MODELS),
        "paused": st.sampled_from([False, False, False, True]),
        "stake": st.sampled_from([None, 0, 5]),
    }
)
orders_st = st.fixed_dictionaries(
    {
        "fee": st.integers(1, 4),
        "min_vram": st.sampled_from([None, 16, 24]),
        "required_gpu": st.sampled_from([None, None, "T4"]),
        "models": st.sampled_from(MODELS),
        "kind": st.sampled_from(TaskKind),
        # The number of created tasks of its group of three; 0: the task has no group.
        "created": st.sampled_from([0, 0, 2, 3]),
    }
)


class SceneView:
    """A `NetworkView` of nodes and tasks at one moment."""

    def __init__(self, policy: Any, nodes: Iterable[Node], tasks: Sequence[Task]) -> None:
        self.policy = policy
        self.nodes = list(nodes)
        self.tasks = tasks

    def get_waiting_tasks(self) -> Sequence[Task]:
        return [task for task in self.tasks if task.node is None]

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for task in self.tasks if task.group in groups]

    def pop_changed_tasks(self) -> Sequence[Task]:
        return self.tasks

    def get_nodes_changed_since(self, _: int | None) -> Iterable[Node]:
        return self.nodes

    def get_pocket_evaluator(self, _: int) -> PocketEvaluator:
        assert isinstance(self.policy, PocketPolicy)
        return self.policy.create_evaluator()


def block(number: int) -> BlockRef:
    digest = Hash("0x" + sha256(f"{number}".encode()).hexdigest())
    return BlockRef(number, digest, Hash(f"0x{0:064x}"), 0)


def made_node(name: str, attributes: Mapping[str, Any]) -> Node:
    model, vram = attributes["gpu"]
    return member(
        name,
        gpu_name=model,
        gpu_vram=vram,
        models=set(attributes["models"]),
        paused=attributes["paused"],
        stake=attributes["stake"],
    )


def made_tasks(number: int, order: Mapping[str, Any]) -> list[Task]:
    """Return a single task, or created tasks of a group; the first of a pair has started."""
    size = order["created"]
    values = {key: value for key, value in order.items() if key not in {"created", "kind"}}
    if size:
        values |= {"group": make_group_key(f"g{number}"), "group_size": 3}
    tasks = [
        waiting_task(f"{number}.{place}", **values, created_at=Position(number + 1, 0, place))
        for place in range(size or 1)
    ]
    for task in tasks:
        task.kind = order["kind"]
    return tasks


def next_draws(
    policy: str, view: SceneView, drawn: Mapping[TaskKey, Address]
) -> tuple[Mapping[TaskKey, Address], set[TaskKey]]:
    """Return the active draws after another block, and the tasks that were just drawn."""
    rules = LEGACY_RULES if policy == "legacy" else RULES
    drawer = BlockDrawer(build_dispatch_settings(policy=policy, rules=rules))
    drawer.restore_plan(view, block(1), drawn)
    turn = drawer.draw_at_block(view, block(2))
    return turn.plan.active_draws, {drawing.task for drawing in turn.new_draws}


@pytest.mark.parametrize("name", ["crynux", "legacy", "article", "portal_api_head"])
@examples(60)
@given(st.data())
def test_offer_for_freed_node_matches_the_planned_draw(name: str, data: st.DataObject):
    policy = get_policy(name)
    other_nodes = [
        made_node(f"o{n}", attributes)
        for n, attributes in enumerate(data.draw(st.lists(nodes_st, max_size=4)))
    ]
    orders = data.draw(st.lists(orders_st, max_size=6))
    tasks = [task for n, order in enumerate(orders) for task in made_tasks(n, order)]
    # First the other nodes are drawn for any task that they can run.
    drawn: Mapping[TaskKey, Address] = {}
    fresh: set[TaskKey] = {TaskKey("")}
    while fresh:
        drawn, fresh = next_draws(name, SceneView(policy, other_nodes, tasks), drawn)
    # Then one more node becomes free and takes a remaining task, alone or in a trio.
    freed = made_node("freed", data.draw(nodes_st))
    nodes = [freed, *other_nodes]
    view = SceneView(policy, nodes, tasks)
    _, taken_tasks = next_draws(name, view, drawn)
    freed.running = 1
    snapshot = NetworkSnapshot(
        rules=LEGACY_RULES if name == "legacy" else RULES,
        block=1,
        time=0,
        nodes={scene_node.address: scene_node for scene_node in nodes},
        waiting=list(view.get_waiting_tasks()),
        nodes_by_group={},
        drawn_node_by_task=drawn,
        group_tasks=[task for task in tasks if task.group is not None],
    )
    answer = build_queue_answer(snapshot, policy, PRICING, node=make_node_address("freed"))

    assert answer.offer is not None
    entries = {entry.task: entry for entry in answer.entries}
    offered = set[str]() if answer.offer.takes is None else {*entries[answer.offer.takes].tasks}
    assert offered == taken_tasks
