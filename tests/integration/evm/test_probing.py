"""System tasks on a real chain: nodes without a task in the window get one,
are paid and judged.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from web3 import Web3

from oracle.store.database import Store
from oracle.store.outbox.records import END_PROBE, PROBE
from tests.support.evm.chain import Receipt
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, TIMEOUT, TOLL, Status, encode_word
from tests.support.harness import OracleTestbed
from tests.support.txmgr.dispatch_harness import fresh_stage, testbed
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.probing_harness import (
    FEE,
    WINDOW,
    ProbingHarness,
    build_probe_settings,
    fund_dispatcher,
)

__all__ = ["chain", "fresh_chain", "fresh_stage", "testbed"]


@pytest.fixture
def harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[ProbingHarness]:
    with Store.open(sqlite_url) as opened:
        harness = ProbingHarness(testbed, opened, tmp_path / "evidence")
        yield harness
        harness.close()


def answer_tasks(harness: ProbingHarness, tasks: list[bytes]) -> list[Receipt]:
    """Let the nodes run the tasks, alone or in a group, with equal results."""
    network = harness.testbed.network
    if len(tasks) == 1:
        node = Web3.to_checksum_address(harness.node_of(tasks[0]))
        return [network.submit(tasks[0], node)]
    for task in tasks:
        network.commit(task, Web3.to_checksum_address(harness.node_of(task)), encode_word(7))
    return [network.reveal(task) for task in tasks]


def test_probe_group_of_three_idle_nodes_is_scored(harness: ProbingHarness):
    fund_dispatcher(harness)
    harness.begin_window()
    with harness.store.read_transaction() as uow:
        (before,) = {node.scored for node in uow.nodes.iterate_all()}
    harness.pass_window()

    tasks = harness.probed()
    assert len({harness.node_of(task) for task in tasks}) == 3
    answer_tasks(harness, tasks)
    for _ in range(3):
        harness.block()

    ends = sorted(harness.testbed.network.status(task) for task in tasks)
    assert ends == [Status.SUCCEEDED, Status.REFUNDED, Status.REFUNDED]
    assert harness.credit() == ETHER - FEE
    with harness.store.read_transaction() as uow:
        assert {node.scored for node in uow.nodes.iterate_all()} == {before + 1}


def test_node_with_a_task_in_the_window_is_not_probed(harness: ProbingHarness):
    network = harness.testbed.network
    fund_dispatcher(harness)
    harness.begin_window()
    for _ in range(3):
        network.create()
    for _ in range(3):
        harness.block()
    harness.pass_window()

    assert harness.probed() == []


def test_probe_fees_stay_within_the_budget_of_the_window(harness: ProbingHarness):
    harness.probing = build_probe_settings(group=False, max_fee=2 * FEE)
    harness.restart()
    fund_dispatcher(harness)
    harness.begin_window()
    harness.pass_window()
    for _ in range(5):
        harness.block()

    assert len(harness.probed()) == 2


def test_unresponsive_probed_node_costs_only_toll(harness: ProbingHarness):
    harness.probing = build_probe_settings(group=False, max_fee=FEE)
    harness.restart()
    fund_dispatcher(harness)
    harness.begin_window()
    harness.pass_window()
    (task,) = harness.probed()
    harness.wait(TIMEOUT + 1)
    for _ in range(2):
        harness.block()

    assert harness.testbed.network.status(task) is Status.TIMED_OUT
    assert harness.credit() == ETHER - TOLL


def test_restart_at_every_block_does_not_repeat_a_probe(harness: ProbingHarness):
    fund_dispatcher(harness)
    harness.begin_window()
    harness.restart()
    harness.wait(WINDOW * 9 // 10)
    for _ in range(3):
        harness.restart()
        harness.block()

    assert len(harness.probed()) == 3
    assert [call.state.value for call in harness.intents(PROBE)] == ["mined"]


def test_waiting_probe_is_superseded_by_paid_tasks(harness: ProbingHarness):
    harness.probing = build_probe_settings(group=False, max_fee=FEE)
    harness.restart()
    network = harness.testbed.network
    harness.begin_window()
    harness.pass_window()
    (call,) = harness.intents(PROBE)
    for _ in range(3):
        network.create()
    for _ in range(3):
        harness.block()
    fund_dispatcher(harness)
    harness.block()

    assert harness.probed() == []
    (call,) = harness.intents(PROBE)
    assert call.state.value == "superseded"


def test_probe_without_credit_is_deferred_with_a_reason(harness: ProbingHarness):
    harness.begin_window()
    harness.pass_window()

    assert harness.probed() == []
    (call,) = harness.intents(PROBE)
    assert call.error_class == "PurseTooSmall"
    assert harness.intents(END_PROBE) == []
