"""When a task starts, nodes without its model are asked to download it on chain, exactly once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oracle.dispatch.dispatch_calls import REQUEST_DOWNLOAD
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.queries.stats import compute_dispatch_statistics
from oracle.store.database import Store
from oracle.systems.crynux.crynux_policy import SPREAD
from oracle.systems.crynux.predownload import list_download_requests
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Status
from tests.support.office import Premises
from tests.support.txmgr.dispatch_office import (
    DispatchOffice,
    fresh_stage,
    premises,
    settings,
)
from tests.support.txmgr.office_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

pytestmark = pytest.mark.slow

__all__ = ["chain", "fresh_chain", "fresh_stage", "premises"]

MODEL = "sdxl"


def build_download_settings(premises: Premises, **spread: int) -> DispatchSettings:
    return settings(premises.built_at, spread=replace(SPREAD, **spread))


def open_download_office(
    premises: Premises, store: Store, folder: Path, **spread: int
) -> DispatchOffice:
    """Open an office that asks for models; two of its three nodes can be
    asked when a task starts.
    """
    office = DispatchOffice(premises, store, folder)
    office.restart(dispatch=build_download_settings(premises, **spread))
    return office


@pytest.fixture
def office(premises: Premises, sqlite_url: str, tmp_path: Path) -> Iterator[DispatchOffice]:
    with Store.open(sqlite_url) as opened:
        office = open_download_office(premises, opened, tmp_path / "evidence")
        yield office
        office.close()


def start_task(office: DispatchOffice) -> bytes:
    """Create and start a task, and fold it."""
    task = office.premises.network.create(models=(MODEL,))
    office.turn()
    for _ in range(2):
        office.block()
    assert office.premises.network.status(task) is Status.STARTED
    return task


def list_contract_requests(office: DispatchOffice) -> list[dict[str, Any]]:
    """Return the requests by the contract's events."""
    contract = office.premises.network.contract
    first = office.premises.built_at
    return [
        dict(log["args"]) for log in contract.events.DownloadRequested().get_logs(from_block=first)
    ]


def list_requested_nodes(office: DispatchOffice) -> list[str]:
    return sorted(str(request["node"]) for request in list_contract_requests(office))


def idle(office: DispatchOffice, task: bytes) -> list[str]:
    """Return the members that do not run the task."""
    nodes = office.premises.network.nodes[:3]
    return sorted(node for node in nodes if node.lower() != office.node_of(task))


def states(office: DispatchOffice) -> list[str]:
    return office.states(REQUEST_DOWNLOAD)


def standing(office: DispatchOffice) -> list[str]:
    """Return the state of the folded requests."""
    with office.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        return [
            request.state
            for node in uow.nodes.list_with_downloads()
            for request in list_download_requests(node, cursor.time)
        ]


def test_task_start_sends_one_download_request_to_every_other_node_without_the_model(
    office: DispatchOffice,
):
    task = start_task(office)
    for _ in range(4):
        office.block()

    assert list_requested_nodes(office) == idle(office, task)
    assert {request["model"] for request in list_contract_requests(office)} == {MODEL}
    assert (states(office), standing(office)) == (["mined"] * 2, ["open"] * 2)
    assert compute_dispatch_statistics(office.store, None).downloads_by_state == {"open": 2}


def test_download_request_is_answered_when_the_node_adds_the_model(office: DispatchOffice):
    network, task = office.premises.network, start_task(office)
    office.block()
    for node in idle(office, task):
        network.by(node, network.does.addModel(MODEL))
    office.turn()

    assert standing(office) == ["answered"] * 2


def test_next_task_start_sends_no_second_request_to_any_node(office: DispatchOffice):
    network, first = office.premises.network, start_task(office)
    office.block()
    before = list_requested_nodes(office)
    network.submit(first, {node.lower(): node for node in network.nodes}[office.node_of(first)])
    second = start_task(office)
    for _ in range(3):
        office.block()

    # The node of the first task has not been asked yet, unless it runs the second as well.
    runner = {node for node in idle(office, second) if node.lower() == office.node_of(first)}
    assert list_requested_nodes(office) == sorted({*before, *runner})


def test_daily_request_limit_is_respected(office: DispatchOffice):
    office.restart(dispatch=build_download_settings(office.premises, per_day=1))
    start_task(office)
    for _ in range(3):
        office.block()
    assert len(list_requested_nodes(office)) == 1


def test_start_removed_and_restored_by_reorg_sends_each_node_only_one_request(
    office: DispatchOffice,
):
    network, chain = office.premises.network, office.premises.chain
    task = network.create(models=(MODEL,))
    office.turn()
    office.mine()
    office.turn()
    fork = chain.rpc("evm_snapshot")
    office.mine()
    office.index()
    assert network.status(task) is Status.STARTED
    plan_dispatch(office.dispatching, office.source.fetch_heads())
    assert states(office) == ["planned"] * 2
    chain.rpc("evm_revert", fork)
    # The other fork has not got the start yet.
    chain.rpc("anvil_dropAllTransactions")
    office.mine(2)
    office.index()
    with office.store.read_transaction() as uow:
        assert uow.downloads.list_since(0) == []

    for _ in range(8):
        office.turn()
        office.mine()
    assert list_requested_nodes(office) == idle(office, task)


def test_download_requests_are_independent_of_window_size(
    office: DispatchOffice, new_sqlite_store: NewStore, tmp_path: Path
):
    start_task(office)
    for _ in range(3):
        office.block()
    with office.store.read_transaction() as uow:
        planned = uow.downloads.list_since(0)
    with new_sqlite_store() as store:
        other_office = open_download_office(office.premises, store, tmp_path / "other")
        other_office.index()
        with store.read_transaction() as uow:
            assert uow.downloads.list_since(0) == planned != []
        other_office.close()


def test_two_daemons_with_the_same_key_send_each_node_only_one_request(
    office: DispatchOffice, new_sqlite_store: NewStore, tmp_path: Path
):
    premises = office.premises
    with new_sqlite_store() as store:
        other_office = open_download_office(premises, store, tmp_path / "other")
        task = premises.network.create(models=(MODEL,))
        for _ in range(8):
            office.turn()
            other_office.turn()
            office.mine()
        assert list_requested_nodes(office) == idle(office, task)
        other_office.close()
