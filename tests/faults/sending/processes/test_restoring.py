"""A daemon that returns after an hour, after a reorg, or with an old or an empty database."""

from dataclasses import replace
from pathlib import Path

import pytest

from oracle.errors import InputError, TransientError
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.store.backup import back_up_database, restore_database
from oracle.store.database import Store
from oracle.store.outbox.records import PUSH, IntentState, NonceState, SignedStatement
from oracle.txmgr.nonce_sync import reconcile_nonces
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.support.harness import FINALITY, SETTINGS, Harness, create_sending_jobs
from tests.support.sending import faults
from tests.support.sending.old_databases import (
    copy_database,
    get_next_nonce,
    get_rebuild_reasons,
    prepare_empty_store,
    restart_with_refused_store,
    store_rebuild_plan,
)
from tests.support.sending.proxy import Proxy
from tests.support.txmgr.stores import NewStore

HOUR = 3600
COUNT = "eth_getTransactionCount"


def test_case_f07_transaction_mined_in_downtime_is_not_resent(
    harness: Harness,
):
    harness.period()
    harness.tick()
    harness.close()
    testbed = harness.testbed
    testbed.chain.mine()
    testbed.chain.later(HOUR)
    testbed.chain.mine()
    assert testbed.nonce == 2

    harness.open()
    with harness.store.read_transaction() as uow:
        slot = uow.outbox.slots.list_unfinished(harness.context.account)[0]
    step_results = harness.until_final()

    with harness.store.read_transaction() as uow:
        attempts = uow.outbox.slots.list_attempts(slot)
    assert "push final" in [step.action for step in step_results]
    assert [attempt.sends for attempt in attempts] == [1]
    assert harness.intents(PUSH)[0].state is IntentState.FINAL
    assert testbed.round == 1


def test_case_f32_stored_bytes_are_resent_after_reorg_in_downtime(
    harness: Harness,
):
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    assert harness.states() == ["mined"]
    with harness.store.read_transaction() as uow:
        (slot,) = uow.outbox.slots.list_unfinished(harness.context.account)
        (before,) = uow.outbox.slots.list_attempts(slot)
    harness.close()
    chain = harness.testbed.chain
    chain.rpc("anvil_reorg", 1, [])
    chain.rpc("anvil_dropTransaction", before.signed.tx_hash)
    harness.mine(2)
    assert harness.testbed.round == 0

    harness.open()
    harness.tick()
    assert harness.journal().count("reorged") == 1
    harness.mine()
    harness.until_final()

    with harness.store.read_transaction() as uow:
        at = uow.outbox.slots.find_slot(harness.context.account, slot.nonce)
        assert at is not None
        (after,) = uow.outbox.slots.list_attempts(at)
    assert (after.signed, at.state) == (before.signed, NonceState.FINAL)
    assert after.sends > before.sends
    assert harness.testbed.round == 1


def test_case_f19_stale_database_copy_is_rejected_until_rebuilt(
    sqlite_harness: Harness, tmp_path: Path
):
    harness = sqlite_harness
    harness.pushed()
    with copy_database(harness, tmp_path) as copy:
        harness.pushed()
        sent = harness.intents(PUSH)[-1]
        context = restart_with_refused_store(harness, copy)
        assert (get_next_nonce(context), harness.testbed.nonce) == (2, 3)

        comparison = plan_outbox_rebuild(context, 1000)
        assert (comparison.next_nonce, comparison.mined, comparison.nonces) == (2, 3, range(2, 3))
        assert comparison.may_have_lost_calls
        store_rebuild_plan(harness, context, comparison)

        assert get_next_nonce(context) == 3
        assert comparison.transaction_by_nonce[2].hash in (get_rebuild_reasons(harness)[2] or "")
        assert sent.nonce == 2
        # Nothing is signed while transactions of the lost copy may still land; this is reported.
        harness.restart()
        assert "signs nothing until chain time" in (
            find_unsent_report_reason(harness.reporting) or ""
        )
        harness.period()
        harness.tick()
        harness.mine()
        assert (harness.testbed.nonce, harness.testbed.round) == (3, 2)
        harness.testbed.chain.later(SETTINGS.ttl_seconds)
        harness.testbed.chain.mine(FINALITY + 1)
        while harness.testbed.round == 2:
            assert len(harness.reports()) < 20, harness.steps
            harness.period()
            harness.tick()
            harness.mine()
        assert (harness.testbed.nonce, harness.testbed.round) == (4, 3)
        assert find_unsent_report_reason(harness.reporting) is None


