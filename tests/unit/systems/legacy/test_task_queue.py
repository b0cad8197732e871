"""Tasks that wait for three nodes, and the tasks that a freed node makes possible.

See docs/reference/sources.md#crynux-dispatching-of-2024, Task Queue.
"""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.systems.legacy.legacy_eligibility import GpuGroup
from oracle.systems.task_queue import QueueGroup
from tests.support.document.legacy_queue import (
    LegacyQueue,
    format_group,
    list_combinations,
)
from tests.support.examples import examples
from tests.support.histories import make_node_address, make_task_key
from tests.unit.systems.legacy.networks import gpus, member, waiting_task


def fee_of(waiting):
    return Fraction(waiting.fee or 0)


def queue_of(*tasks):
    return LegacyQueue(fee_of, tasks)


def costs(fee, vram, *, gpt=False, block=1, **values):
    priced_task = waiting_task(
        f"{fee}/{vram}/{gpt}/{block}", gpt=gpt, fee=fee, min_vram=vram, **values
    )
    priced_task.created_at = Position(block, 0, 0)
    return priced_task


def take_best_offer(queue, freed, other_nodes):
    offer = queue.next_for(freed, [freed, *other_nodes])
    return None if offer is None else (format_group(offer.group), int(offer.waiting.value))


def test_freed_node_forms_a_trio_with_nodes_of_the_same_gpu():
    nodes = gpus({("RTX 4080", 16): 3, ("RTX 4090", 24): 2})
    same, largest = list_combinations(nodes[0], nodes)
    assert (same.gpu, same.vram) == (GpuGroup(16, "RTX 4080"), 16)
    assert [partner.address for partner in same.partners] == [
        make_node_address("1"),
        make_node_address("2"),
    ]
    # The limit is the freed node's own memory, because the others have as much.
    assert (largest.gpu, largest.vram, len(largest.partners)) == (None, 16, 4)


def test_trio_by_largest_memory_excludes_smaller_gpus():
    nodes = gpus({("RTX 4090", 24): 1, ("A", 8): 1, ("B", 12): 1, ("C", 16): 1})
    (combination,) = list_combinations(nodes[0], nodes)
    assert (combination.vram, [partner.gpu_name for partner in combination.partners]) == (
        12,
        ["B", "C"],
    )


def test_two_free_nodes_do_not_form_a_trio():
    nodes = gpus({("RTX 4090", 24): 2})
    assert list_combinations(nodes[0], nodes) == []
    assert queue_of(costs(9, 0)).next_for(nodes[0], nodes) is None


def test_nodes_with_unknown_gpus_do_not_form_same_gpu_trio():
    nodes = [member(name) for name in "ABC"]
    (combination,) = list_combinations(nodes[0], nodes)
    assert (combination.gpu, combination.vram) == (None, 0)
    assert take_best_offer(queue_of(costs(5, 0), costs(9, 0, gpt=True)), nodes[0], nodes) == (
        "SD/0GB",
        5,
    )


def test_freed_node_without_two_matching_gpus_takes_no_gpt_task():
    nodes = gpus({("RTX 4090", 24): 2, ("RTX 3090", 24): 2})
    queue = queue_of(costs(90, 8, gpt=True), costs(10, 24), costs(5, 8))
    assert take_best_offer(queue, nodes[0], nodes) == ("SD/24GB", 10)


def test_oldest_of_most_valuable_tasks_is_taken():
    nodes = gpus({("RTX 4090", 24): 3})
    queue = queue_of(costs(40, 16, block=2), costs(40, 24, gpt=True, block=1), costs(30, 8))
    assert take_best_offer(queue, nodes[0], nodes) == ("GPT/24GB", 40)
    queue.discard(make_task_key("40/24/True/1"))
    assert take_best_offer(queue, nodes[0], nodes) == ("SD/16GB", 40)


def test_first_task_of_a_queue_is_skipped_if_it_fits_no_trio():
    nodes = gpus({("RTX 4090", 24): 3})
    for candidate in nodes:
        candidate.version = (1, 2, 0)
    queue = queue_of(costs(40, 16, version=(2, 0, 0)), costs(30, 16, version=(1, 1, 0)))
    assert take_best_offer(queue, nodes[0], nodes) == ("SD/16GB", 30)
    nodes[1].version = (1, 0, 0)
    assert take_best_offer(queue, nodes[0], nodes) is None


