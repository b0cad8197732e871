"""Planned draws: one node for one task, valuable tasks first, derived from the chain alone."""

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.events.network_events import AbortReason
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.state import Ending, Task, create_task
from oracle.systems.assignment import (
    EMPTY_PLAN,
    AssignmentPlan,
    DrawResult,
    PlanStep,
    compute_next_plan,
    filter_queued_items,
    find_ready_tasks,
)
from oracle.systems.task_queue import (
    QueueDrop,
    QueueItem,
    TaskQueue,
    build_queue,
    find_queue_drop,
)
from oracle.systems.weighted_draw import draw_nodes

NODES = [Address(f"0x{number:040x}") for number in range(1, 7)]
GROUP = GroupKey("0x" + "9" * 64)


def key(number: int) -> TaskKey:
    return TaskKey(f"0x{number:064x}")


def block(number: int, fork: int = 0) -> BlockRef:
    digest = sha256(f"{number} {fork}".encode()).hexdigest()
    return BlockRef(number, Hash("0x" + digest), Hash("0x" + "0" * 64), 10 * number)


@dataclass
class Free:
    """A pool of nodes: which are free, and which tasks each may not run."""

    weights: dict[Address, int]
    unfit: AbstractSet[tuple[Address, TaskKey]] = frozenset()

    def candidates(self, task: Task, reserved: AbstractSet[Address]) -> list[tuple[Address, int]]:
        return [
            (node, weight)
            for node, weight in self.weights.items()
            if node not in reserved and (node, task.key) not in self.unfit
        ]

    def has_candidates(self, item: QueueItem, reserved: AbstractSet[Address]) -> bool:
        return len(self.candidates(item.task, reserved)) >= len(item.tasks)

    def draw_nodes(
        self, item: QueueItem, seed: bytes, reserved: AbstractSet[Address]
    ) -> DrawResult:
        candidates = self.candidates(item.task, reserved)
        return DrawResult(draw_nodes(candidates, seed, len(item.tasks)), candidates)

    def is_eligible(self, task: Task, node: Address) -> bool:
        return node in self.weights and (node, task.key) not in self.unfit


def task(number: int, *, fee: int = 1, group: GroupKey | None = None, at: int = 0) -> Task:
    new_task = create_task(key(number))
    new_task.created_at = Position(at, number, 0)
    new_task.fee = fee
    new_task.group = group
    return new_task


def line(*tasks: Task, fellows: Sequence[Task] = ()) -> list[QueueItem]:
    return build_queue(tasks, fellows, lambda queued_task: Fraction(queued_task.fee or 0))


@dataclass
class World:
    """The blocks of a network that a test defines."""

    plan: AssignmentPlan = EMPTY_PLAN
    turns: list[PlanStep] = field(default_factory=list)

    def go(self, number: int, waiting: list[QueueItem], pool: Free, fork: int = 0) -> PlanStep:
        turn = compute_next_plan(self.plan, block(number, fork), TaskQueue(waiting), pool)
        self.plan = turn.plan
        self.turns.append(turn)
        return turn


def test_task_with_candidate_is_drawn_at_next_block():
    world = World()
    waiting = line(task(1))
    assert world.go(1, waiting, Free({})).plan == EMPTY_PLAN
    assert world.go(2, waiting, Free({NODES[0]: 5})).plan.armed_tasks == {key(1)}
    (drawn,) = world.go(3, waiting, Free({NODES[0]: 5, NODES[1]: 0})).new_draws

    assert drawn.node == NODES[0]
    assert drawn.block == block(3)
    hashed = bytes.fromhex(block(3).hash[2:]) + bytes.fromhex(key(1)[2:])
    assert drawn.seed == sha256(hashed).digest()
    assert drawn.candidates == ((NODES[0], 5), (NODES[1], 0))


def test_task_waits_again_if_no_node_is_free_at_the_seed_block():
    world = World()
    waiting = line(task(1))
    world.go(1, waiting, Free({NODES[0]: 1}))
    turn = world.go(2, waiting, Free({}))
    assert (turn.new_draws, turn.plan) == ((), EMPTY_PLAN)


def test_oldest_of_most_valuable_tasks_is_drawn():
    cheap = task(1, fee=1)
    dear = task(2, fee=3)
    old = task(3, fee=3, at=-1)
    world = World()
    pool = Free({NODES[0]: 1})
    world.go(1, line(cheap, dear, old), pool)
    turn = world.go(2, line(cheap, dear, old), pool)
    assert turn.plan.active_draws == {key(3): NODES[0]}
    assert turn.plan.armed_tasks == frozenset()


