"""The daemon dies at every commit and send of a system task; the next one finishes it once."""

from pathlib import Path

import pytest

from oracle.dispatch.probe_wants import PROBE
from oracle.store.database import Store
from tests.integration.evm.test_dispatching_crashes import nonce, play, run_with_fuse
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain
from tests.support.evm.network import ETHER, Status
from tests.support.office import Premises
from tests.support.sending.fuses import Crash, Fuse
from tests.support.txmgr.dispatch_office import fresh_stage, premises
from tests.support.txmgr.office_fixtures import fresh_chain
from tests.support.txmgr.probing_office import FEE, WINDOW, ProbingOffice, fund_dispatcher
from tests.support.txmgr.stores import NewStore

__all__ = ["chain", "fresh_chain", "fresh_stage", "premises"]


def due(premises: Premises, store: Store, evidence: Path) -> ProbingOffice:
    """Prepare nodes that are all due, with nothing planned."""
    office = ProbingOffice(premises, store, evidence)
    fund_dispatcher(office)
    office.begin_window()
    premises.chain.later(WINDOW * 9 // 10)
    premises.chain.mine()
    office.index()
    return office


@pytest.mark.nightly
@pytest.mark.slow
def test_probe_is_completed_once_after_crash_at_any_point(
    premises: Premises, fresh_chain: Chain, new_sqlite_store: NewStore, tmp_path: Path
):
    with fresh_chain.undone(), new_sqlite_store() as store:
        office, fuse = due(premises, store, tmp_path), Fuse()
        with run_with_fuse(office, fuse):
            play(office)
        office.close()
    assert fuse.passed.count("after a send") == 1

    for number, name in enumerate(fuse.passed):
        with fresh_chain.undone(), new_sqlite_store() as store:
            office = due(premises, store, tmp_path)
            with pytest.raises(Crash), run_with_fuse(office, Fuse(number)):
                play(office)
            office.restart()
            play(office)

            where = f"{name} {number}"
            assert nonce(premises) == 1, where
            assert [intent.state.value for intent in office.intents(PROBE)] == ["final"], where
            states = {premises.network.status(task) for task in office.probed()}
            assert (len(office.probed()), states) == (3, {Status.STARTED}), where
            assert office.credit() == ETHER - 3 * FEE, where
            office.close()
