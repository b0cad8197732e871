"""Drawn tasks are started on a real chain: by which account, in which order, and only once."""

from fractions import Fraction
from pathlib import Path

import pytest

from oracle.dispatch.assigner import bind_or_check_dispatch_settings
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.errors import InputError
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import ingest_next_window
from oracle.queries.selection.draw_check import DrawCheckAnswer, DrawVerdict, verify_draw
from oracle.store.outbox.records import DROP_TASK
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, TIMEOUT, Status
from tests.support.harness import RULES, Harness
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    build_dispatch_settings,
    fresh_stage,
    harness,
    plain_harness,
    testbed,
    to_task_key,
)
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "plain_harness", "testbed"]


def verify_task_draw(harness: DispatchHarness, task: bytes) -> DrawCheckAnswer:
    assert harness.dispatch is not None
    reader = harness.folder.reader
    return verify_draw(harness.source, harness.store, reader, harness.dispatch, to_task_key(task))


def test_drawn_node_gets_the_task_two_blocks_after_creation(harness: DispatchHarness):
    network = harness.testbed.network
    task = network.create()
    created = harness.testbed.chain.block
    harness.turn()
    assert harness.standing() == {}

    harness.block()
    (draw,) = harness.draws(task)
    assert draw.seed_block == created + 1
    harness.block()

    assert network.status(task) is Status.STARTED
    assert harness.node_of(task) == draw.node
    assert harness.testbed.chain.block == created + 2
    assert harness.start_states() == ["mined"]
    check = verify_task_draw(harness, task)
    assert (check.verdict, check.draws[-1].node) == (DrawVerdict.AGREES, draw.node)


def test_most_valuable_task_gets_the_only_available_node(harness: DispatchHarness):
    network = harness.testbed.network
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    cheap = network.create(fee=ETHER)
    dear = network.create(fee=2 * ETHER)
    harness.turn()
    network.by(network.nodes[0], network.does.resume())
    harness.turn()
    for _ in range(2):
        harness.block()

    assert network.status(dear) is Status.STARTED
    assert network.status(cheap) is Status.QUEUED
    assert harness.node_of(dear) == network.nodes[0].lower()
    assert verify_task_draw(harness, dear).verdict is DrawVerdict.AGREES
    assert verify_task_draw(harness, cheap).verdict is DrawVerdict.WAITING


def test_tasks_of_a_group_go_to_different_nodes(harness: DispatchHarness):
    network = harness.testbed.network
    group = b"g" * 32
    tasks = [network.create(group=group, group_size=3) for _ in range(3)]
    harness.turn()
    for _ in range(3):
        harness.block()

    assert len({harness.node_of(task) for task in tasks}) == 3
    assert {verify_task_draw(harness, task).verdict for task in tasks} == {DrawVerdict.AGREES}


@pytest.mark.parametrize("stage", ["drawn", "planned"])
def test_cancelling_a_group_removes_its_starts_from_the_outbox(
    harness: DispatchHarness, stage: str
):
    network = harness.testbed.network
    tasks = [network.create(group=b"g" * 32, group_size=2) for _ in range(2)]
    harness.index()
    harness.mine()
    harness.index()
    assert set(harness.standing()) == {to_task_key(task) for task in tasks}
    if stage == "planned":
        plan_dispatch(harness.dispatching, harness.source.fetch_heads())
    network.by(network.creator, network.does.cancelGroup(tasks))
    for _ in range(3):
        harness.turn()
        harness.mine()
    harness.turn()

    assert harness.standing() == {}
    assert {network.status(task) for task in tasks} == {Status.ABORTED}
    assert harness.start_states() == (["superseded"] * 2 if stage == "planned" else [])


def test_last_task_of_a_group_that_cannot_be_compared_is_dropped(harness: DispatchHarness):
    """One node timed out before there was another one: a single answer cannot be compared."""
    network = harness.testbed.network
    for node in network.nodes[1:3]:
        network.by(node, network.does.pause())
    tasks = [network.create(group=b"g" * 32, group_size=2) for _ in range(2)]
    harness.turn()
    for _ in range(2):
        harness.block()
    (started,) = [task for task in tasks if network.status(task) is Status.STARTED]
    (left,) = {*tasks} - {started}
    network.chain.later(TIMEOUT + 1)
    network.time_out(started)
    for node in network.nodes[1:3]:
        network.by(node, network.does.resume())
    for _ in range(3):
        harness.block()

    assert network.status(left) is Status.ABORTED
    assert len(harness.start_states()) == 1
    assert harness.states(DROP_TASK) == ["mined"]


