"""The daemon dies at every commit, signature and send; its successor sends the push once."""

from pathlib import Path

import pytest

from oracle.store.database import Store
from oracle.store.outbox.records import PUSH
from tests.support.evm.chain import Chain
from tests.support.harness import Harness, OracleTestbed
from tests.support.sending.fuses import Crash, Deaths, Fuse, install_fuse
from tests.support.sending.in_flight import GWEI, mine_expensive_blocks
from tests.support.sending.journals import find_journal_gaps
from tests.support.sending.phases import run_push
from tests.support.sending.proxy import Proxy
from tests.support.sending.stalls import reuse_store
from tests.support.txmgr.stores import NewStore

# Every point of a push takes seconds on a shared machine.
pytestmark = pytest.mark.timeout(600)


def list_death_points(testbed: OracleTestbed, store: Store, evidence: Path) -> list[str]:
    """Return the points at which a push can die, from a complete push."""
    harness = Harness(testbed, store, evidence)
    harness.period()
    fuse = Fuse()
    with install_fuse(harness, fuse):
        run_push(harness)
    harness.close()
    assert fuse.unstored == []
    return fuse.passed


def test_case_f01_push_is_completed_once_after_any_crash(
    testbed: OracleTestbed,
    fresh_chain: Chain,
    new_store: NewStore,
    death_points: Deaths,
    tmp_path: Path,
):
    with reuse_store(new_store) as (emptied, _):
        with fresh_chain.undone(), emptied() as store:
            passed = list_death_points(testbed, store, tmp_path)
        # Signed, planned, ready, assigned, signed, sent, mined, final.
        assert passed.count("after a commit") >= 8
        assert passed.count("after a send") == 2
        assert passed.count("after signing a statement") == 1
        assert passed.count("after signing a transaction") == 1

        for number, name in death_points.of(passed):
            with fresh_chain.undone(), emptied() as store:
                harness = Harness(testbed, store, tmp_path)
                nonce = testbed.nonce
                harness.period()
                with pytest.raises(Crash), install_fuse(harness, Fuse(number)):
                    run_push(harness)
                harness.restart()
                run_push(harness)

                where = f"{name} {number}"
                assert testbed.round == 1, where
                assert testbed.nonce == nonce + 1, where
                assert harness.states(PUSH) == ["final"], where
                assert harness.intents(PUSH)[0].nonce == nonce, where
                assert [state for state, _ in harness.reports()].count("landed") == 1, where
                assert find_journal_gaps(harness) == [], where
                harness.close()


def test_case_f02_stored_bytes_are_sent_unchanged_after_a_crash(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, (first, second) = proxied_harness, proxies
    mine_expensive_blocks(harness, GWEI)
    harness.period()
    with pytest.raises(Crash), install_fuse(harness, Fuse("before a send")):
        run_push(harness)
    assert first.sent == []
    with harness.store.read_transaction() as uow:
        (slot,) = uow.outbox.slots.list_unfinished(harness.context.account)
        (stored,) = uow.outbox.slots.list_attempts(slot)

    # Fees have changed meanwhile, so a new signature would be of another transaction.
    mine_expensive_blocks(harness, GWEI)
    harness.restart()
    harness.tick()
    mine_expensive_blocks(harness, GWEI)
    harness.until_final()
    assert set(first.sent) == set(second.sent) == {"0x" + stored.signed.raw.hex()}
    assert harness.testbed.round == 1
    assert harness.states(PUSH) == ["final"]
