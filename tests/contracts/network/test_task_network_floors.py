"""Minimum fees and timeouts of tasks, and the attacks that they make too expensive."""

from typing import Any

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import GROUP, create_member_tasks
from tests.support.evm.network import (
    ETHER,
    FEE,
    FLOOR,
    GWEI,
    TIMEOUT,
    TOLL,
    Network,
    Status,
    encode_word,
)

pytestmark = pytest.mark.evm

DAY = 86_400


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def floor(network: Network, *floor_fields: int, kind: int = 0) -> dict[str, Any]:
    call = network.does.setFloor(kind, floor_fields)
    return network.by(network.admin, call).only("FloorSet")


# --- floors ---


def test_every_task_kind_starts_with_the_floor_set_at_deployment(network: Network):
    assert [network.does.floorOf(kind).call() for kind in range(3)] == [FLOOR] * 3
    assert network.does.leastFee(0, 1).call() == TOLL


@pytest.mark.parametrize("wrong", [(0, 0, 60, 1), (1, 1, 0, 1)])
def test_zero_fee_floor_or_zero_timeout_floor_is_rejected(
    network: Network, wrong: tuple[int, ...]
):
    with pytest.raises(RevertedError, match="BadFloor"):
        floor(network, *wrong)


def test_floor_for_an_unknown_task_kind_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="BadKind"):
        floor(network, *FLOOR, kind=3)


def test_fee_below_floor_is_rejected(network: Network):
    floor(network, 5, 7, 60, 0, kind=1)
    min_fee = (5 + 7 * 40) * GWEI
    with pytest.raises(RevertedError, match="FeeTooLow") as refused:
        network.create(kind=1, size=40, fee=min_fee - 1)
    assert refused.value.values == (min_fee - 1, min_fee)
    network.create(kind=1, size=40, fee=min_fee)


def test_timeout_below_floor_is_rejected(network: Network):
    floor(network, *FLOOR[:2], 100, 3, kind=2)
    with pytest.raises(RevertedError, match="BadTimeout") as refused:
        network.create(kind=2, size=20, timeout=159)
    assert refused.value.values == (159, 160)
    network.create(kind=2, size=20, timeout=160)


def test_task_whose_timeout_floor_exceeds_24_hours_is_rejected(network: Network):
    floor(network, *FLOOR[:2], 60, 2)
    with pytest.raises(RevertedError, match="BadTimeout"):
        network.create(size=DAY, timeout=DAY, fee=1000 * ETHER)


def test_min_fee_does_not_overflow_at_maximum_size_and_floor(network: Network):
    max_uint96 = 2**96 - 1
    floor(network, max_uint96, max_uint96, 60, 0)
    assert network.does.leastFee(0, 2**32 - 1).call() == max_uint96 * 2**32 * GWEI


def test_new_floor_applies_only_to_later_tasks(network: Network):
    task = network.create_started_task(network.nodes[0], fee=FEE)
    floor(network, 2_000_000_000, 0, 1000, 0)
    network.chain.later(TIMEOUT + 1)
    network.time_out(task)

    assert network.owed(network.treasury) == TOLL


# --- tolls ---


def test_timeout_toll_goes_to_the_treasury(network: Network):
    tasks = create_member_tasks(network)
    for task, node in zip(tasks, network.nodes, strict=False):
        network.start(task, node)
    network.chain.later(TIMEOUT + 1)
    for task in tasks:
        network.time_out(task)

    assert network.owed(network.treasury) == 3 * TOLL
    assert network.owed(network.creator) == 6 * ETHER - 3 * TOLL
    assert [network.owed(node) for node in network.nodes] == [0] * len(network.nodes)


@pytest.mark.parametrize(("waited", "toll"), [(0, TOLL), (DAY, TOLL), (DAY + 1, 0)])
def test_cancelling_a_task_costs_a_toll_only_in_the_first_24_hours(
    network: Network, waited: int, toll: int
):
    """Cancelling a task to get another draw costs a toll each time; waiting a day costs none."""
    task = network.create()
    network.chain.at(network.chain.time + waited or network.chain.time + 1)
    network.by(network.creator, network.does.cancelTask(task))

    assert network.owed(network.creator) == FEE - toll
    assert network.owed(network.treasury) == toll


# --- attacks ---


def test_every_forced_timeout_costs_the_attacker_a_toll(network: Network):
    """Cheap groups with impossible timeouts: both are prevented."""
    cheap: dict[str, Any] = {"group": GROUP, "group_size": 3}
    with pytest.raises(RevertedError, match="FeeTooLow"):
        network.create(fee=0, **cheap)
    with pytest.raises(RevertedError, match="BadTimeout"):
        network.create(timeout=1, fee=TOLL, **cheap)

    victim = network.nodes[0]
    (ann, bob) = network.nodes[1:3]
    zeros = 3
    for number in range(zeros):
        tasks = create_member_tasks(network, group=encode_word(100 + number), timeout=60)
        for task, node in zip(tasks, (victim, ann, bob), strict=True):
            network.start(task, node)
        network.chain.later(61)
        network.time_out(tasks[0])
        for task in tasks[1:]:
            network.time_out(task)

    assert network.owed(network.treasury) >= zeros * TOLL


def test_incomplete_group_cannot_start(network: Network):
    task = network.create(group=GROUP, group_size=16)
    with pytest.raises(RevertedError, match=r"GroupIncomplete\(1, 16\)"):
        network.start(task, network.nodes[0])
    for _ in range(14):
        network.create(group=GROUP, group_size=16)
    with pytest.raises(RevertedError, match=r"GroupIncomplete\(15, 16\)"):
        network.start(task, network.nodes[0])
    network.create(group=GROUP, group_size=16)
    network.start(task, network.nodes[0])


def test_node_that_committed_can_start_a_task_before_its_group_closes(network: Network):
    tasks = create_member_tasks(network)
    network.start(tasks[0], network.nodes[0])
    network.commit(tasks[0], network.nodes[0], encode_word(1))

    assert network.status(network.create_started_task(network.nodes[0])) is Status.STARTED
