"""The daemon dies at every commit and send of a system task; the next one finishes it once."""

from pathlib import Path

import pytest

from oracle.store.database import Store
from oracle.store.outbox.records import PROBE
from tests.integration.evm.test_dispatching_crashes import nonce, play, run_with_fuse
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status
from tests.support.harness import OracleTestbed
from tests.support.sending.fuses import Crash, Fuse
from tests.support.txmgr.dispatch_harness import fresh_stage, testbed
from tests.support.txmgr.harness_fixtures import fresh_chain
from tests.support.txmgr.probing_harness import FEE, WINDOW, ProbingHarness, fund_dispatcher
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "testbed"]


def due(testbed: OracleTestbed, store: Store, evidence: Path) -> ProbingHarness:
    """Prepare nodes that are all due, with nothing planned."""
    harness = ProbingHarness(testbed, store, evidence)
    fund_dispatcher(harness)
    harness.begin_window()
    testbed.chain.later(WINDOW * 9 // 10)
    testbed.chain.mine()
    harness.index()
    return harness


@pytest.mark.nightly
@pytest.mark.slow
def test_probe_is_completed_once_after_any_crash(
    testbed: OracleTestbed, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        harness = due(testbed, store, tmp_path)
        fuse = Fuse()
        with run_with_fuse(harness, fuse):
            play(harness)
        harness.close()
    assert fuse.passed.count("after a send") == 1

    for number, name in enumerate(fuse.passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            harness = due(testbed, store, tmp_path)
            with pytest.raises(Crash), run_with_fuse(harness, Fuse(number)):
                play(harness)
            harness.restart()
            play(harness)

            where = f"{name} {number}"
            assert nonce(testbed) == 1, where
            assert [intent.state.value for intent in harness.intents(PROBE)] == ["final"], where
            states = {testbed.network.status(task) for task in harness.probed()}
            assert (len(harness.probed()), states) == (3, {Status.STARTED}), where
            assert harness.credit() == ETHER - 3 * FEE, where
            harness.close()