def test_partners_are_drawn_among_nodes_that_can_run_the_task():
    nodes = gpus({("RTX 4090", 24): 4})
    nodes[1].version = (1, 0, 0)
    for candidate in (nodes[0], *nodes[2:]):
        candidate.version = (2, 0, 0)
    offer = queue_of(costs(1, 8, version=(2, 0, 0))).next_for(nodes[0], nodes)
    trio = offer.trio(lambda _: UNIT, bytes(32))
    assert trio[0] == make_node_address("0")
    assert set(trio[1:]) == {make_node_address("2"), make_node_address("3")}


def test_task_added_twice_is_queued_once():
    queue = queue_of(costs(1, 8), costs(1, 8))
    assert len(queue) == 1
    queue.discard(make_task_key("1/8/False/1"))
    queue.discard(make_task_key("1/8/False/1"))
    assert (len(queue), queue.groups()) == (0, {})


@pytest.mark.parametrize(
    ("waits", "dropped"),
    [
        ([(5, 1), (3, 2), (4, 3)], [3]),
        # Including the new task; of equal tasks the newest.
        ([(5, 1), (3, 2), (2, 3)], [2]),
        ([(5, 1), (5, 2), (5, 3)], [5]),
    ],
)
def test_overlong_queue_drops_least_valuable_task(waits, dropped):
    queue = queue_of(*(costs(fee, 8 * block, block=block) for fee, block in waits))
    assert [int(entry.value) for entry in queue.overflow(2)] == dropped
    assert (
        queue.overflow(2)[0].created.block
        == min(waits, key=lambda fee_and_block: (fee_and_block[0], -fee_and_block[1]))[1]
    )
    assert len(queue.overflow(0)) == 3


VRAMS = st.sampled_from([8, 16, 24, 40])
WAITING = st.tuples(st.integers(0, 9), VRAMS, st.booleans(), st.integers(1, 9))
FREE = st.lists(st.tuples(st.sampled_from("AB"), VRAMS), min_size=1, max_size=7)


@examples(60)
@given(st.sets(WAITING, max_size=8), FREE)
def test_offer_matches_enumeration_of_all_trios(waits, free):
    """Compare with an enumeration of all trios.

    See docs/reference/sources.md#crynux-dispatching-of-2024.
    """
    nodes = [member(f"{n}", gpu_name=model, gpu_vram=vram) for n, (model, vram) in enumerate(free)]
    tasks = [costs(fee, vram, gpt=gpt, block=block) for fee, vram, gpt, block in waits]
    offer = queue_of(*tasks).next_for(nodes[0], nodes)
    best = min(
        (
            (-queued_task.fee, queued_task.created_at, queued_task.key)
            for queued_task in tasks
            if any(
                can_run(queued_task, (nodes[0], second_node, third_node))
                for n, second_node in enumerate(nodes[1:], start=1)
                for third_node in nodes[n + 1 :]
            )
        ),
        default=None,
    )
    assert (None if offer is None else offer.waiting[:3]) == best


def can_run(queued_task, trio):
    alike = len({(candidate.gpu_name, candidate.gpu_vram) for candidate in trio}) == 1
    large = all(candidate.gpu_vram >= queued_task.min_vram for candidate in trio)
    return large and (alike or queued_task.kind.value != "llm")


def test_groups_list_their_tasks_by_value():
    queue = queue_of(costs(1, 8), costs(2, 8), costs(3, 24, gpt=True), costs(4, 16))
    values_by_group = {
        group: [int(entry.value) for entry in waits] for group, waits in queue.groups().items()
    }
    assert values_by_group == {
        QueueGroup(8, None, "sd"): [2, 1],
        QueueGroup(16, None, "sd"): [4],
        QueueGroup(24, None, "gpt"): [3],
    }
    assert [int(entry.value) for entry in queue.in_order()] == [4, 3, 2, 1]