def test_task_is_armed_again_if_its_drawn_node_becomes_unavailable():
    world = World()
    waiting = line(task(1))
    world.go(1, waiting, Free({NODES[0]: 1}))
    world.go(2, waiting, Free({NODES[0]: 1}))
    fallen = world.go(3, waiting, Free({NODES[1]: 1}))
    assert (fallen.ended_draws, fallen.new_draws) == ((key(1),), ())
    assert fallen.plan == AssignmentPlan({}, frozenset({key(1)}))
    assert world.go(4, waiting, Free({NODES[1]: 1})).plan.active_draws == {key(1): NODES[1]}


def test_node_cannot_get_a_second_task_of_its_group():
    fellow = task(9, group=GROUP)
    fellow.node = NODES[0]
    waiting = line(task(1, group=GROUP), fellows=[fellow])
    assert waiting[0].sibling_nodes == {NODES[0]}
    world = World()
    assert world.go(1, waiting, Free({NODES[0]: 1})).plan.armed_tasks == frozenset()


def test_node_of_the_group_is_not_among_the_candidates():
    waiting_task = task(1, group=GROUP)
    fellow = task(9, group=GROUP)
    fellow.node = NODES[0]
    world = World()
    pool = Free({NODES[0]: 1, NODES[1]: 1})
    world.go(1, line(waiting_task, fellows=[fellow]), pool)
    (drawn,) = world.go(2, line(waiting_task, fellows=[fellow]), pool).new_draws
    assert drawn.candidates == ((NODES[1], 1),)


def test_draw_ends_if_its_node_gets_another_task_of_the_group():
    waiting_task = task(1, group=GROUP)
    fellow = task(9, group=GROUP)
    world = World()
    pool = Free({NODES[0]: 1})
    world.go(1, line(waiting_task, fellows=[fellow]), pool)
    world.go(2, line(waiting_task, fellows=[fellow]), pool)
    fellow.node = NODES[0]
    assert world.go(3, line(waiting_task, fellows=[fellow]), pool).plan == EMPTY_PLAN


def test_task_of_timed_out_group_is_not_queued():
    fellow = task(9, group=GROUP)
    fellow.abort_reason = AbortReason.GROUP_TIMEOUT
    assert line(task(1, group=GROUP), fellows=[fellow]) == []


def test_rest_of_cancelled_group_is_not_queued():
    """The remaining answers of the group would be compared with nothing."""
    fellow = task(9, group=GROUP)
    fellow.ending, fellow.abort_reason = Ending.ABORTED, AbortReason.CANCELLED
    assert line(task(1, group=GROUP), fellows=[fellow]) == []


def test_draw_ends_when_another_task_of_its_group_is_cancelled():
    waiting_task = task(1, group=GROUP)
    fellow = task(9, group=GROUP)
    world = World()
    pool = Free({NODES[0]: 1})
    world.go(1, line(waiting_task, fellows=[fellow]), pool)
    world.go(2, line(waiting_task, fellows=[fellow]), pool)
    fellow.ending, fellow.abort_reason = Ending.ABORTED, AbortReason.CANCELLED
    assert world.go(3, line(waiting_task, fellows=[fellow]), pool).plan == EMPTY_PLAN


@pytest.mark.parametrize(("size", "ended", "waits"), [(2, 1, 0), (3, 1, 1), (3, 2, 0), (4, 2, 0)])
def test_rest_of_a_group_waits_while_a_majority_is_possible(size: int, ended: int, waits: int):
    tasks = [task(number, group=GROUP) for number in range(1, size + 1)]
    for group_task in tasks:
        group_task.group_size = size
    for group_task, runner in zip(tasks[:ended], NODES, strict=False):
        group_task.node = runner
        group_task.started_at = Position(1, 0, 0, 0)
        group_task.ending = Ending.TIMED_OUT
    in_line = line(tasks[-1], fellows=tasks)
    assert len(in_line) == waits


def test_group_is_dropped_entirely_unless_one_of_its_tasks_started():
    tasks = [task(number, group=GROUP) for number in (3, 1, 2)]
    group_keys = tuple(
        sorted((group_task.key for group_task in tasks), key=lambda name: int(name, 16))
    )
    assert find_queue_drop(tasks[0], tasks) == QueueDrop(group_keys, GROUP)
    tasks[1].node = NODES[0]
    tasks[1].started_at = Position(1, 0, 0, 0)
    assert find_queue_drop(tasks[0], tasks) is None
    tasks[1].ending, tasks[1].abort_reason = Ending.ABORTED, AbortReason.GROUP_TIMEOUT
    assert find_queue_drop(tasks[0], tasks) == QueueDrop((tasks[0].key,), None)


