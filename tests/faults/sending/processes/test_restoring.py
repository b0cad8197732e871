"""A daemon that returns after an hour, after a reorg, or with an old or an empty database."""

from pathlib import Path

import pytest

from oracle.errors import InputError, TransientError
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.reporting.reporting_context import PUSH
from oracle.store.outbox.records import IntentState, NonceState
from oracle.txmgr.nonce_sync import reconcile_nonces
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.support.office import SETTINGS, Office
from tests.support.sending import faults
from tests.support.sending.old_databases import (
    copy_database,
    get_rebuild_reasons,
    next_nonce,
    prepare_empty_store,
    restart_with_refused_store,
    store_rebuild_plan,
)
from tests.support.sending.proxy import Proxy
from tests.support.txmgr.stores import NewStore

HOUR = 3600
COUNT = "eth_getTransactionCount"


def test_case_f07_transaction_mined_during_downtime_is_recognised_and_not_resent(
    office: Office,
):
    office.period()
    office.tick()
    office.close()
    premises = office.premises
    premises.chain.mine()
    premises.chain.later(HOUR)
    premises.chain.mine()
    assert premises.nonce == 2

    office.open()
    with office.store.read_transaction() as uow:
        slot = uow.outbox.slots.list_unfinished(office.context.account)[0]
    done = office.until_final()

    with office.store.read_transaction() as uow:
        attempts = uow.outbox.slots.list_attempts(slot)
    assert "push final" in [step.action for step in done]
    assert [attempt.sends for attempt in attempts] == [1]
    assert office.intents(PUSH)[0].state is IntentState.FINAL
    assert premises.round == 1


def test_case_f32_reorg_during_downtime_is_detected_at_restart_and_bytes_are_resent(
    office: Office,
):
    office.period()
    office.tick()
    office.mine()
    office.tick()
    assert office.states() == ["mined"]
    with office.store.read_transaction() as uow:
        (slot,) = uow.outbox.slots.list_unfinished(office.context.account)
        (before,) = uow.outbox.slots.list_attempts(slot)
    office.close()
    chain = office.premises.chain
    chain.rpc("anvil_reorg", 1, [])
    chain.rpc("anvil_dropTransaction", before.signed.tx_hash)
    office.mine(2)
    assert office.premises.round == 0

    office.open()
    office.tick()
    assert office.journal().count("reorged") == 1
    office.mine()
    office.until_final()

    with office.store.read_transaction() as uow:
        at = uow.outbox.slots.get_slot(office.context.account, slot.nonce)
        assert at is not None
        (after,) = uow.outbox.slots.list_attempts(at)
    assert (after.signed, at.state) == (before.signed, NonceState.FINAL)
    assert after.sends > before.sends
    assert office.premises.round == 1


def test_case_f19_old_database_copy_is_refused_until_rebuilt_from_chain(
    sqlite_office: Office, tmp_path: Path
):
    office = sqlite_office
    office.pushed()
    with copy_database(office, tmp_path) as copy:
        office.pushed()
        sent = office.intents(PUSH)[-1]
        context = restart_with_refused_store(office, copy)
        assert (next_nonce(context), office.premises.nonce) == (2, 3)

        comparison = plan_outbox_rebuild(context, 1000)
        assert (comparison.next_nonce, comparison.mined, comparison.nonces) == (2, 3, range(2, 3))
        assert comparison.may_have_lost_calls
        store_rebuild_plan(office, context, comparison)

        assert next_nonce(context) == 3
        assert comparison.transaction_by_nonce[2].hash in (get_rebuild_reasons(office)[2] or "")
        assert sent.nonce == 2
        # Nothing is signed while transactions of the lost copy may still land; this is reported.
        office.restart()
        assert "signs nothing until chain time" in (
            find_unsent_report_reason(office.reporting) or ""
        )
        office.period()
        office.tick()
        office.mine()
        assert (office.premises.nonce, office.premises.round) == (3, 2)
        office.premises.chain.later(SETTINGS.ttl_seconds)
        while office.premises.round == 2:
            assert len(office.reports()) < 20, office.steps
            office.period()
            office.tick()
            office.mine()
        assert (office.premises.nonce, office.premises.round) == (4, 3)
        assert find_unsent_report_reason(office.reporting) is None


def test_case_f19_no_nonce_is_reused_after_lost_database_is_rebuilt(
    office: Office, new_store: NewStore
):
    office.pushed()
    office.pushed()
    with new_store() as fresh:
        context = restart_with_refused_store(office, prepare_empty_store(office, fresh))
        comparison = plan_outbox_rebuild(context, 1000)
        assert (comparison.next_nonce, comparison.mined) == (None, 3)
        assert set(comparison.transaction_by_nonce) == {0, 1, 2}
        store_rebuild_plan(office, context, comparison)

        assert next_nonce(context) == 3
        assert get_rebuild_reasons(office).keys() == {0, 1, 2}
        with fresh.read_transaction() as uow:
            quiet = uow.statements.get_embargo_end(
                context.sender_account.domain.chain_id,
                context.sender_account.domain.contract,
                context.sender_account.signer.address,
            )
        assert quiet == office.premises.chain.time + SETTINGS.ttl_seconds
        office.restart()
        assert plan_outbox_rebuild(office.context, 1000).is_empty


def test_case_f19_higher_nonce_count_of_single_endpoint_stops_sending_and_changes_nothing(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    proxies[0].rule(COUNT, faults.shift_number(5))
    with pytest.raises(TransientError, match="no sender starts until another"):
        reconcile_nonces(office.context)
    with pytest.raises(TransientError, match="two providers must agree"):
        plan_outbox_rebuild(office.context, 100)
    proxies[1].rule(COUNT, faults.shift_number(5))
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        reconcile_nonces(office.context)
    assert proxies[0].sent == proxies[1].sent == []
    proxies[0].heal()
    proxies[1].heal()
    assert reconcile_nonces(office.context) is None