def test_full_queue_drops_an_entire_group(harness: DispatchHarness):
    network = harness.testbed.network
    harness.restart(
        dispatch=build_dispatch_settings(harness.testbed.chain.block + 1, alpha=Fraction(1, 3))
    )
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    dear = network.create(fee=2 * ETHER)
    cheap = [network.create(fee=ETHER, group=b"g" * 32, group_size=2) for _ in range(2)]
    for _ in range(4):
        harness.block()

    assert network.status(dear) is Status.QUEUED
    assert {network.status(task) for task in cheap} == {Status.ABORTED}
    assert harness.states(DROP_TASK) == ["mined"]


def test_pause_of_the_drawn_node_causes_a_new_draw(harness: DispatchHarness):
    network = harness.testbed.network
    task = network.create()
    harness.index()
    harness.mine()
    harness.index()
    (first,) = harness.draws(task)
    # Drawn and planned, but not sent.
    plan_dispatch(harness.dispatching, harness.source.fetch_heads())
    by_address = {node.lower(): node for node in network.nodes}
    network.by(by_address[first.node], network.does.pause())
    for _ in range(4):
        harness.turn()
        harness.mine()
    harness.turn()

    over, second = harness.draws(task)
    assert over.voided_block is not None
    assert network.status(task) is Status.STARTED
    assert harness.node_of(task) == second.node != first.node
    assert harness.start_states() == ["superseded", "mined"]
    assert len(verify_task_draw(harness, task).draws) == 2


def test_full_queue_drops_the_cheapest_task(harness: DispatchHarness):
    network = harness.testbed.network
    harness.restart(dispatch=build_dispatch_settings(alpha=Fraction(2, 3)))
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    tasks = [network.create(fee=fee * ETHER) for fee in (3, 1, 2)]
    for _ in range(3):
        harness.turn()
        harness.mine()

    states = [network.status(task) for task in tasks]
    assert states == [Status.QUEUED, Status.ABORTED, Status.QUEUED]
    assert harness.states(DROP_TASK) == ["mined"]


def test_six_tasks_can_start_in_one_block(harness: DispatchHarness):
    network = harness.testbed.network
    for node in network.nodes[3:6]:
        network.join(node)
    tasks = [network.create() for _ in range(6)]
    harness.turn()
    harness.block()
    harness.block()

    assert {network.status(task) for task in tasks} == {Status.STARTED}
    assert len({harness.node_of(task) for task in tasks}) == 6
    assert {verify_task_draw(harness, task).verdict for task in tasks} == {DrawVerdict.AGREES}


def test_task_start_on_a_node_that_was_not_drawn_is_detected(harness: DispatchHarness):
    network = harness.testbed.network
    task = network.create()
    harness.index()
    harness.mine()
    harness.index()
    (draw,) = harness.draws(task)
    other_node = next(node for node in network.nodes[:3] if node.lower() != draw.node)
    network.by(network.admin, network.does.setDispatcher(network.dispatcher))
    network.start(task, other_node)
    harness.index()

    check = verify_task_draw(harness, task)
    assert check.verdict is DrawVerdict.DIFFERS
    assert check.started_by == other_node.lower()
    assert check.draws[-1].node == draw.node


def test_task_start_without_a_draw_is_detected(harness: DispatchHarness):
    network = harness.testbed.network
    network.by(network.admin, network.does.setDispatcher(network.dispatcher))
    task = network.create()
    # In the next block, whose hash seeds the draw.
    network.start(task, network.nodes[0])
    harness.index()

    check = verify_task_draw(harness, task)
    assert (check.verdict, check.draws) == (DrawVerdict.DIFFERS, [])


def test_task_is_drawn_again_if_a_reorg_removes_the_seed_block(
    harness: DispatchHarness,
):
    network, chain = harness.testbed.network, harness.testbed.chain
    task = network.create()
    harness.turn()
    # The seed block contains a transaction that the reorg removes, so it gets another hash.
    network.by(network.nodes[0], network.does.addModel("sdxl"))
    harness.turn()
    assert harness.start_states() == ["live"]
    (before,) = harness.draws(task)

    chain.rpc("anvil_reorg", 1, [])
    harness.turn()
    (after,) = harness.draws(task)
    assert after.seed_block == before.seed_block
    assert after.seed_hash != before.seed_hash
    harness.block()
    for _ in range(6):
        harness.block()

    assert harness.start_states() == ["reverted", "final"]
    assert network.status(task) is Status.STARTED
    assert harness.node_of(task) == after.node
    assert verify_task_draw(harness, task).verdict is DrawVerdict.AGREES


