"""The daemon dies at every commit and send of a start or download request;
the next one finishes it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from oracle.rpc.pool import EndpointPool
from oracle.store.database import Store
from oracle.store.outbox.records import REQUEST_DOWNLOAD
from oracle.systems.crynux.crynux_policy import SPREAD
from oracle.txmgr import broadcaster
from oracle.txmgr.client.send_raw import SendResult, send_raw_transactions
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Status
from tests.support.harness import OracleTestbed
from tests.support.sending.fuses import Crash, Fuse, FusedStore
from tests.support.txmgr.dispatch_harness import (
    DispatchHarness,
    build_dispatch_settings,
    fresh_stage,
    open_dispatcher_key,
    testbed,
)
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "testbed"]


@contextmanager
def run_with_fuse(harness: DispatchHarness, fuse: Fuse) -> Iterator[None]:
    """Run the dispatching side with a fuse."""

    def fused_send(pool: EndpointPool, raws: Sequence[bytes]) -> list[SendResult]:
        fuse.point("before a send")
        sent = send_raw_transactions(pool, raws)
        fuse.point("after a send")
        return sent

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(broadcaster, "send_raw_transactions", fused_send)
        fused_store = cast("Store", FusedStore(harness.store, fuse))
        harness.starts = replace(harness.starts, store=fused_store)
        yield


def play(harness: DispatchHarness) -> None:
    """Run from the seed block to the finality of the starts."""
    for _ in range(8):
        harness.turn()
        harness.mine()
    harness.turn()


def prepare_drawn_tasks(
    testbed: OracleTestbed, store: Store, evidence: Path
) -> tuple[DispatchHarness, list[bytes]]:
    """Prepare two tasks, each with a draw."""
    harness = DispatchHarness(testbed, store, evidence)
    tasks = [testbed.network.create() for _ in range(2)]
    harness.mine()
    harness.index()
    return harness, tasks


def prepare_download_request(
    testbed: OracleTestbed, store: Store, folder: Path
) -> DispatchHarness:
    """Prepare a started task; two nodes lack its model,
    and no node has been asked to download it.
    """
    harness = DispatchHarness(testbed, store, folder)
    harness.restart(dispatch=build_dispatch_settings(testbed.built_at, spread=SPREAD))
    testbed.network.create()
    for _ in range(2):
        harness.turn()
        harness.mine()
    harness.index()
    return harness


def nonce(testbed: OracleTestbed) -> int:
    """Return the number of mined transactions of the dispatcher."""
    sender = open_dispatcher_key(testbed).address
    return int(testbed.chain.rpc("eth_getTransactionCount", sender, "latest"), 16)


@pytest.mark.nightly
@pytest.mark.slow
def test_task_start_is_completed_once_after_any_crash(
    testbed: OracleTestbed, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        harness, _ = prepare_drawn_tasks(testbed, store, tmp_path)
        fuse = Fuse()
        with run_with_fuse(harness, fuse):
            play(harness)
        harness.close()
    passed = fuse.passed
    # Planned, ready, assigned, signed, sent (with a check of the lease): both at once; then
    # each is mined, and final.
    assert passed.count("after a commit") == 10
    assert passed.count("after a send") == 1

    for number, name in enumerate(passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            harness, tasks = prepare_drawn_tasks(testbed, store, tmp_path)
            with pytest.raises(Crash), run_with_fuse(harness, Fuse(number)):
                play(harness)
            harness.restart()
            play(harness)

            where = f"{name} {number}"
            assert nonce(testbed) == 2, where
            assert harness.start_states() == ["final", "final"], where
            assert {testbed.network.status(task) for task in tasks} == {Status.STARTED}, where
            harness.close()


@pytest.mark.nightly
@pytest.mark.slow
def test_download_request_is_completed_once_after_any_crash(
    testbed: OracleTestbed, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        harness = prepare_download_request(testbed, store, tmp_path)
        fuse = Fuse()
        with run_with_fuse(harness, fuse):
            play(harness)
        harness.close()
    passed = fuse.passed
    assert passed.count("after a send") == 1

    for number, name in enumerate(passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            harness = prepare_download_request(testbed, store, tmp_path)
            before = nonce(testbed)
            with pytest.raises(Crash), run_with_fuse(harness, Fuse(number)):
                play(harness)
            harness.restart()
            play(harness)

            where = f"{name} {number}"
            assert nonce(testbed) - before == 2, where
            assert harness.states(REQUEST_DOWNLOAD) == ["final"] * 2, where
            harness.close()
