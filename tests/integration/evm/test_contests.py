"""Contests on a real chain: a wrong first answer scores 0, and a second group takes its stake.

If there are too few nodes for a second group, held stakes are released at the end of the window.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3

from oracle.dispatch.results_folder import ResultsFolder
from oracle.dispatch.second_groups import MAX_DRAW_AGE_BLOCKS
from oracle.domain.ids import Address
from oracle.store.database import Store
from oracle.store.outbox.records import END_SECOND_GROUP, SECOND_GROUP, SETTLE_CONTEST
from tests.integration.evm.test_dispatching_crashes import nonce, play, run_with_fuse
from tests.support.evm.chain import Chain
from tests.support.evm.contests import WINDOW, order_second_group
from tests.support.evm.fixtures import chain
from tests.support.evm.network import (
    ETHER,
    MIN_STAKE,
    TIMEOUT,
    TOLL,
    Standing,
    Status,
    compute_answer,
    encode_word,
)
from tests.support.harness import FINALITY, OracleTestbed
from tests.support.sending.fuses import Crash, Fuse
from tests.support.txmgr.dispatch_harness import DispatchHarness, fresh_stage, testbed
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "testbed"]

GROUP = encode_word(77)
RIGHT = 7
GARBAGE = 8


@pytest.fixture
def harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[DispatchHarness]:
    with Store.open(sqlite_url) as opened:
        harness = DispatchHarness(testbed, opened, tmp_path / "evidence")
        yield harness
        harness.close()


@pytest.fixture
def each_harness(
    testbed: OracleTestbed, store: Store, tmp_path: Path
) -> Iterator[DispatchHarness]:
    """Yield a daemon on either engine."""
    harness = DispatchHarness(testbed, store, tmp_path / "evidence")
    yield harness
    harness.close()


def start_drawn_group(harness: DispatchHarness, *results: int) -> tuple[list[bytes], str]:
    """Draw and start a group of three with the daemon; the first node answers first."""
    network = harness.testbed.network
    creator = network.creator
    task_options: dict[str, Any] = {"creator": creator, "group": GROUP, "group_size": 3}
    tasks = [network.create(fee=ETHER, **task_options) for _ in range(3)]
    for _ in range(4):
        harness.block()
    key = network.key(creator, GROUP)
    nodes = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    for task, node, result in zip(tasks, nodes, results, strict=True):
        network.commit(task, node, compute_answer(key, result))
        harness.mine()
    for task in tasks:
        network.reveal(task)
    network.by(creator, network.does.validateGroup(GROUP, tasks))
    harness.mine(FINALITY + 1)
    harness.turn()
    return tasks, nodes[0]


def test_contest_over_a_garbage_result_is_settled_after_restart(
    harness: DispatchHarness,
):
    harness.index()
    with harness.store.read_transaction() as uow:
        before = {node.address: node.pool for node in uow.nodes.iterate_all()}
    tasks, garbage = start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    assert network.status(tasks[0]) is Status.INVALIDATED
    with harness.store.read_transaction() as uow:
        added = {
            node.address: node.pool[len(before[node.address]) :]
            for node in uow.nodes.iterate_all()
        }
    assert added[Address(garbage.lower())] == b"\0"
    assert sorted(pool for pool in added.values() if pool) == [b"\0", b"\5", b"\n"]

    # The call waits in the outbox until the end of the window: planned once, despite
    # restarts.
    assert harness.states(SETTLE_CONTEST) == ["planned"]
    harness.restart()
    harness.block()
    assert harness.states(SETTLE_CONTEST) == ["planned"]
    cleared = network.contract.events.NodeCleared()
    assert cleared.get_logs(from_block=0) == []

    harness.testbed.chain.later(WINDOW + 60)
    harness.testbed.chain.mine()
    for _ in range(FINALITY + 4):
        harness.block()
    (log,) = cleared.get_logs(from_block=0)
    assert (log["args"]["node"], log["args"]["task"]) == (garbage, tasks[0])
    assert harness.states(SETTLE_CONTEST) == ["final"]
    with harness.store.read_transaction() as uow:
        (node,) = uow.nodes.get_many([Address(garbage.lower())]).values()
    # The contest returns the stake, but not the score.
    assert node.pool[-1:] == b"\0"


def crowd(harness: DispatchHarness) -> None:
    """Add three nodes to those of the first group, and ether for the dispatcher."""
    network = harness.testbed.network
    for node in network.nodes[3:6]:
        network.join(node)
    dispatcher = Web3.to_checksum_address(harness.starts.account.address)
    network.by(network.admin, network.does.fund(dispatcher), value=ETHER)


def second_tasks(harness: DispatchHarness) -> list[bytes]:
    """Return the tasks that the dispatcher has created, from the chain's events."""
    task_created = harness.testbed.network.contract.events.TaskCreated()
    filters = {"creator": Web3.to_checksum_address(harness.starts.account.address)}
    return [
        log["args"]["task"]
        for log in task_created.get_logs(from_block=0, argument_filters=filters)
    ]