def test_no_node_is_reserved_for_an_incomplete_group():
    tasks = [task(number, group=GROUP) for number in (1, 2, 3)]
    for group_task in tasks:
        group_task.group_size = 3
    world = World()
    pool = Free(dict.fromkeys(NODES, 1))
    for there in (1, 2):
        assert line(*tasks[:there], fellows=tasks[:there]) == []
    full_line = line(*tasks, fellows=tasks)
    assert world.go(1, full_line, pool).plan.armed_tasks == {
        group_task.key for group_task in tasks
    }


def test_new_task_enters_queue_in_next_block():
    old = task(1, at=4)
    new = task(2, at=5, fee=2)
    drawn = task(3, at=3)
    plan = AssignmentPlan({key(3): NODES[0]}, frozenset())
    waiting = line(old, new, drawn)
    assert [queue_item.task.key for queue_item in filter_queued_items(waiting, plan, 5)] == [
        key(1)
    ]
    assert [queue_item.task.key for queue_item in filter_queued_items(waiting, plan, 6)] == [
        key(2),
        key(1),
    ]


# --- properties ---

Scene = tuple[list[tuple[int, int]], list[tuple[int, int]]]

scenes = st.lists(
    st.tuples(
        # Waiting tasks with their fees, and free nodes with their weights.
        st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3)), unique_by=lambda case: case[0]),
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), unique_by=lambda case: case[0]),
    ),
    min_size=1,
    max_size=8,
)


def build_stage(policy_input: Scene) -> tuple[list[QueueItem], Free]:
    orders, free = policy_input
    tasks = [task(number, fee=fee) for number, fee in orders]
    for (number, _), queued_task in zip(orders, tasks, strict=True):
        queued_task.min_vram = number % 2
    waiting = line(*tasks)
    # Not every node fits every task: the sixth node runs only even ones.
    unfit = {(NODES[5], key(number)) for number in range(1, 9, 2)}
    return waiting, Free({NODES[place]: weight for place, weight in free}, unfit)


@given(scenes)
def test_node_has_at_most_one_active_draw(history):
    world = World()
    for number, policy_input in enumerate(history):
        waiting, pool = build_stage(policy_input)
        turn = world.go(number, waiting, pool)
        keys = {queue_item.task.key for queue_item in waiting}
        standing = turn.plan.active_draws
        assert len(set(standing.values())) == len(standing)
        assert standing.keys() <= keys
        for queue_item in waiting:
            if queue_item.task.key in standing:
                assert pool.is_eligible(queue_item.task, standing[queue_item.task.key])


@given(scenes)
def test_armed_tasks_are_drawn_in_order_of_value(history):
    world = World()
    for number, policy_input in enumerate(history):
        waiting, pool = build_stage(policy_input)
        armed = world.plan.armed_tasks
        turn = world.go(number, waiting, pool)
        drawn = {task_draw.task: task_draw.node for task_draw in turn.new_draws}
        assert drawn.keys() <= armed
        for place, queue_item in enumerate(waiting):
            if queue_item.task.key in armed and queue_item.task.key not in turn.plan.active_draws:
                cheaper = {
                    cheaper_item.task.key for cheaper_item in waiting[place + 1 :]
                } & drawn.keys()
                assert not any(
                    pool.is_eligible(queue_item.task, drawn[cheaper_key])
                    for cheaper_key in cheaper
                )


@given(scenes)
def test_task_without_a_draw_is_armed_if_candidates_are_left(history):
    world = World()
    for number, policy_input in enumerate(history):
        waiting, pool = build_stage(policy_input)
        turn = world.go(number, waiting, pool)
        reserved = set(turn.plan.active_draws.values())
        for queue_item in waiting:
            if queue_item.task.key not in turn.plan.active_draws:
                assert (queue_item.task.key in turn.plan.armed_tasks) == pool.has_candidates(
                    queue_item, reserved
                )


@given(scenes, st.integers(0, 7))
def test_draws_survive_restart_and_reorg_to_same_block(history, back):
    through = World()
    stages = [build_stage(policy_input) for policy_input in history]
    for number, (waiting, pool) in enumerate(stages):
        through.go(number, waiting, pool)

    restarted_world = World()
    plans = list[AssignmentPlan]()
    for number, (waiting, pool) in enumerate(stages):
        restarted_world.go(number, waiting, pool)
        # A database keeps only the active draws; the others follow from them.
        standing = dict(restarted_world.plan.active_draws)
        restarted_world.plan = AssignmentPlan(
            standing, find_ready_tasks(TaskQueue(waiting), standing, pool)
        )
        plans.append(restarted_world.plan)
        if number == back:
            # Another fork for a block, and back.
            fork = World(plan=plans[-2] if number else EMPTY_PLAN)
            fork.go(number, waiting, pool, fork=1)
    assert restarted_world.turns == through.turns
