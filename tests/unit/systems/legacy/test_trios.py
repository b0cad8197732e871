"""Waiting groups of three: which wait, in which order, and the drawn nodes."""

from collections.abc import Iterable, Sequence, Set as AbstractSet
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.ids import Address, GroupKey, Hash
from oracle.domain.state import Ending, Node, Task
from oracle.systems.legacy.legacy_eligibility import find_gpu_group
from oracle.systems.legacy.trio_line import build_trio_queue, find_unstartable_tasks
from oracle.systems.pocket.pocket_policy import PocketEvaluator
from tests.support.document.legacy_queue import LegacyQueue, merge_group_into_task
from tests.support.histories import make_node_address
from tests.support.txmgr.dispatch_harness import PRICING, build_dispatch_settings
from tests.support.vectors import load_vector
from tests.unit.systems.legacy.networks import RULES, add_scores, gpus, member, waiting_task

LEGACY = build_dispatch_settings(policy="legacy", rules=RULES)


def group(name: str) -> GroupKey:
    return GroupKey("0x" + sha256(name.encode()).hexdigest())


def trio(name: str, *, fee: int = 1, at: int = 1, **task_fields: object) -> list[Task]:
    """Return a group of three, created one after the other in block `at`."""
    creation_fields = {"group": group(name), "fee": fee, **task_fields}
    return [
        waiting_task(f"{name}{n}", created_at=Position(at, 0, n), **creation_fields)  # type: ignore[arg-type]
        for n in range(3)
    ]


class FixedView:
    """A complete view of a network."""

    def __init__(self, nodes: Iterable[Node], tasks: Sequence[Task]) -> None:
        self.rows = {node_row.address: node_row for node_row in nodes}
        self.tasks = tasks

    def get_waiting_tasks(self) -> Sequence[Task]:
        return [task for task in self.tasks if task.node is None and task.ending is None]

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for task in self.tasks if task.group in groups]

    def pop_changed_tasks(self) -> Sequence[Task]:
        return self.tasks

    def get_nodes_changed_since(self, _: int | None) -> Iterable[Node]:
        return self.rows.values()

    def get_pocket_evaluator(self, _: int) -> PocketEvaluator:
        raise AssertionError("this policy remembers nothing")


def block(number: int) -> BlockRef:
    digest = Hash("0x" + sha256(f"{number}".encode()).hexdigest())
    return BlockRef(number, digest, Hash(f"0x{0:064x}"), 0)


def drawn_by(nodes: Iterable[Node], tasks: Sequence[Task]) -> dict[str, Address]:
    """Return the draws by block, for nodes and tasks that were there in the previous block."""
    drawer = BlockDrawer(LEGACY)
    view = FixedView(nodes, tasks)
    drawer.restore_plan(view, block(1), {})
    return {
        node_draw.task: node_draw.node
        for node_draw in drawer.draw_at_block(view, block(2)).new_draws
    }


# --- which wait ---


def test_group_of_three_has_the_total_value_and_age_of_its_last_task():
    cheap = trio("c", fee=1, at=1)
    dear = trio("d", fee=2, at=2)
    late = trio("l", fee=2, at=1)
    late[2].created_at = Position(3, 0, 0)
    tasks = [*cheap, *late, *dear]
    line = build_trio_queue(tasks, tasks, PRICING.compute_value)
    assert [queue_item.tasks for queue_item in line] == [tuple(dear), tuple(late), tuple(cheap)]
    assert [queue_item.value for queue_item in line] == [6, 6, 3]


@pytest.mark.parametrize("there", [1, 2])
def test_incomplete_group_waits_for_third_task(there: int):
    tasks = trio("g")[:there]
    assert build_trio_queue(tasks, tasks, PRICING.compute_value) == []
    assert find_unstartable_tasks(tasks, tasks) == []


def test_remaining_tasks_of_started_group_never_start():
    for spoil in (
        {"ending": Ending.ABORTED},
        {"node": make_node_address("n"), "started_at": Position(2, 0, 0)},
    ):
        first, *remainder = trio("g")
        for name, value in spoil.items():
            setattr(first, name, value)
        tasks = [first, *remainder]
        assert build_trio_queue(remainder, tasks, PRICING.compute_value) == []
        assert find_unstartable_tasks(remainder, tasks) == remainder