def test_task_starts_once_if_reorgs_remove_and_restore_its_draw(harness: DispatchHarness):
    network, chain = harness.testbed.network, harness.testbed.chain
    task = network.create()
    harness.index()
    time = chain.time + 10
    draws = []
    # One fork, another one, and the first again: equal times give the same block.
    for seconds in (0, 1, 0):
        fork = chain.rpc("evm_snapshot")
        chain.at(time + seconds)
        chain.mine()
        harness.index()
        plan_dispatch(harness.dispatching, harness.source.fetch_heads())
        draws += harness.draws(task)
        if len(draws) < 3:
            chain.rpc("evm_revert", fork)
    for _ in range(2):
        harness.turn()
        harness.mine()
    harness.turn()

    assert draws[0] == draws[2] != draws[1]
    assert network.status(task) is Status.STARTED
    assert sorted(harness.start_states()) == ["expired", "expired", "mined"]


def test_draws_do_not_depend_on_window_size_or_restarts(
    harness: DispatchHarness, new_sqlite_store: NewStore, tmp_path: Path
):
    network = harness.testbed.network
    tasks = []
    for fee in range(1, 5):
        tasks.append(network.create(fee=fee * ETHER))
        harness.turn()
        harness.block()
    for _ in range(3):
        harness.block()
    drawn = [harness.draws(task) for task in tasks]
    assert sum(map(len, drawn)) >= 3

    for blocks, restarts in ((1000, False), (1, False), (2, True)):
        with new_sqlite_store() as store:
            other_harness = DispatchHarness(harness.testbed, store, tmp_path)
            other_harness.ingest.max_blocks = blocks
            while (
                ingest_next_window(
                    other_harness.source, store, other_harness.folder, other_harness.ingest
                )
                is not None
            ):
                other_harness.ingest.max_blocks = blocks
                if restarts:
                    other_harness.restart()
                    other_harness.ingest.max_blocks = blocks
            assert [other_harness.draws(task) for task in tasks] == drawn
            other_harness.close()


def test_nothing_is_drawn_or_sent_before_the_start_block(harness: DispatchHarness):
    later = harness.testbed.chain.block + 3
    harness.restart(dispatch=build_dispatch_settings(later))
    task = harness.testbed.network.create()
    harness.turn()
    harness.block()
    assert harness.draws(task) == []
    while harness.testbed.chain.block < later + 1:
        harness.block()
    assert harness.draws(task)[0].seed_block == later + 1
    assert verify_task_draw(harness, task).verdict is DrawVerdict.WAITING


def test_index_folded_with_different_dispatch_settings_is_rejected(
    harness: DispatchHarness,
):
    harness.index()
    folder = harness.folder
    harness.folder = EventFolder(RULES, harness.folder.reader)
    harness.mine()
    harness.index()
    harness.folder = folder
    assert harness.dispatch is not None
    with (
        harness.store.read_transaction() as uow,
        pytest.raises(InputError, match="were folded without"),
    ):
        bind_or_check_dispatch_settings(uow, harness.dispatch)
    with (
        harness.store.read_transaction() as uow,
        pytest.raises(InputError, match="with other settings"),
    ):
        bind_or_check_dispatch_settings(uow, build_dispatch_settings(start_block=1))


@pytest.mark.parametrize(
    ("start", "way"), [(1, "rewind --to-block 0`"), (0, "start with an empty database")]
)
def test_error_for_late_dispatch_start_block_suggests_a_remedy(
    plain_harness: Harness, start: int, way: str
):
    plain_harness.index()
    with plain_harness.store.transaction() as uow, pytest.raises(InputError, match=way):
        bind_or_check_dispatch_settings(uow, build_dispatch_settings(start))


def test_nothing_is_drawn_or_sent_unless_dispatch_is_enabled(plain_harness: Harness):
    harness = plain_harness
    network = harness.testbed.network
    task = network.create()
    for _ in range(3):
        harness.tick()
        harness.mine()

    assert network.status(task) is Status.CREATED
    assert harness.intents() == []
    with harness.store.read_transaction() as uow:
        assert uow.draws.list_active() == []
