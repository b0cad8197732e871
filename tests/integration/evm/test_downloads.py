"""When a task starts, nodes without its model are asked to download it on chain, exactly once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.queries.stats import compute_dispatch_statistics
from oracle.store.database import Store
from oracle.store.outbox.records import REQUEST_DOWNLOAD
from oracle.systems.crynux.crynux_policy import SPREAD
from oracle.systems.crynux.predownload import list_download_requests
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Status
from tests.support.harness import OracleTestbed
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    build_dispatch_settings,
    fresh_stage,
    testbed,
)
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

pytestmark = pytest.mark.slow

__all__ = ["chain", "fresh_chain", "fresh_stage", "testbed"]

MODEL = "sdxl"


def build_download_settings(testbed: OracleTestbed, **spread: int) -> DispatchSettings:
    return build_dispatch_settings(testbed.built_at, spread=replace(SPREAD, **spread))


def open_download_harness(
    testbed: OracleTestbed, store: Store, folder: Path, **spread: int
) -> DispatchHarness:
    """Open a harness that asks for models; two of its three nodes can be
    asked when a task starts.
    """
    harness = DispatchHarness(testbed, store, folder)
    harness.restart(dispatch=build_download_settings(testbed, **spread))
    return harness


@pytest.fixture
def harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[DispatchHarness]:
    with Store.open(sqlite_url) as opened:
        harness = open_download_harness(testbed, opened, tmp_path / "evidence")
        yield harness
        harness.close()


def start_task(harness: DispatchHarness) -> bytes:
    """Create and start a task, and fold it."""
    task = harness.testbed.network.create(models=(MODEL,))
    harness.turn()
    for _ in range(2):
        harness.block()
    assert harness.testbed.network.status(task) is Status.STARTED
    return task


def list_contract_requests(harness: DispatchHarness) -> list[dict[str, Any]]:
    """Return the requests by the contract's events."""
    contract = harness.testbed.network.contract
    first = harness.testbed.built_at
    return [
        dict(log["args"]) for log in contract.events.DownloadRequested().get_logs(from_block=first)
    ]


def list_requested_nodes(harness: DispatchHarness) -> list[str]:
    return sorted(str(request["node"]) for request in list_contract_requests(harness))


def idle(harness: DispatchHarness, task: bytes) -> list[str]:
    """Return the members that do not run the task."""
    nodes = harness.testbed.network.nodes[:3]
    return sorted(node for node in nodes if node.lower() != harness.node_of(task))


def states(harness: DispatchHarness) -> list[str]:
    return harness.states(REQUEST_DOWNLOAD)


def standing(harness: DispatchHarness) -> list[str]:
    """Return the state of the folded requests."""
    with harness.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        return [
            state
            for node in uow.nodes.list_with_requested_downloads()
            for _, state in list_download_requests(node, cursor.time)
        ]


def test_task_start_requests_downloads_from_nodes_without_the_model(
    harness: DispatchHarness,
):
    task = start_task(harness)
    for _ in range(4):
        harness.block()

    assert list_requested_nodes(harness) == idle(harness, task)
    assert {request["model"] for request in list_contract_requests(harness)} == {MODEL}
    assert (states(harness), standing(harness)) == (["mined"] * 2, ["open"] * 2)
    assert compute_dispatch_statistics(harness.store, None).downloads_by_state == {"open": 2}


def test_download_request_ends_when_the_node_adds_the_model(harness: DispatchHarness):
    network = harness.testbed.network
    task = start_task(harness)
    harness.block()
    for node in idle(harness, task):
        network.by(node, network.does.addModel(MODEL))
    harness.turn()

    assert standing(harness) == ["answered"] * 2


def test_next_task_start_does_not_repeat_download_requests(harness: DispatchHarness):
    network = harness.testbed.network
    first = start_task(harness)
    harness.block()
    before = list_requested_nodes(harness)
    network.submit(first, {node.lower(): node for node in network.nodes}[harness.node_of(first)])
    second = start_task(harness)
    for _ in range(3):
        harness.block()

    # The node of the first task has not been asked yet, unless it runs the second as well.
    runner = {node for node in idle(harness, second) if node.lower() == harness.node_of(first)}
    assert list_requested_nodes(harness) == sorted({*before, *runner})


def test_download_requests_respect_the_daily_limit(harness: DispatchHarness):
    harness.restart(dispatch=build_download_settings(harness.testbed, per_day=1))
    start_task(harness)
    for _ in range(3):
        harness.block()
    assert len(list_requested_nodes(harness)) == 1


def test_reorged_start_requests_each_download_only_once(
    harness: DispatchHarness,
):
    network, chain = harness.testbed.network, harness.testbed.chain
    task = network.create(models=(MODEL,))
    harness.turn()
    harness.mine()
    harness.turn()
    fork = chain.rpc("evm_snapshot")
    harness.mine()
    harness.index()
    assert network.status(task) is Status.STARTED
    plan_dispatch(harness.dispatching, harness.source.fetch_heads())
    assert states(harness) == ["planned"] * 2
    chain.rpc("evm_revert", fork)
    # The other fork has not got the start yet.
    chain.rpc("anvil_dropAllTransactions")
    harness.mine(2)
    harness.index()
    with harness.store.read_transaction() as uow:
        assert uow.downloads.list_since(0) == []

    for _ in range(8):
        harness.turn()
        harness.mine()
    assert list_requested_nodes(harness) == idle(harness, task)


def test_download_requests_do_not_depend_on_window_size(
    harness: DispatchHarness, new_sqlite_store: NewStore, tmp_path: Path
):
    start_task(harness)
    for _ in range(3):
        harness.block()
    with harness.store.read_transaction() as uow:
        planned = uow.downloads.list_since(0)
    with new_sqlite_store() as store:
        other_harness = open_download_harness(harness.testbed, store, tmp_path / "other")
        other_harness.index()
        with store.read_transaction() as uow:
            assert uow.downloads.list_since(0) == planned != []
        other_harness.close()


def test_two_daemons_with_one_key_send_one_download_request(
    harness: DispatchHarness, new_sqlite_store: NewStore, tmp_path: Path
):
    testbed = harness.testbed
    with new_sqlite_store() as store:
        other_harness = open_download_harness(testbed, store, tmp_path / "other")
        task = testbed.network.create(models=(MODEL,))
        for _ in range(8):
            harness.turn()
            other_harness.turn()
            harness.mine()
        assert list_requested_nodes(harness) == idle(harness, task)
        other_harness.close()
