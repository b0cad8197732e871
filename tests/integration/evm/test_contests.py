"""Contests on a real chain: a wrong first answer scores 0, and a second group takes its stake.

If there are too few nodes for a second group, held stakes are released at the end of the window.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3

from oracle.dispatch.contest_settlement import SETTLE_CONTEST
from oracle.dispatch.results_folder import ResultsFolder
from oracle.dispatch.second_groups import END_SECOND_GROUP, MAX_DRAW_AGE_BLOCKS, SECOND_GROUP
from oracle.domain.ids import Address
from oracle.store.database import Store
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
from tests.support.office import FINALITY, Premises
from tests.support.sending.fuses import Crash, Fuse
from tests.support.txmgr.dispatch_office import DispatchOffice, fresh_stage, premises
from tests.support.txmgr.office_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "premises"]

GROUP, RIGHT, GARBAGE = encode_word(77), 7, 8


@pytest.fixture
def office(premises: Premises, sqlite_url: str, tmp_path: Path) -> Iterator[DispatchOffice]:
    with Store.open(sqlite_url) as opened:
        office = DispatchOffice(premises, opened, tmp_path / "evidence")
        yield office
        office.close()


@pytest.fixture
def each_office(premises: Premises, store: Store, tmp_path: Path) -> Iterator[DispatchOffice]:
    """Yield a daemon on either engine."""
    office = DispatchOffice(premises, store, tmp_path / "evidence")
    yield office
    office.close()


def start_drawn_group(office: DispatchOffice, *results: int) -> tuple[list[bytes], str]:
    """Draw and start a group of three with the daemon; the first node answers first."""
    network = office.premises.network
    creator = network.creator
    task_options: dict[str, Any] = {"creator": creator, "group": GROUP, "group_size": 3}
    tasks = [network.create(fee=ETHER, **task_options) for _ in range(3)]
    for _ in range(4):
        office.block()
    key = network.key(creator, GROUP)
    nodes = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    for task, node, result in zip(tasks, nodes, results, strict=True):
        network.commit(task, node, compute_answer(key, result))
        office.mine()
    for task in tasks:
        network.reveal(task)
    network.by(creator, network.does.validateGroup(GROUP, tasks))
    office.mine(FINALITY + 1)
    office.turn()
    return tasks, nodes[0]


def test_garbage_result_scores_zero_and_contest_is_settled_after_restart(
    office: DispatchOffice,
):
    office.index()
    with office.store.read_transaction() as uow:
        before = {node.address: node.pool for node in uow.nodes.iterate_all()}
    tasks, garbage = start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    assert network.status(tasks[0]) is Status.INVALIDATED
    with office.store.read_transaction() as uow:
        added = {
            node.address: node.pool[len(before[node.address]) :]
            for node in uow.nodes.iterate_all()
        }
    assert added[Address(garbage.lower())] == b"\0"
    assert sorted(pool for pool in added.values() if pool) == [b"\0", b"\5", b"\n"]

    # The call waits in the outbox until the end of the window: planned once, despite
    # restarts.
    assert office.states(SETTLE_CONTEST) == ["planned"]
    office.restart()
    office.block()
    assert office.states(SETTLE_CONTEST) == ["planned"]
    cleared = network.contract.events.NodeCleared()
    assert cleared.get_logs(from_block=0) == []

    office.premises.chain.later(WINDOW + 60)
    office.premises.chain.mine()
    for _ in range(FINALITY + 4):
        office.block()
    (log,) = cleared.get_logs(from_block=0)
    assert (log["args"]["node"], log["args"]["task"]) == (garbage, tasks[0])
    assert office.states(SETTLE_CONTEST) == ["final"]
    with office.store.read_transaction() as uow:
        (node,) = uow.nodes.get_many([Address(garbage.lower())]).values()
    # The contest returns the stake, but not the score.
    assert node.pool[-1:] == b"\0"


def crowd(office: DispatchOffice) -> None:
    """Add three nodes to those of the first group, and ether for the dispatcher."""
    network = office.premises.network
    for node in network.nodes[3:6]:
        network.join(node)
    dispatcher = Web3.to_checksum_address(office.starts.account.address)
    network.by(network.admin, network.does.fund(dispatcher), value=ETHER)


def second_tasks(office: DispatchOffice) -> list[bytes]:
    """Return the tasks that the dispatcher has created, from the chain's events."""
    task_created = office.premises.network.contract.events.TaskCreated()
    filters = {"creator": Web3.to_checksum_address(office.starts.account.address)}
    return [
        log["args"]["task"]
        for log in task_created.get_logs(from_block=0, argument_filters=filters)
    ]