def answer_second(harness: DispatchHarness, *results: int) -> None:
    """Let the second group's nodes answer, and the daemon compare them."""
    network = harness.testbed.network
    tasks = second_tasks(harness)
    group = network.read_task(tasks[0])["group"]
    for task, result in zip(tasks, results, strict=True):
        node = Web3.to_checksum_address(harness.node_of(task))
        network.commit(task, node, compute_answer(group, result))
    for task in tasks:
        network.reveal(task)
    for _ in range(3):
        harness.block()


def list_standings(harness: DispatchHarness, nodes: Sequence[str]) -> list[Standing]:
    return [harness.testbed.network.standing(node) for node in nodes]


def test_second_group_causes_the_node_with_a_garbage_result_to_be_slashed(
    each_harness: DispatchHarness,
):
    harness = each_harness
    harness.index()
    tasks, garbage = start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    harness.block()
    harness.restart()
    for _ in range(3):
        harness.block()
    second = second_tasks(harness)
    nodes = {harness.node_of(task) for task in second}
    assert nodes == {node.lower() for node in network.nodes[3:6]}
    assert harness.states(SECOND_GROUP) == ["mined"]

    harness.restart()
    answer_second(harness, RIGHT, RIGHT, RIGHT)
    assert {network.status(task) for task in second} == {Status.SUCCEEDED, Status.REFUNDED}
    assert len(harness.states(END_SECOND_GROUP)) == 1

    # Any account that knows the result can settle: here an honest node of the first group.
    key = network.key(network.creator, GROUP)
    call = network.does.settleContest(key, tasks, encode_word(RIGHT))
    network.by(first[1], call)
    assert list_standings(harness, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert {network.node(node)["open"] for node in first[1:]} == {0}
    assert garbage == first[0]
    # The call for the window's end expires with the contest, and so does its alert.
    for _ in range(FINALITY + 2):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded"]
    assert len(second_tasks(harness)) == 3
    assert harness.states(SECOND_GROUP) == ["final"]


@pytest.fixture
def results(harness: DispatchHarness, tmp_path: Path) -> Path:
    """Return the folder in which the operator keeps the hashes of results."""
    folder = tmp_path / "results"
    folder.mkdir()
    harness.results = ResultsFolder.open_folder(folder)
    harness.restart()
    return folder


def deliver_result(folder: Path, task: bytes, number: int) -> None:
    (folder / f"0x{task.hex()}").write_text(f"0x{encode_word(number).hex()}\n")


def settlement_results(harness: DispatchHarness) -> list[int]:
    """Return the result of each settlement on the chain."""
    contract = harness.testbed.network.contract
    calls = [
        contract.decode_function_input(call.request.calldata)[1]
        for call in harness.intents(SETTLE_CONTEST)
        if call.state.value in {"mined", "final"}
    ]
    return [int.from_bytes(call["result"]) for call in calls]


def test_contest_is_settled_with_a_delivered_result_within_its_window(
    harness: DispatchHarness, results: Path
):
    harness.index()
    tasks, garbage = start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    for _ in range(3):
        harness.block()
    # The liar's storage delivers its own answer, and those of the honest nodes nothing.
    deliver_result(results, tasks[0], GARBAGE)
    answer_second(harness, RIGHT, RIGHT, RIGHT)
    for _ in range(FINALITY + 2):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["planned"]

    (results / f"0x{second_tasks(harness)[1].hex()}").write_text("0x12")
    deliver_result(results, second_tasks(harness)[2], RIGHT)
    credited_before = network.owed(network.treasury)
    harness.block()
    # One commit ends the call for the window's end and plans the one with the result.
    assert harness.states(SETTLE_CONTEST) == ["superseded", "live"]
    harness.restart()
    for _ in range(FINALITY + 3):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded", "final"]
    assert settlement_results(harness) == [RIGHT]
    assert garbage == first[0]
    assert list_standings(harness, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert network.node(garbage)["stake"] == 0
    assert {network.node(node)["open"] for node in first[1:]} == {0}
    # The minimum fee pays the second group; the treasury gets the rest of the stake.
    credited = network.owed(network.treasury) - credited_before
    assert credited == MIN_STAKE - TOLL
    # Nothing is sent again, not even after the window.
    harness.testbed.chain.later(WINDOW + 60)
    harness.restart()
    for _ in range(3):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded", "final"]


def test_error_verdict_of_the_second_group_settles_the_contest(
    harness: DispatchHarness,
):
    """The answer "cannot be run" is the same in every group, so the chain contains its result."""
    tasks, garbage = start_drawn_group(harness, GARBAGE, 0, 0)
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    for _ in range(3):
        harness.block()
    answer_second(harness, 0, 0, 0)
    for _ in range(2 * FINALITY + 5):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded", "final"]
    assert garbage == first[0]
    assert list_standings(harness, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]


def test_second_group_without_majority_releases_stakes_immediately(harness: DispatchHarness):
    tasks, _ = start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    for _ in range(3):
        harness.block()
    answer_second(harness, 21, 22, 23)
    for _ in range(2 * FINALITY + 5):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded", "final"]
    assert list_standings(harness, first) == [Standing.ACTIVE] * 3
    assert {network.node(node)["open"] for node in first} == {0}


def test_contests_of_both_groups_are_settled_with_the_same_result(
    harness: DispatchHarness, results: Path
):
    tasks, _ = start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    for _ in range(4):
        harness.block()
    deliver_result(results, second_tasks(harness)[0], RIGHT)
    deliver_result(results, second_tasks(harness)[1], GARBAGE)
    answer_second(harness, RIGHT, GARBAGE, RIGHT)
    for _ in range(2 * FINALITY + 6):
        harness.block()
    judges = [Web3.to_checksum_address(harness.node_of(task)) for task in second_tasks(harness)]
    assert list_standings(harness, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert list_standings(harness, judges) == [Standing.ACTIVE, Standing.SLASHED, Standing.ACTIVE]
    assert sorted(harness.states(SETTLE_CONTEST)) == ["final"] * 2 + ["superseded"] * 2
    assert settlement_results(harness) == [RIGHT, RIGHT]


def test_second_group_removed_by_a_reorg_is_recreated_once(harness: DispatchHarness):
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    crowd(harness)
    for _ in range(3):
        harness.block()
    assert harness.states(SECOND_GROUP) == ["mined"]
    harness.testbed.chain.rpc("anvil_reorg", 2, [])
    for _ in range(FINALITY + 4):
        harness.block()
    assert harness.states(SECOND_GROUP).count("final") == 1
    tasks = second_tasks(harness)
    assert len(tasks) == 3
    assert {harness.testbed.network.status(task) for task in tasks} == {Status.STARTED}


def test_lying_majority_loses_its_stakes(harness: DispatchHarness):
    harness.index()
    tasks, _ = start_drawn_group(harness, GARBAGE, GARBAGE, RIGHT)
    network = harness.testbed.network
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    for _ in range(4):
        harness.block()
    answer_second(harness, RIGHT, RIGHT, RIGHT)
    key = network.key(network.creator, GROUP)
    network.by(first[2], network.does.settleContest(key, tasks, encode_word(RIGHT)))
    assert list_standings(harness, first) == [Standing.SLASHED, Standing.SLASHED, Standing.ACTIVE]


def test_contested_second_group_is_not_followed_by_a_third(harness: DispatchHarness):
    tasks, _ = start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    first = [Web3.to_checksum_address(harness.node_of(task)) for task in tasks]
    crowd(harness)
    for _ in range(4):
        harness.block()
    answer_second(harness, RIGHT, GARBAGE, RIGHT)
    for _ in range(FINALITY + 3):
        harness.block()
    # Both contests wait for the window's end; the contract rejects a third group, in a
    # simulation.
    assert harness.states(SETTLE_CONTEST) == ["planned", "planned"]
    assert harness.states(SECOND_GROUP) == ["final", "superseded"]
    assert len(second_tasks(harness)) == 3

    # The two groups agree: the minority of each is slashed.
    second = second_tasks(harness)
    judges = [Web3.to_checksum_address(harness.node_of(task)) for task in second]
    groups = (
        (network.key(network.creator, GROUP), tasks),
        (network.read_task(second[0])["group"], second),
    )
    for key, members in groups:
        network.by(network.admin, network.does.settleContest(key, members, encode_word(RIGHT)))
    assert list_standings(harness, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert list_standings(harness, judges) == [Standing.ACTIVE, Standing.SLASHED, Standing.ACTIVE]
    for _ in range(FINALITY + 2):
        harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded", "superseded"]


def test_second_group_with_a_timed_out_node_is_compared(
    harness: DispatchHarness,
):
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    crowd(harness)
    for _ in range(4):
        harness.block()
    network = harness.testbed.network
    tasks = second_tasks(harness)
    group = network.read_task(tasks[0])["group"]
    for task in tasks[:2]:
        node = Web3.to_checksum_address(harness.node_of(task))
        network.commit(task, node, compute_answer(group, RIGHT))
    harness.testbed.chain.later(TIMEOUT + 1)
    harness.testbed.chain.mine()
    for _ in range(4):
        harness.block()
    for task in tasks[:2]:
        network.reveal(task)
    for _ in range(3):
        harness.block()
    assert network.status(tasks[2]) is Status.TIMED_OUT
    assert {network.status(task) for task in tasks[:2]} == {Status.SUCCEEDED, Status.REFUNDED}


def test_second_group_waits_for_enough_idle_nodes(harness: DispatchHarness):
    """The nodes of the first group are idle again, but must not judge themselves."""
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    crowd(harness)
    network = harness.testbed.network
    network.by(network.nodes[5], network.does.pause())
    for _ in range(4):
        harness.block()
    assert harness.states(SECOND_GROUP) == []
    assert harness.states(SETTLE_CONTEST) == ["planned"]

    network.by(network.nodes[5], network.does.resume())
    for _ in range(3):
        harness.block()
    assert len(second_tasks(harness)) == 3


def test_second_group_without_funds_is_deferred_with_a_reason(harness: DispatchHarness):
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    for node in network.nodes[3:6]:
        network.join(node)
    for _ in range(3):
        harness.block()
    (call,) = harness.intents(SECOND_GROUP)
    assert (call.state.value, call.error_class) == ("planned", "PurseTooSmall")
    for _ in range(MAX_DRAW_AGE_BLOCKS + 2):
        harness.block()
    assert harness.states(SECOND_GROUP) == ["superseded", "planned"]
    assert second_tasks(harness) == []


def test_manually_ordered_second_group_supersedes_the_planned_call(harness: DispatchHarness):
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    network = harness.testbed.network
    for node in network.nodes[3:6]:
        network.join(node)
    for _ in range(2):
        harness.block()
    own_dispatcher = network.dispatcher
    network.by(network.admin, network.does.setDispatcher(own_dispatcher))
    key = network.key(network.creator, GROUP)
    order_second_group(network, key, encode_word(2), network.nodes[3:6], models=["sdxl"])
    for _ in range(MAX_DRAW_AGE_BLOCKS + 4):
        harness.block()
    assert harness.states(SECOND_GROUP) == ["superseded"]


def test_contest_settled_by_another_sender_supersedes_own_call(harness: DispatchHarness):
    tasks, _ = start_drawn_group(harness, RIGHT, RIGHT, GARBAGE)
    network = harness.testbed.network
    harness.testbed.chain.later(WINDOW + 60)
    harness.testbed.chain.mine()
    key = network.key(network.creator, GROUP)
    network.by(network.admin, network.does.settleContest(key, tasks, encode_word(0)))
    harness.block()
    assert harness.states(SETTLE_CONTEST) == ["superseded"]


def test_unanimous_group_is_not_contested(harness: DispatchHarness):
    start_drawn_group(harness, RIGHT, RIGHT, RIGHT)
    assert harness.states(SETTLE_CONTEST) == []


def test_lost_scan_bookmark_does_not_plan_a_second_settlement_call(harness: DispatchHarness):
    """The scan begins again, as after a lost bookmark; the outbox contains the group."""
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    with harness.store.transaction() as uow:
        uow.bookmarks.delete("contests_scanned")
    harness.turn()
    assert harness.states(SETTLE_CONTEST) == ["planned"]


def prepare_contest(testbed: OracleTestbed, store: Store, evidence: Path) -> DispatchHarness:
    """Prepare a contest for which there were too few nodes for a second group until now."""
    harness = DispatchHarness(testbed, store, evidence)
    start_drawn_group(harness, GARBAGE, RIGHT, RIGHT)
    crowd(harness)
    harness.index()
    return harness


@pytest.mark.nightly
@pytest.mark.slow
def test_second_group_is_completed_once_after_any_crash(
    testbed: OracleTestbed, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        harness = prepare_contest(testbed, store, tmp_path)
        fuse = Fuse()
        before = nonce(testbed)
        with run_with_fuse(harness, fuse):
            play(harness)
        harness.close()
    assert fuse.passed.count("after a send") == 1

    for number, name in enumerate(fuse.passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            harness = prepare_contest(testbed, store, tmp_path)
            with pytest.raises(Crash), run_with_fuse(harness, Fuse(number)):
                play(harness)
            harness.restart()
            play(harness)

            where = f"{name} {number}"
            assert nonce(testbed) == before + 1, where
            assert harness.states(SECOND_GROUP) == ["final"], where
            tasks = second_tasks(harness)
            states = {testbed.network.status(task) for task in tasks}
            assert (len(tasks), states) == (3, {Status.STARTED}), where
            harness.close()
