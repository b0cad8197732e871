"""System tasks on a real chain: nodes without a task in the window get one,
are paid and judged.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from web3 import Web3

from oracle.dispatch.probe_wants import END_PROBE, PROBE
from oracle.store.database import Store
from tests.support.evm.chain import Receipt
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, TIMEOUT, TOLL, Status, encode_word
from tests.support.office import Premises
from tests.support.txmgr.dispatch_office import fresh_stage, premises
from tests.support.txmgr.office_fixtures import fresh_chain
from tests.support.txmgr.probing_office import FEE, WINDOW, ProbingOffice, fund_dispatcher, probing

__all__ = ["chain", "fresh_chain", "fresh_stage", "premises"]


@pytest.fixture
def office(premises: Premises, sqlite_url: str, tmp_path: Path) -> Iterator[ProbingOffice]:
    with Store.open(sqlite_url) as opened:
        office = ProbingOffice(premises, opened, tmp_path / "evidence")
        yield office
        office.close()


def answer_tasks(office: ProbingOffice, tasks: list[bytes]) -> list[Receipt]:
    """Let the nodes run the tasks, alone or in a group, with equal results."""
    network = office.premises.network
    if len(tasks) == 1:
        node = Web3.to_checksum_address(office.node_of(tasks[0]))
        return [network.submit(tasks[0], node)]
    for task in tasks:
        network.commit(task, Web3.to_checksum_address(office.node_of(task)), encode_word(7))
    return [network.reveal(task) for task in tasks]


def test_single_group_probes_all_three_idle_nodes_and_is_scored(office: ProbingOffice):
    fund_dispatcher(office)
    office.begin_window()
    with office.store.read_transaction() as uow:
        (before,) = {node.scored for node in uow.nodes.iterate_all()}
    office.pass_window()

    tasks = office.probed()
    assert len({office.node_of(task) for task in tasks}) == 3
    answer_tasks(office, tasks)
    for _ in range(3):
        office.block()

    ends = sorted(office.premises.network.status(task) for task in tasks)
    assert ends == [Status.SUCCEEDED, Status.REFUNDED, Status.REFUNDED]
    assert office.credit() == ETHER - FEE
    with office.store.read_transaction() as uow:
        assert {node.scored for node in uow.nodes.iterate_all()} == {before + 1}


def test_node_with_task_in_window_is_not_probed(office: ProbingOffice):
    network = office.premises.network
    fund_dispatcher(office)
    office.begin_window()
    for _ in range(3):
        network.create()
    for _ in range(3):
        office.block()
    office.pass_window()

    assert office.probed() == []


def test_probes_stay_within_window_budget(office: ProbingOffice):
    office.probing = probing(group=False, max_fee=2 * FEE)
    office.restart()
    fund_dispatcher(office)
    office.begin_window()
    office.pass_window()
    for _ in range(5):
        office.block()

    assert len(office.probed()) == 2


def test_silent_probed_node_times_out_and_costs_only_the_toll(office: ProbingOffice):
    office.probing = probing(group=False, max_fee=FEE)
    office.restart()
    fund_dispatcher(office)
    office.begin_window()
    office.pass_window()
    (task,) = office.probed()
    office.wait(TIMEOUT + 1)
    for _ in range(2):
        office.block()

    assert office.premises.network.status(task) is Status.TIMED_OUT
    assert office.credit() == ETHER - TOLL


def test_restart_at_every_block_repeats_no_probe(office: ProbingOffice):
    fund_dispatcher(office)
    office.begin_window()
    office.restart()
    office.wait(WINDOW * 9 // 10)
    for _ in range(3):
        office.restart()
        office.block()

    assert len(office.probed()) == 3
    assert [call.state.value for call in office.intents(PROBE)] == ["mined"]


def test_waiting_probe_is_superseded_by_paid_tasks(office: ProbingOffice):
    office.probing = probing(group=False, max_fee=FEE)
    office.restart()
    network = office.premises.network
    office.begin_window()
    office.pass_window()
    (call,) = office.intents(PROBE)
    for _ in range(3):
        network.create()
    for _ in range(3):
        office.block()
    fund_dispatcher(office)
    office.block()

    assert office.probed() == []
    (call,) = office.intents(PROBE)
    assert call.state.value == "superseded"


def test_probe_without_credit_is_deferred_with_reason(office: ProbingOffice):
    office.begin_window()
    office.pass_window()

    assert office.probed() == []
    (call,) = office.intents(PROBE)
    assert call.error_class == "PurseTooSmall"
    assert office.intents(END_PROBE) == []
