"""Contests on a real chain: garbage first scores 0, and held stakes are released in the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3

from oracle.dispatch.contest_settlement import SETTLE_CONTEST
from oracle.domain.ids import Address
from oracle.store.database import Store
from tests.support.evm.contests import WINDOW
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status, answer_of, word
from tests.support.office import FINALITY, Premises
from tests.support.txmgr.dispatch_office import DispatchOffice, fresh_stage, premises
from tests.support.txmgr.office_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "premises"]

GROUP, RIGHT, GARBAGE = word(77), 7, 8


@pytest.fixture
def office(premises: Premises, sqlite_url: str, tmp_path: Path) -> Iterator[DispatchOffice]:
    with Store.open(sqlite_url) as opened:
        office = DispatchOffice(premises, opened, tmp_path / "evidence")
        yield office
        office.close()


def played(office: DispatchOffice, *results: int) -> tuple[list[bytes], str]:
    """A group of three is drawn and started by the daemon; the first node answers first."""
    network = office.premises.network
    creator = network.creator
    wanted: dict[str, Any] = {"creator": creator, "group": GROUP, "group_size": 3}
    tasks = [network.create(fee=ETHER, **wanted) for _ in range(3)]
    for _ in range(4):
        office.block()
    key = network.key(creator, GROUP)
    nodes = [Web3.to_checksum_address(office.node_of(task)) for task in tasks]
    for task, node, result in zip(tasks, nodes, results, strict=True):
        network.commit(task, node, answer_of(key, result))
        office.mine()
    for task in tasks:
        network.reveal(task)
    network.by(creator, network.does.validateGroup(GROUP, tasks))
    office.mine(FINALITY + 1)
    office.turn()
    return tasks, nodes[0]


def test_garbage_first_scores_nothing_and_its_contest_is_settled_after_a_restart(
    office: DispatchOffice,
):
    office.index()
    with office.store.reading() as uow:
        before = {node.address: node.pool for node in uow.nodes.all()}
    tasks, garbage = played(office, GARBAGE, RIGHT, RIGHT)
    network = office.premises.network
    assert network.status(tasks[0]) is Status.INVALIDATED
    with office.store.reading() as uow:
        added = {node.address: node.pool[len(before[node.address]) :] for node in uow.nodes.all()}
    assert added[Address(garbage.lower())] == b"\0"
    assert sorted(pool for pool in added.values() if pool) == [b"\0", b"\5", b"\n"]

    # The call waits in the outbox until the window is over: planned once, whoever restarts.
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
    with office.store.reading() as uow:
        (node,) = uow.nodes.named([Address(garbage.lower())]).values()
    # The contest gives the stake back, not the score.
    assert node.pool[-1:] == b"\0"


def test_contest_that_somebody_else_settled_ends_the_call(office: DispatchOffice):
    tasks, _ = played(office, RIGHT, RIGHT, GARBAGE)
    network = office.premises.network
    office.premises.chain.later(WINDOW + 60)
    office.premises.chain.mine()
    key = network.key(network.creator, GROUP)
    network.by(network.admin, network.does.settleContest(key, tasks, word(0)))
    office.block()
    assert office.states(SETTLE_CONTEST) == ["superseded"]


def test_group_that_agrees_is_not_contested(office: DispatchOffice):
    played(office, RIGHT, RIGHT, RIGHT)
    assert office.states(SETTLE_CONTEST) == []


def test_rebuilt_bookmark_plans_no_second_call(office: DispatchOffice):
    """The scan begins anew, as after a lost bookmark; the outbox knows the group."""
    played(office, GARBAGE, RIGHT, RIGHT)
    with office.store.transaction() as uow:
        uow.bookmarks.clear("contests_scanned")
    office.turn()
    assert office.states(SETTLE_CONTEST) == ["planned"]
