"""The daemon dies at every commit, signature and send; its successor sends the push once."""

from pathlib import Path

import pytest

from oracle.reporting.reporting_context import PUSH
from oracle.store.database import Store
from tests.support.evm.chain import Chain
from tests.support.office import Office, Premises
from tests.support.sending.fuses import Crash, Deaths, Fuse, install_fuse
from tests.support.sending.in_flight import GWEI, mine_expensive_blocks
from tests.support.sending.journals import find_journal_gaps
from tests.support.sending.phases import run_push
from tests.support.sending.proxy import Proxy
from tests.support.sending.stalls import reuse_store
from tests.support.txmgr.stores import NewStore

# Every point of a push takes seconds on a shared machine.
pytestmark = pytest.mark.timeout(600)


def points(premises: Premises, store: Store, evidence: Path) -> list[str]:
    """Return the points at which a push can die, from a complete push."""
    office = Office(premises, store, evidence)
    office.period()
    fuse = Fuse()
    with install_fuse(office, fuse):
        run_push(office)
    office.close()
    assert fuse.unstored == []
    return fuse.passed


def test_case_f01_push_is_completed_once_after_crash_at_any_point(
    premises: Premises, fresh_chain: Chain, new_store: NewStore, deaths: Deaths, tmp_path: Path
):
    with reuse_store(new_store) as (emptied, _):
        with fresh_chain.undone(), emptied() as store:
            passed = points(premises, store, tmp_path)
        # Signed, planned, ready, assigned, signed, sent, mined, final.
        assert passed.count("after a commit") >= 8
        assert passed.count("after a send") == 2
        assert passed.count("after signing a statement") == 1
        assert passed.count("after signing a transaction") == 1

        for number, name in deaths.of(passed):
            with fresh_chain.undone(), emptied() as store:
                office = Office(premises, store, tmp_path)
                nonce = premises.nonce
                office.period()
                with pytest.raises(Crash), install_fuse(office, Fuse(number)):
                    run_push(office)
                office.restart()
                run_push(office)

                where = f"{name} {number}"
                assert premises.round == 1, where
                assert premises.nonce == nonce + 1, where
                assert office.states(PUSH) == ["final"], where
                assert office.intents(PUSH)[0].nonce == nonce, where
                assert [state for state, _ in office.reports()].count("landed") == 1, where
                assert find_journal_gaps(office) == [], where
                office.close()


def test_case_f02_stored_bytes_are_sent_unchanged_after_crash(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office, (first, second) = proxied_office, proxies
    mine_expensive_blocks(office, GWEI)
    office.period()
    with pytest.raises(Crash), install_fuse(office, Fuse("before a send")):
        run_push(office)
    assert first.sent == []
    with office.store.read_transaction() as uow:
        (slot,) = uow.outbox.slots.list_unfinished(office.context.account)
        (stored,) = uow.outbox.slots.list_attempts(slot)

    # Fees have changed meanwhile, so a new signature would be of another transaction.
    mine_expensive_blocks(office, GWEI)
    office.restart()
    office.tick()
    mine_expensive_blocks(office, GWEI)
    office.until_final()
    assert set(first.sent) == set(second.sent) == {"0x" + stored.signed.raw.hex()}
    assert office.premises.round == 1
    assert office.states(PUSH) == ["final"]