def test_nothing_is_signed_after_a_restore_until_statements_expire(
    sqlite_harness: Harness, tmp_path: Path
):
    """The nonces do not show the loss, because the transaction since the backup is not mined."""
    harness = sqlite_harness
    url, restored_url = str(harness.store._url), f"sqlite:///{tmp_path / 'restored.sqlite'}"
    backup = tmp_path / "backup.sqlite"
    harness.pushed()
    back_up_database(url, backup)
    harness.period()
    harness.tick()
    (lost,) = list_signatures(harness)
    harness.testbed.chain.rpc("anvil_dropAllTransactions")

    restore_database(restored_url, backup, tmp_path / "unused", dry_run=False)
    with Store.open(restored_url) as restored:
        harness.restart(store=restored)
        create_sending_jobs(harness).reconcile_nonces()
        harness.period()
        harness.tick()
        assert list_signatures(harness) == []
        assert "signs nothing until" in (find_unsent_report_reason(harness.reporting) or "")
        harness.testbed.chain.later(SETTINGS.ttl_seconds)
        while harness.testbed.round == 1:
            assert len(harness.reports()) < 20, harness.steps
            harness.period()
            harness.tick()
            harness.mine()
        assert min(later.deadline for later in list_signatures(harness)) > lost.deadline
        # The embargo begins only once after a restore.
        create_sending_jobs(harness).reconcile_nonces()
        assert find_unsent_report_reason(harness.reporting) is None


@pytest.mark.parametrize("skew", [2 * 86_400, 10**9])
def test_clock_that_is_days_ahead_starts_no_embargo(sqlite_harness: Harness, skew: int):
    """An embargo is never shortened, so the reporter would sign nothing for decades."""
    harness = sqlite_harness
    correct_clock = harness.context.clock
    harness.context = replace(harness.context, clock=lambda: correct_clock() + skew)
    with pytest.raises(TransientError, match="the clock of this machine is at"):
        harness.contexts.start_signing_embargo()

    harness.context = replace(harness.context, clock=correct_clock)
    harness.contexts.start_signing_embargo()
    domain = harness.context.sender_account.domain
    with harness.store.read_transaction() as uow:
        embargo_end = uow.statements.find_embargo_end(
            domain.chain_id, domain.contract, harness.context.sender_account.signer.address
        )
    assert embargo_end == harness.testbed.chain.time + SETTINGS.ttl_seconds


def test_embargo_starts_at_the_newest_block_if_the_clock_is_behind(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.context = replace(harness.context, clock=lambda: 0.0)
    harness.contexts.start_signing_embargo()
    domain = harness.context.sender_account.domain
    with harness.store.read_transaction() as uow:
        embargo_end = uow.statements.find_embargo_end(
            domain.chain_id, domain.contract, harness.context.sender_account.signer.address
        )
    assert embargo_end == harness.testbed.chain.time + SETTINGS.ttl_seconds


def list_signatures(harness: Harness) -> list[SignedStatement]:
    """Return the statements of the second round that the database contains."""
    with harness.store.read_transaction() as uow:
        return uow.statements.list_for_round(harness.testbed.address, 2)


def test_case_f19_rebuilt_database_does_not_reuse_a_nonce(harness: Harness, new_store: NewStore):
    harness.pushed()
    harness.pushed()
    with new_store() as fresh:
        context = restart_with_refused_store(harness, prepare_empty_store(harness, fresh))
        comparison = plan_outbox_rebuild(context, 1000)
        assert (comparison.next_nonce, comparison.mined) == (None, 3)
        assert set(comparison.transaction_by_nonce) == {0, 1, 2}
        store_rebuild_plan(harness, context, comparison)

        assert get_next_nonce(context) == 3
        assert get_rebuild_reasons(harness).keys() == {0, 1, 2}
        with fresh.read_transaction() as uow:
            quiet = uow.statements.find_embargo_end(
                context.sender_account.domain.chain_id,
                context.sender_account.domain.contract,
                context.sender_account.signer.address,
            )
        assert quiet == harness.testbed.chain.time + SETTINGS.ttl_seconds
        harness.restart()
        assert plan_outbox_rebuild(harness.context, 1000).is_empty


def test_case_f19_higher_nonce_at_one_endpoint_stops_sending(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    proxies[0].rule(COUNT, faults.shift_number(5))
    with pytest.raises(TransientError, match="no sender starts until another"):
        reconcile_nonces(harness.context)
    with pytest.raises(TransientError, match="two providers must agree"):
        plan_outbox_rebuild(harness.context, 100)
    proxies[1].rule(COUNT, faults.shift_number(5))
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        reconcile_nonces(harness.context)
    assert proxies[0].sent == proxies[1].sent == []
    proxies[0].heal()
    proxies[1].heal()
    assert reconcile_nonces(harness.context) is None
