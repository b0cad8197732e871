"""Task values, queue groups, freed nodes and eviction, as in the source documents."""

from fractions import Fraction
from typing import Any

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import TaskKind
from oracle.domain.state import Task
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.task_queue import QueueGroup, compute_queue_capacity, is_waiting
from tests.support.document.crynux_queue import TaskQueue
from tests.support.vectors import load_vector
from tests.unit.systems.crynux.scenes import a_node, a_task

ORDER = load_vector("queue/q-02 HEAD order: priority desc, id asc, queued only, keyset pagination")
VALUES = load_vector("queue/q-08 doc task value table")
FIGURE = load_vector("queue/q-09 2024 dispatch figure: freed RTX 4080 (16GB)")
EVICTION = load_vector("queue/q-12 max size S = alpha*N, eviction of the lowest value")


def pricing(fixed: int, unit: int) -> Pricing:
    return Pricing(
        dict.fromkeys(TaskKind, Fraction(fixed)), dict.fromkeys(TaskKind, Fraction(unit))
    )


# Every task takes a second, so its value is its fee.
SECOND = pricing(1, 0)


def build_created_task(n: int, **values: Any) -> Task:
    return a_task(f"{n}", created_at=Position(n, 0, 0), **values)


@pytest.mark.parametrize("case", VALUES["cases"])
def test_task_value_is_fee_divided_by_estimated_seconds(case):
    task = a_task(fee=case["fee_cnx"], size=case["images"], kind=TaskKind.SD)
    # The table has the seconds of all images together.
    unit = Fraction(case["image_s"], case["images"])
    assert unit.denominator == 1
    value = pricing(case["fixed_s"], unit.numerator).compute_value(task)
    assert abs(value - Fraction(case["value"])) < Fraction(1, 10**17)


def test_queue_is_ordered_by_value_then_age():
    tasks = [
        build_created_task(row["id"], fee=row["priority"], started_at=get_start(row))
        for row in ORDER["tasks"]
    ]
    names = {task.key: row["name"] for task, row in zip(tasks, ORDER["tasks"], strict=True)}
    queue = TaskQueue(SECOND, CRYNUX_WEIGHTING, filter(is_waiting, tasks))
    assert [names[entry.key] for entry in queue.in_order()] == ORDER["expected_page"]


def get_start(vector: dict[str, Any]) -> Position | None:
    return Position(99, 0, 0) if vector.get("status") == "Started" else None


def test_freed_node_takes_most_valuable_queue_head():
    queue = TaskQueue(SECOND, CRYNUX_WEIGHTING)
    groups = {name: group_named(name) for name in FIGURE["groups"]}
    n = 0
    for name, fees in FIGURE["groups"].items():
        for fee in fees:
            vram, gpu, _ = groups[name]
            requirement_fields = (
                {"required_gpu": gpu, "required_gpu_vram": vram} if gpu else {"min_vram": vram}
            )
            queue.add(build_created_task(n := n + 1, fee=fee, **requirement_fields))
    freed = a_node("A", gpu_name="4080", gpu_vram=16)
    heads = {group: head.value for group, head in queue.heads_for(freed).items()}
    assert heads == {groups[name]: value for name, value in FIGURE["candidates_heads"].items()}
    assert not {groups[name] for name in FIGURE["not_candidate"]} & set(heads)
    chosen = queue.next_for(freed)
    assert chosen is not None
    assert chosen.value == FIGURE["expected_value"]


def group_named(name: str) -> QueueGroup:
    vram, gpu = name.split("GB/")
    return QueueGroup(int(vram), None if gpu == "Any" else gpu)


@pytest.mark.parametrize("case", EVICTION["cases"])
def test_full_queue_drops_least_valuable_task_even_if_new(case):
    room = compute_queue_capacity(case["n_nodes"], Fraction(case["alpha"]))
    fees = [*map(int, case["queue_values"]), int(case["new_value"])]
    queue = TaskQueue(
        SECOND, CRYNUX_WEIGHTING, (build_created_task(n, fee=fee) for n, fee in enumerate(fees))
    )
    dropped = queue.overflow(room)
    for entry in dropped:
        queue.discard(entry.key)
    assert [f"{entry.value}" for entry in dropped] == [case["expected"]["evicted_value"]]
    assert [f"{entry.value}" for entry in queue.in_order()] == case["expected"]["queue"]
    assert len(queue) == room