def test_task_without_group_or_in_group_of_four_never_starts():
    alone = waiting_task("a")
    four = [*trio("f"), waiting_task("f4", group=group("f"))]
    tasks = [alone, *four]
    assert build_trio_queue(tasks, tasks, PRICING.compute_value) == []
    assert {task.key for task in find_unstartable_tasks(tasks, tasks)} == {
        task.key for task in tasks
    }


def test_queue_counts_a_group_once_with_all_its_fees():
    tasks = [*trio("g", fee=2, at=4), *trio("h")[:2], waiting_task("a")]
    (entry,) = build_trio_queue(tasks, tasks, PRICING.compute_value)
    queued = merge_group_into_task(entry)
    assert (queued.fee, queued.group) == (6, group("g"))
    assert queued.created_at == entry.tasks[-1].created_at


def test_tasks_of_a_group_of_five_cannot_be_started():
    tasks = trio("g", group_size=5)
    assert build_trio_queue(tasks, tasks, PRICING.compute_value) == []
    assert find_unstartable_tasks(tasks, tasks) == tasks


# --- draws ---


def test_three_distinct_nodes_are_drawn_with_same_group_seed():
    drawer = BlockDrawer(LEGACY, explains=True)
    tasks = trio("g")
    view = FixedView(gpus({("RTX 4090", 24): 5}), tasks)
    drawer.restore_plan(view, block(1), {})
    drawn = drawer.draw_at_block(view, block(2)).new_draws

    seed = sha256(bytes.fromhex(block(2).hash[2:]) + bytes.fromhex(group("g")[2:])).digest()
    assert {node_draw.seed for node_draw in drawn} == {seed}
    assert [node_draw.task for node_draw in drawn] == [task.key for task in tasks]
    assert len({node_draw.node for node_draw in drawn}) == 3
    assert {len(node_draw.candidates) for node_draw in drawn} == {5}


def test_gpt_group_is_drawn_from_nodes_with_the_same_gpu():
    drawer = BlockDrawer(LEGACY, explains=True)
    tasks = trio("g", gpt=True, min_vram=16)
    nodes = gpus({("RTX 4090", 24): 3, ("RTX 4080", 16): 3, ("RTX 3080", 8): 3})
    view = FixedView(nodes, tasks)
    drawer.restore_plan(view, block(1), {})
    drawn = drawer.draw_at_block(view, block(2)).new_draws
    gpu_by_address = {gpu_owner.address: find_gpu_group(gpu_owner) for gpu_owner in nodes}
    (gpu,) = {gpu_by_address[node_draw.node] for node_draw in drawn}
    assert gpu is not None
    assert {node_draw.gpu for node_draw in drawn} == {gpu.text}
    assert {address for address, _ in drawn[0].candidates} == {
        address for address, of in gpu_by_address.items() if of == gpu
    }


def test_node_with_zero_speed_is_not_drawn_if_there_are_enough_others():
    nodes = [
        add_scores(member(name), total, 4)
        for name, total in zip("abcd", (0, 9, 9, 9), strict=True)
    ]
    assert make_node_address("a") not in drawn_by(nodes, trio("g")).values()


def test_unavailable_node_voids_draw_of_entire_group():
    nodes = gpus({("RTX 4090", 24): 4})
    tasks = trio("g")
    drawer = BlockDrawer(LEGACY)
    view = FixedView(nodes, tasks)
    drawer.restore_plan(view, block(1), {})
    first = [node_draw.node for node_draw in drawer.draw_at_block(view, block(2)).new_draws]
    view.rows[first[1]].paused = True
    turn = drawer.draw_at_block(view, block(3))
    assert set(turn.ended_draws) == {task.key for task in tasks}
    assert turn.plan.active_draws == {}
    (again,) = [{node_draw.node for node_draw in drawer.draw_at_block(view, block(4)).new_draws}]
    assert again == {candidate.address for candidate in nodes} - {first[1]}


