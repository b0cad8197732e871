"""Legacy groups on a real chain: drawn together,
and all three tasks started in one transaction.
"""

from fractions import Fraction
from typing import Any

import pytest

from oracle.queries.selection.draw_check import DrawVerdict, verify_all_draws, verify_draw
from oracle.store.outbox.records import DROP_TASK, START_GROUP
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, FEE, Network, Status
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    build_dispatch_settings,
    fresh_stage,
    harness,
    testbed,
    to_task_key,
)
from tests.support.txmgr.harness_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "testbed"]

pytestmark = [pytest.mark.evm, pytest.mark.slow]

GPT = 1


@pytest.fixture
def legacy(harness: DispatchHarness) -> DispatchHarness:
    """Run the daemon with groups of three."""
    assert harness.dispatch is not None
    harness.restart(
        dispatch=build_dispatch_settings(harness.dispatch.start_block + 1, policy="legacy")
    )
    return harness


def order_group(network: Network, name: bytes = b"g", **options: Any) -> list[bytes]:
    return [network.create(group=name * 32, group_size=3, **options) for _ in range(3)]


def statuses(network: Network, tasks: list[bytes]) -> set[Status]:
    return {Status(network.status(task)) for task in tasks}


def verdicts(harness: DispatchHarness, tasks: list[bytes]) -> set[DrawVerdict]:
    assert harness.dispatch is not None
    where = (harness.source, harness.store, harness.folder.reader, harness.dispatch)
    return {verify_draw(*where, to_task_key(task)).verdict for task in tasks}


def test_three_drawn_nodes_start_in_a_single_transaction(
    legacy: DispatchHarness,
):
    network = legacy.testbed.network
    tasks = order_group(network)
    created = legacy.testbed.chain.block
    legacy.turn()
    for _ in range(2):
        legacy.block()

    draws = [draw for task in tasks for draw in legacy.draws(task)]
    assert {draw.seed_block for draw in draws} == {created + 1}
    assert len({draw.node for draw in draws}) == 3
    assert statuses(network, tasks) == {Status.STARTED}
    assert [legacy.node_of(task) for task in tasks] == [draw.node for draw in draws]
    assert legacy.states(START_GROUP) == ["mined"]
    assert verdicts(legacy, tasks) == {DrawVerdict.AGREES}


def test_language_task_waits_for_three_nodes_with_the_same_gpu(legacy: DispatchHarness):
    network = legacy.testbed.network
    network.by(network.nodes[0], network.does.pause())
    network.join(network.nodes[3], gpu="NVIDIA H100", vram=80)
    tasks = order_group(network, kind=GPT)
    for _ in range(3):
        legacy.block()
    assert (legacy.standing(), statuses(network, tasks)) == ({}, {Status.QUEUED})

    network.join(network.nodes[4])
    for _ in range(3):
        legacy.block()
    assert statuses(network, tasks) == {Status.STARTED}
    alike = {node.lower() for node in (*network.nodes[1:3], network.nodes[4])}
    assert {legacy.node_of(task) for task in tasks} == alike
    assert verdicts(legacy, tasks) == {DrawVerdict.AGREES}


def test_pause_of_a_drawn_node_redraws_the_entire_group(legacy: DispatchHarness):
    network = legacy.testbed.network
    network.join(network.nodes[3])
    tasks = order_group(network)
    legacy.index()
    legacy.mine()
    legacy.index()
    first = [legacy.draws(task)[0] for task in tasks]
    leaver = next(node for node in network.nodes if node.lower() == first[0].node)
    network.by(leaver, network.does.pause())
    for _ in range(3):
        legacy.block()

    assert {legacy.draws(task)[0].voided_block for task in tasks} != {None}
    assert statuses(network, tasks) == {Status.STARTED}
    assert leaver.lower() not in {legacy.node_of(task) for task in tasks}
    assert verdicts(legacy, tasks) == {DrawVerdict.AGREES}


def test_full_queue_drops_the_entire_cheapest_group(legacy: DispatchHarness):
    network = legacy.testbed.network
    assert legacy.dispatch is not None
    start = legacy.testbed.chain.block + 1
    legacy.restart(dispatch=build_dispatch_settings(start, policy="legacy", alpha=Fraction(1, 3)))
    network.by(network.nodes[0], network.does.pause())
    dear = order_group(network, b"d", fee=2 * ETHER)
    cheap = order_group(network, b"c", fee=ETHER)
    for _ in range(4):
        legacy.block()

    assert statuses(network, dear) == {Status.QUEUED}
    assert statuses(network, cheap) == {Status.ABORTED}
    assert legacy.states(DROP_TASK) == ["mined"]


def test_tasks_that_are_not_in_a_group_of_three_are_refunded(legacy: DispatchHarness):
    network = legacy.testbed.network
    alone = network.create()
    incomplete = [network.create(group=b"i" * 32, group_size=3) for _ in range(2)]
    pair = [network.create(group=b"p" * 32, group_size=2) for _ in range(2)]
    before = network.owed(network.creator)
    for _ in range(3):
        legacy.block()

    assert network.status(alone) is Status.ABORTED
    assert statuses(network, pair) == {Status.ABORTED}
    assert network.owed(network.creator) == before + 3 * FEE
    assert statuses(network, incomplete) == {Status.CREATED}
    assert legacy.standing() == {}


def test_nodes_that_become_available_get_the_most_valuable_group(legacy: DispatchHarness):
    network = legacy.testbed.network
    network.by(network.nodes[0], network.does.pause())
    groups = [order_group(network, bytes([1 + n]), fee=(1 + n) * ETHER) for n in range(3)]
    for _ in range(2):
        legacy.block()
    network.by(network.nodes[0], network.does.resume())
    for _ in range(3):
        legacy.block()
    assert statuses(network, groups[2]) == {Status.STARTED}

    for node in network.nodes[3:6]:
        network.join(node)
    for _ in range(3):
        legacy.block()
    assert statuses(network, groups[1]) == {Status.STARTED}
    assert statuses(network, groups[0]) == {Status.QUEUED}
    assert legacy.dispatch is not None
    all_draws = verify_all_draws(
        legacy.source, legacy.store, legacy.folder.reader, legacy.dispatch
    )
    assert (all_draws.started, all_draws.verdict) == (6, DrawVerdict.AGREES)


def test_nodes_get_the_next_group_before_the_previous_is_validated(
    legacy: DispatchHarness,
):
    network = legacy.testbed.network
    first = order_group(network, b"f")
    second = order_group(network, b"s")
    for _ in range(3):
        legacy.block()
    assert statuses(network, second) == {Status.QUEUED}
    by_address = {node.lower(): node for node in network.nodes}
    for task in first:
        network.commit(task, by_address[legacy.node_of(task)])
    for _ in range(3):
        legacy.block()

    assert statuses(network, first) == {Status.COMMITTED}
    assert statuses(network, second) == {Status.STARTED}
    assert verdicts(legacy, [*first, *second]) == {DrawVerdict.AGREES}


def test_incomplete_group_reserves_no_nodes(legacy: DispatchHarness):
    network = legacy.testbed.network
    for _ in range(3):
        network.create(group=b"5" * 32, group_size=5)
    tasks = order_group(network)
    for _ in range(3):
        legacy.block()
    assert statuses(network, tasks) == {Status.STARTED}
