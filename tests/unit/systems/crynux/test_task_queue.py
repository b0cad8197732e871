"""The task queue: properties for all tasks, and rejected settings."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import TaskKind
from oracle.domain.state import Ending, Task
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_POLICY,
    CRYNUX_WEIGHTING,
    RELAY_POLICY,
    RELAY_WEIGHTING,
)
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.task_queue import QueueGroup, compute_queue_capacity, is_waiting
from tests.support import histories
from tests.support.document.crynux_queue import TaskQueue
from tests.unit.systems.crynux.networks import a_row, quick, requests
from tests.unit.systems.crynux.scenes import a_node, a_policy_input, a_task

PRICING = Pricing(
    {TaskKind.SD: Fraction(30), TaskKind.LLM: Fraction(10), TaskKind.SD_FT: Fraction(0)},
    {TaskKind.SD: Fraction(20), TaskKind.LLM: Fraction(1, 10), TaskKind.SD_FT: Fraction(0)},
)
OFFERS = st.fixed_dictionaries({
    "fee": st.sampled_from([None, 0, 10, 11, 40]),
    "size": st.sampled_from([None, 0, 1, 3]),
    "kind": st.sampled_from([None, *TaskKind]),
    "created_at": st.integers(1, 4).map(lambda block: Position(block, 0, 0)),
})  # fmt: skip


@st.composite
def queues(draw: st.DrawFn) -> list[Task]:
    """Draw up to eight tasks, several of the same value or the same block."""
    task_offers = draw(st.lists(st.tuples(requests(), OFFERS), max_size=8))
    return [
        replace(task, key=histories.make_task_key(f"{n}"), **offer)
        for n, (task, offer) in enumerate(task_offers)
    ]


def by_value(tasks: list[Task]) -> list[Task]:
    return sorted(
        tasks, key=lambda task: (-PRICING.compute_value(task), task.created_at, task.key)
    )


@quick
@given(queues(), st.sampled_from([CRYNUX_POLICY, RELAY_POLICY]), a_row("A"))
def test_freed_node_takes_most_valuable_eligible_task(tasks, policy, node):
    """Checking the heads of groups gives the same task as checking all tasks."""
    freed = replace(node, membership=a_node("A").membership, paused=False, running=0)
    freed = replace(freed, base=a_node("A").base, excluded=False)
    follower = policy.create_evaluator()
    policy_input = a_policy_input([freed])
    able = [
        task
        for task in tasks
        if follower.evaluate_candidates(task, policy_input)[0].weight is not None
    ]
    chosen = TaskQueue(PRICING, policy.weighting, tasks).next_for(freed)
    assert (chosen and chosen.task) == next(iter(by_value(able)), None)


@quick
@given(queues())
def test_every_task_waits_in_exactly_one_group_sorted_by_value(tasks):
    queue = TaskQueue(PRICING, CRYNUX_WEIGHTING, tasks)
    assert [entry.task for entry in queue.in_order()] == by_value(tasks)
    groups = queue.groups()
    assert sum(map(len, groups.values())) == len(queue) == len(tasks)
    for group, entries in groups.items():
        assert [entry.task for entry in entries] == by_value([entry.task for entry in entries])
        for entry in entries:
            gpu_name = entry.task.required_gpu or None
            memory = entry.task.required_gpu_vram if gpu_name else entry.task.min_vram
            assert group == QueueGroup(memory or 0, gpu_name)


@quick
@given(queues(), st.integers(1, 9))
def test_dropped_tasks_are_worth_no_more_than_kept_tasks(tasks, room):
    queue = TaskQueue(PRICING, CRYNUX_WEIGHTING, tasks)
    dropped = queue.overflow(room)
    for entry in dropped:
        queue.discard(entry.key)
    stay = [entry.task for entry in queue.in_order()]
    assert stay == by_value(tasks)[:room]
    assert [entry.task for entry in reversed(dropped)] == by_value(tasks)[room:]


@quick
@given(queues(), st.randoms())
def test_queue_is_independent_of_insertion_order(tasks, random):
    queue = TaskQueue(PRICING, CRYNUX_WEIGHTING, random.sample(tasks, len(tasks)))
    for task in tasks[::2]:
        queue.discard(task.key)
        queue.discard(task.key)
    for task in tasks:
        queue.add(task)
    for task in tasks[::3]:
        queue.discard(task.key)
    left = [task for n, task in enumerate(tasks) if n % 3]
    assert queue.groups() == TaskQueue(PRICING, CRYNUX_WEIGHTING, left).groups()


def test_equal_tasks_are_taken_oldest_first_and_dropped_newest_first():
    tasks = [a_task(f"{9 - n}", fee=10, created_at=Position(n, 0, 0)) for n in range(3)]
    queue = TaskQueue(PRICING, CRYNUX_WEIGHTING, tasks)
    assert [entry.task for entry in queue.in_order()] == tasks
    assert [entry.task for entry in queue.overflow(1)] == [tasks[2], tasks[1]]


def test_groups_are_sorted_by_memory_then_gpu():
    tasks = [
        a_task("1", min_vram=16),
        a_task("2", required_gpu="T4", required_gpu_vram=16),
        a_task("3", required_gpu="A4", required_gpu_vram=16),
        a_task("4", min_vram=24),
    ]
    groups = TaskQueue(PRICING, CRYNUX_WEIGHTING, tasks).groups()
    assert [(group.vram, group.gpu) for group in groups] == [
        (24, None),
        (16, "A4"),
        (16, "T4"),
        (16, None),
    ]


def test_first_task_of_a_queue_group_is_skipped_if_it_does_not_fit():
    tasks = [
        a_task("1", fee=90, version=(2, 0, 0)),
        a_task("2", fee=80, models=("base:a",)),
        a_task("3", fee=70),
    ]
    node = a_node("A", version=(1, 0, 0))
    head_fees = []
    for weighting in (CRYNUX_WEIGHTING, RELAY_WEIGHTING):
        head = TaskQueue(PRICING, weighting, tasks).next_for(node)
        assert head is not None
        head_fees.append(head.task.fee)
    assert head_fees == [80, 70]


def test_task_value_is_exact_and_estimates_at_least_one_second():
    assert PRICING.compute_value(a_task(fee=7, size=1, kind=TaskKind.LLM)) == Fraction(70, 101)
    assert PRICING.compute_value(a_task(fee=7, size=9, kind=TaskKind.SD_FT)) == 7
    half = dict.fromkeys(TaskKind, Fraction(1, 4))
    assert Pricing(half, half).compute_value(a_task(fee=7, size=1)) == 7


def test_task_seconds_are_estimated_if_kind_or_size_is_missing():
    assert PRICING.estimate_task_seconds(a_task(size=3)) == 30 + 3 * 20
    assert PRICING.estimate_task_seconds(a_task(kind=TaskKind.SD)) == 30 + 20
    assert PRICING.compute_value(a_task()) == 0


def test_incomplete_or_negative_pricing_is_rejected():
    seconds = dict.fromkeys(TaskKind, Fraction(1))
    with pytest.raises(ValueError, match="unit_seconds: the value for sd"):
        Pricing(seconds, {})
    with pytest.raises(ValueError, match="fixed_seconds: must be 0 or more for llm"):
        Pricing({**seconds, TaskKind.LLM: Fraction(-1)}, seconds)


@pytest.mark.parametrize("alpha", [0, -1])
def test_alpha_of_zero_or_less_is_rejected(alpha):
    with pytest.raises(ValueError, match="alpha"):
        compute_queue_capacity(10, Fraction(alpha))


@pytest.mark.parametrize(
    ("waits", "values"),
    [
        (True, {}),
        (True, {"queued": True}),
        (False, {"created_at": None}),
        (False, {"started_at": Position(2, 0, 0)}),
        (False, {"ending": Ending.ABORTED}),
    ],
)
def test_task_is_waiting_until_start_or_end(waits, values):
    assert is_waiting(a_task(**values)) == waits