def test_three_free_nodes_get_group_shown_in_figure():
    figure = load_vector("queue/q-10 legacy dispatch figure: 3 x RTX 4090 (24GB) free")
    groups = {}
    for name, fees in figure["groups"].items():
        kind, vram = name.removesuffix("GB").split("/")
        for fee in fees:
            task_fields = {"gpt": kind == "GPT", "min_vram": int(vram), "fee": fee}
            groups[f"{name} {fee}"] = (fee, trio(f"{name} {fee}", **task_fields))
    drawn = drawn_by(
        gpus({("RTX 4090", 24): 3}), [task for _, tasks in groups.values() for task in tasks]
    )
    (drawn_fee,) = [fee for fee, tasks in groups.values() if tasks[0].key in drawn]
    assert (drawn_fee, len(drawn)) == (figure["expected_value"], 3)


GPUS = [("RTX 4090", 24), ("RTX 4080", 16), ("RTX 3080", 16), ("RTX 4070", 12)]
networks = st.lists(st.sampled_from(GPUS), min_size=1, max_size=7)
orders = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0, 12, 16, 24]), st.integers(1, 9)), max_size=6
)


def build_stage(
    models: Sequence[tuple[str, int]], orders: Sequence[tuple[bool, int, int]]
) -> tuple[list[Node], list[list[Task]]]:
    nodes = [
        member(f"{n}", gpu_name=model, gpu_vram=vram) for n, (model, vram) in enumerate(models)
    ]
    groups = [
        trio(f"g{n}", gpt=gpt, min_vram=vram, fee=fee, at=n)
        for n, (gpt, vram, fee) in enumerate(orders)
    ]
    return nodes, groups


@given(networks, orders)
def test_draws_for_freed_node_match_documented_procedure(models, group_orders):
    """If nothing that waits could run before, one more node runs the best task with the others."""
    (freed, *other_nodes), groups = build_stage(models, group_orders)
    tasks = [task for tasks in groups for task in tasks]
    before = drawn_by(other_nodes, tasks)
    groups = [tasks for tasks in groups if tasks[0].key not in before]
    other_nodes = [
        candidate for candidate in other_nodes if candidate.address not in before.values()
    ]
    tasks = [task for tasks in groups for task in tasks]
    # The premise of the source: the other nodes can run none of the remaining tasks.
    assert drawn_by(other_nodes, tasks) == {}

    queue = LegacyQueue(PRICING.compute_value, (tasks[0] for tasks in groups))
    best = queue.next_for(freed, [freed, *other_nodes])
    drawn = drawn_by([freed, *other_nodes], tasks)
    if best is None:
        assert drawn == {}
        return
    (run,) = [tasks for tasks in groups if tasks[0].key == best.waiting.key]
    assert drawn.keys() == {task.key for task in run}
    assert freed.address in drawn.values()
    assert set(drawn.values()) <= {
        freed.address,
        *(candidate.address for candidate in best.partners),
    }


@given(networks, orders)
def test_group_is_drawn_entirely_or_not_at_all(models, group_orders):
    nodes, groups = build_stage(models, group_orders)
    drawn = drawn_by(nodes, [task for tasks in groups for task in tasks])
    assert len(set(drawn.values())) == len(drawn)
    node_by_address = {candidate.address: candidate for candidate in nodes}
    for tasks in groups:
        run = [node_by_address[drawn[task.key]] for task in tasks if task.key in drawn]
        assert len(run) in {0, 3}
        assert all((candidate.gpu_vram or 0) >= (tasks[0].min_vram or 0) for candidate in run)
        if tasks[0].kind == "llm":
            assert len({find_gpu_group(candidate) for candidate in run}) <= 1


@given(networks, orders, st.integers(0, 3))
def test_restart_does_not_change_draws(models, group_orders, runs):
    nodes, groups = build_stage(models, group_orders)
    tasks = [task for tasks in groups for task in tasks]
    view = FixedView(nodes, tasks)
    through = BlockDrawer(LEGACY)
    again = BlockDrawer(LEGACY)
    through.restore_plan(view, block(1), {})
    again.restore_plan(view, block(1), {})
    for number in range(2, 4 + runs):
        turn = through.draw_at_block(view, block(number))
        # A database keeps only the active draws.
        again = reload_view(again, view, number - 1)
        assert again.draw_at_block(view, block(number)) == turn


def reload_view(before: BlockDrawer, view: FixedView, number: int) -> BlockDrawer:
    fresh = BlockDrawer(LEGACY)
    fresh.restore_plan(view, block(number), before.plan.active_draws)
    return fresh
