"""The daemon dies at every commit and send of a start or download request;
the next one finishes it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from oracle.dispatch.dispatch_calls import REQUEST_DOWNLOAD
from oracle.rpc.pool import EndpointPool
from oracle.store.database import Store
from oracle.systems.crynux.crynux_policy import SPREAD
from oracle.txmgr import broadcaster
from oracle.txmgr.client.send_raw import SendResult, send_raw_transactions
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Status
from tests.support.office import Premises
from tests.support.sending.fuses import Crash, Fuse, FusedStore
from tests.support.txmgr.dispatch_office import (
    DispatchOffice,
    dispatcher_of,
    fresh_stage,
    premises,
    settings,
)
from tests.support.txmgr.office_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "premises"]


@contextmanager
def run_with_fuse(office: DispatchOffice, fuse: Fuse) -> Iterator[None]:
    """Run the dispatching side with a fuse."""

    def fused_send(pool: EndpointPool, raws: Sequence[bytes]) -> list[SendResult]:
        fuse.point("before a send")
        sent = send_raw_transactions(pool, raws)
        fuse.point("after a send")
        return sent

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(broadcaster, "send_raw_transactions", fused_send)
        fused_store = cast("Store", FusedStore(office.store, fuse))
        office.starts = replace(office.starts, store=fused_store)
        yield


def play(office: DispatchOffice) -> None:
    """Run from the seed block to the finality of the starts."""
    for _ in range(8):
        office.turn()
        office.mine()
    office.turn()


def prepare_drawn_tasks(
    premises: Premises, store: Store, evidence: Path
) -> tuple[DispatchOffice, list[bytes]]:
    """Prepare two tasks, each with a draw."""
    office = DispatchOffice(premises, store, evidence)
    tasks = [premises.network.create() for _ in range(2)]
    office.mine()
    office.index()
    return office, tasks


def prepare_download_request(premises: Premises, store: Store, folder: Path) -> DispatchOffice:
    """Prepare a started task; two nodes lack its model,
    and no node has been asked to download it.
    """
    office = DispatchOffice(premises, store, folder)
    office.restart(dispatch=settings(premises.built_at, spread=SPREAD))
    premises.network.create()
    for _ in range(2):
        office.turn()
        office.mine()
    office.index()
    return office


def nonce(premises: Premises) -> int:
    """Return the number of mined transactions of the dispatcher."""
    sender = dispatcher_of(premises).address
    return int(premises.chain.rpc("eth_getTransactionCount", sender, "latest"), 16)


@pytest.mark.nightly
@pytest.mark.slow
def test_start_is_completed_once_after_crash_at_any_point(
    premises: Premises, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        office, _ = prepare_drawn_tasks(premises, store, tmp_path)
        fuse = Fuse()
        with run_with_fuse(office, fuse):
            play(office)
        office.close()
    passed = fuse.passed
    # Planned, ready, assigned, signed, sent (with a check of the lease): both at once; then
    # each is mined, and final.
    assert passed.count("after a commit") == 10
    assert passed.count("after a send") == 1

    for number, name in enumerate(passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            office, tasks = prepare_drawn_tasks(premises, store, tmp_path)
            with pytest.raises(Crash), run_with_fuse(office, Fuse(number)):
                play(office)
            office.restart()
            play(office)

            where = f"{name} {number}"
            assert nonce(premises) == 2, where
            assert office.start_states() == ["final", "final"], where
            assert {premises.network.status(task) for task in tasks} == {Status.STARTED}, where
            office.close()


@pytest.mark.nightly
@pytest.mark.slow
def test_download_request_is_completed_once_after_crash_at_any_point(
    premises: Premises, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        office = prepare_download_request(premises, store, tmp_path)
        fuse = Fuse()
        with run_with_fuse(office, fuse):
            play(office)
        office.close()
    passed = fuse.passed
    assert passed.count("after a send") == 1

    for number, name in enumerate(passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            office = prepare_download_request(premises, store, tmp_path)
            before = nonce(premises)
            with pytest.raises(Crash), run_with_fuse(office, Fuse(number)):
                play(office)
            office.restart()
            play(office)

            where = f"{name} {number}"
            assert nonce(premises) - before == 2, where
            assert office.states(REQUEST_DOWNLOAD) == ["final"] * 2, where
            office.close()