def answer_second(office: DispatchOffice, *results: int) -> None:
    """Let the second group's nodes answer, and the daemon compare them."""
    network, tasks = office.premises.network, second_tasks(office)
    group = network.read_task(tasks[0])["group"]
    for task, result in zip(tasks, results, strict=True):
        node = Web3.to_checksum_address(office.node_of(task))
        network.commit(task, node, compute_answer(group, result))
    for task in tasks:
        network.reveal(task)
    for _ in range(3):
        office.block()


def list_standings(office: DispatchOffice, nodes: Sequence[str]) -> list[Standing]:
    return [office.premises.network.standing(node) for node in nodes]


def test_node_with_a_garbage_result_is_slashed_by_the_daemons_second_group(
    each_office: DispatchOffice,
):
    office = each_office
    office.index()
    tasks, garbage = start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    office.block()
    office.restart()
    for _ in range(3):
        office.block()
    second = second_tasks(office)
    nodes = {office.node_of(task) for task in second}
    assert nodes == {node.lower() for node in network.nodes[3:6]}
    assert office.states(SECOND_GROUP) == ["mined"]

    office.restart()
    answer_second(office, RIGHT, RIGHT, RIGHT)
    assert {network.status(task) for task in second} == {Status.SUCCEEDED, Status.REFUNDED}
    assert len(office.states(END_SECOND_GROUP)) == 1

    # Any account that knows the result can settle: here an honest node of the first group.
    key = network.key(network.creator, GROUP)
    call = network.does.settleContest(key, tasks, encode_word(RIGHT))
    network.by(first[1], call)
    assert list_standings(office, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert {network.node(node)["open"] for node in first[1:]} == {0}
    assert garbage == first[0]
    # The call for the window's end expires with the contest, and so does its alert.
    for _ in range(FINALITY + 2):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded"]
    assert len(second_tasks(office)) == 3
    assert office.states(SECOND_GROUP) == ["final"]


@pytest.fixture
def results(office: DispatchOffice, tmp_path: Path) -> Path:
    """Return the folder in which the operator keeps the hashes of results."""
    folder = tmp_path / "results"
    folder.mkdir()
    office.results = ResultsFolder.open_folder(folder)
    office.restart()
    return folder


def deliver_result(folder: Path, task: bytes, number: int) -> None:
    (folder / f"0x{task.hex()}").write_text(f"0x{encode_word(number).hex()}\n")


def settlement_results(office: DispatchOffice) -> list[int]:
    """Return the result of each settlement on the chain."""
    contract = office.premises.network.contract
    calls = [
        contract.decode_function_input(call.request.calldata)[1]
        for call in office.intents(SETTLE_CONTEST)
        if call.state.value in {"mined", "final"}
    ]
    return [int.from_bytes(call["result"]) for call in calls]


def test_delivered_result_settles_contest_within_window(office: DispatchOffice, results: Path):
    office.index()
    tasks, garbage = start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    for _ in range(3):
        office.block()
    # The liar's storage delivers its own answer, and those of the honest nodes nothing.
    deliver_result(results, tasks[0], GARBAGE)
    answer_second(office, RIGHT, RIGHT, RIGHT)
    for _ in range(FINALITY + 2):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["planned"]

    (results / f"0x{second_tasks(office)[1].hex()}").write_text("0x12")
    deliver_result(results, second_tasks(office)[2], RIGHT)
    credited_before = network.owed(network.treasury)
    office.block()
    # One commit ends the call for the window's end and plans the one with the result.
    assert office.states(SETTLE_CONTEST) == ["superseded", "live"]
    office.restart()
    for _ in range(FINALITY + 3):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded", "final"]
    assert settlement_results(office) == [RIGHT]
    assert garbage == first[0]
    assert list_standings(office, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert network.node(garbage)["stake"] == 0
    assert {network.node(node)["open"] for node in first[1:]} == {0}
    # The minimum fee pays the second group; the treasury gets the rest of the stake.
    credited = network.owed(network.treasury) - credited_before
    assert credited == MIN_STAKE - TOLL
    # Nothing is sent again, not even after the window.
    office.premises.chain.later(WINDOW + 60)
    office.restart()
    for _ in range(3):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded", "final"]


def test_error_verdict_of_second_group_settles_contest_without_a_delivered_result(
    office: DispatchOffice,
):
    """The answer "cannot be run" is the same in every group, so the chain contains its result."""
    tasks, garbage = start_drawn_group(office, GARBAGE, 0, 0)
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    for _ in range(3):
        office.block()
    answer_second(office, 0, 0, 0)
    for _ in range(2 * FINALITY + 5):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded", "final"]
    assert garbage == first[0]
    assert list_standings(office, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]


def test_second_group_without_majority_releases_stakes_immediately(office: DispatchOffice):
    tasks, _ = start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    for _ in range(3):
        office.block()
    answer_second(office, 21, 22, 23)
    for _ in range(2 * FINALITY + 5):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded", "final"]
    assert list_standings(office, first) == [Standing.ACTIVE] * 3
    assert {network.node(node)["open"] for node in first} == {0}


def test_contests_of_both_groups_are_settled_by_one_result(office: DispatchOffice, results: Path):
    tasks, _ = start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    for _ in range(4):
        office.block()
    deliver_result(results, second_tasks(office)[0], RIGHT)
    deliver_result(results, second_tasks(office)[1], GARBAGE)
    answer_second(office, RIGHT, GARBAGE, RIGHT)
    for _ in range(2 * FINALITY + 6):
        office.block()
    judges = [Web3.to_checksum_address(office.node_of(task)) for task in second_tasks(office)]
    assert list_standings(office, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert list_standings(office, judges) == [Standing.ACTIVE, Standing.SLASHED, Standing.ACTIVE]
    assert sorted(office.states(SETTLE_CONTEST)) == ["final"] * 2 + ["superseded"] * 2
    assert settlement_results(office) == [RIGHT, RIGHT]


def test_second_group_removed_by_reorg_is_created_only_once(office: DispatchOffice):
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    crowd(office)
    for _ in range(3):
        office.block()
    assert office.states(SECOND_GROUP) == ["mined"]
    office.premises.chain.rpc("anvil_reorg", 2, [])
    for _ in range(FINALITY + 4):
        office.block()
    assert office.states(SECOND_GROUP).count("final") == 1
    tasks = second_tasks(office)
    assert len(tasks) == 3
    assert {office.premises.network.status(task) for task in tasks} == {Status.STARTED}


def test_lying_majority_loses_its_stakes(office: DispatchOffice):
    office.index()
    tasks, _ = start_drawn_group(office, GARBAGE, GARBAGE, RIGHT)
    network = office.premises.network
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    for _ in range(4):
        office.block()
    answer_second(office, RIGHT, RIGHT, RIGHT)
    key = network.key(network.creator, GROUP)
    network.by(first[2], network.does.settleContest(key, tasks, encode_word(RIGHT)))
    assert list_standings(office, first) == [Standing.SLASHED, Standing.SLASHED, Standing.ACTIVE]


def test_contested_second_group_gets_no_further_second_group(office: DispatchOffice):
    tasks, _ = start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    first = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    crowd(office)
    for _ in range(4):
        office.block()
    answer_second(office, RIGHT, GARBAGE, RIGHT)
    for _ in range(FINALITY + 3):
        office.block()
    # Both contests wait for the window's end; the contract rejects a third group, in a
    # simulation.
    assert office.states(SETTLE_CONTEST) == ["planned", "planned"]
    assert office.states(SECOND_GROUP) == ["final", "superseded"]
    assert len(second_tasks(office)) == 3

    # The two groups agree: the minority of each is slashed.
    second = second_tasks(office)
    judges = [Web3.to_checksum_address(office.node_of(task)) for task in second]
    groups = (
        (network.key(network.creator, GROUP), tasks),
        (network.read_task(second[0])["group"], second),
    )
    for key, members in groups:
        network.by(network.admin, network.does.settleContest(key, members, encode_word(RIGHT)))
    assert list_standings(office, first) == [Standing.SLASHED, Standing.ACTIVE, Standing.ACTIVE]
    assert list_standings(office, judges) == [Standing.ACTIVE, Standing.SLASHED, Standing.ACTIVE]
    for _ in range(FINALITY + 2):
        office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded", "superseded"]


def test_silent_node_of_second_group_times_out_and_the_other_results_are_compared(
    office: DispatchOffice,
):
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    crowd(office)
    for _ in range(4):
        office.block()
    network, tasks = office.premises.network, second_tasks(office)
    group = network.read_task(tasks[0])["group"]
    for task in tasks[:2]:
        node = Web3.to_checksum_address(office.node_of(task))
        network.commit(task, node, compute_answer(group, RIGHT))
    office.premises.chain.later(TIMEOUT + 1)
    office.premises.chain.mine()
    for _ in range(4):
        office.block()
    for task in tasks[:2]:
        network.reveal(task)
    for _ in range(3):
        office.block()
    assert network.status(tasks[2]) is Status.TIMED_OUT
    assert {network.status(task) for task in tasks[:2]} == {Status.SUCCEEDED, Status.REFUNDED}


def test_second_group_waits_for_enough_idle_nodes(office: DispatchOffice):
    """The nodes of the first group are idle again, but must not judge themselves."""
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    crowd(office)
    network = office.premises.network
    network.by(network.nodes[5], network.does.pause())
    for _ in range(4):
        office.block()
    assert office.states(SECOND_GROUP) == []
    assert office.states(SETTLE_CONTEST) == ["planned"]

    network.by(network.nodes[5], network.does.resume())
    for _ in range(3):
        office.block()
    assert len(second_tasks(office)) == 3


def test_empty_purse_defers_second_group_with_reason(office: DispatchOffice):
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    for node in network.nodes[3:6]:
        network.join(node)
    for _ in range(3):
        office.block()
    (call,) = office.intents(SECOND_GROUP)
    assert (call.state.value, call.error_class) == ("planned", "PurseTooSmall")
    for _ in range(MAX_DRAW_AGE_BLOCKS + 2):
        office.block()
    assert office.states(SECOND_GROUP) == ["superseded", "planned"]
    assert second_tasks(office) == []


def test_second_group_ordered_manually_supersedes_the_planned_call(office: DispatchOffice):
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    for node in network.nodes[3:6]:
        network.join(node)
    for _ in range(2):
        office.block()
    own_dispatcher = network.dispatcher
    network.by(network.admin, network.does.setDispatcher(own_dispatcher))
    key = network.key(network.creator, GROUP)
    order_second_group(network, key, encode_word(2), network.nodes[3:6], models=["sdxl"])
    for _ in range(MAX_DRAW_AGE_BLOCKS + 4):
        office.block()
    assert office.states(SECOND_GROUP) == ["superseded"]


def test_contest_settled_by_another_sender_supersedes_the_planned_call(office: DispatchOffice):
    tasks, _ = start_drawn_group(office, RIGHT, RIGHT, GARBAGE)
    network = office.premises.network
    office.premises.chain.later(WINDOW + 60)
    office.premises.chain.mine()
    key = network.key(network.creator, GROUP)
    network.by(network.admin, network.does.settleContest(key, tasks, encode_word(0)))
    office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded"]


def test_agreeing_group_is_not_contested(office: DispatchOffice):
    start_drawn_group(office, RIGHT, RIGHT, RIGHT)
    assert office.states(SETTLE_CONTEST) == []


def test_rescan_after_a_cleared_bookmark_plans_no_second_call(office: DispatchOffice):
    """The scan begins again, as after a lost bookmark; the outbox contains the group."""
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    with office.store.transaction() as uow:
        uow.bookmarks.delete("contests_scanned")
    office.turn()
    assert office.states(SETTLE_CONTEST) == ["planned"]


def prepare_contest(premises: Premises, store: Store, evidence: Path) -> DispatchOffice:
    """Prepare a contest for which there were too few nodes for a second group until now."""
    office = DispatchOffice(premises, store, evidence)
    start_drawn_group(office, GARBAGE, RIGHT, RIGHT)
    crowd(office)
    office.index()
    return office


@pytest.mark.nightly
@pytest.mark.slow
def test_second_group_is_completed_once_after_crash_at_any_point(
    premises: Premises, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        office, fuse = prepare_contest(premises, store, tmp_path), Fuse()
        before = nonce(premises)
        with run_with_fuse(office, fuse):
            play(office)
        office.close()
    assert fuse.passed.count("after a send") == 1

    for number, name in enumerate(fuse.passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            office = prepare_contest(premises, store, tmp_path)
            with pytest.raises(Crash), run_with_fuse(office, Fuse(number)):
                play(office)
            office.restart()
            play(office)

            where = f"{name} {number}"
            assert nonce(premises) == before + 1, where
            assert office.states(SECOND_GROUP) == ["final"], where
            tasks = second_tasks(office)
            states = {premises.network.status(task) for task in tasks}
            assert (len(tasks), states) == (3, {Status.STARTED}), where
            office.close()
