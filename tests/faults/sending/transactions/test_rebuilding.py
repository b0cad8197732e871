"""The nonces of a lost database are rebuilt from chain and pool; none is assigned twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from oracle.errors import InputError, TransientError
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import NOOP, PUSH, IntentState, NonceState
from oracle.txmgr.nonce_sync import reconcile_nonces
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.support.harness import FINALITY, SETTINGS, Harness, run_next_step
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

COUNT = "eth_getTransactionCount"


def test_rebuild_stores_a_pending_nonce_without_searching_blocks(
    harness: Harness, new_store: NewStore
):
    harness.period()
    harness.tick()
    with new_store() as fresh:
        context = restart_with_refused_store(harness, prepare_empty_store(harness, fresh))
        findings = plan_outbox_rebuild(context, 1000)
        store_rebuild_plan(harness, context, findings)
        assert (findings.mined, findings.pending, get_next_nonce(context)) == (1, 2, 2)
        assert get_rebuild_reasons(harness)[1] is None


def test_nonce_dropped_after_a_rebuild_is_filled_with_a_noop(
    harness: Harness, new_store: NewStore
):
    harness.period()
    harness.tick()
    chain = harness.testbed.chain
    (lost,) = chain.rpc("eth_getBlockByNumber", "pending", False)["transactions"]
    with new_store() as fresh:
        context = restart_with_refused_store(harness, prepare_empty_store(harness, fresh))
        store_rebuild_plan(harness, context, plan_outbox_rebuild(context, 1000))
        harness.restart(store=fresh)
        # It only waits; there is no fault.
        assert plan_outbox_rebuild(harness.context, 1000).is_empty

        chain.rpc("anvil_dropTransaction", lost)
        chain.later(SETTINGS.ttl_seconds)
        while "live" not in harness.states(PUSH):
            assert len(harness.reports()) < 20, harness.steps
            harness.period()
            harness.tick()
        harness.mine(3)
        assert (harness.testbed.nonce, get_next_nonce(harness.context)) == (1, 3)
        with pytest.raises(
            TransientError, match=r"no longer in any mempool, .* nonces 1; .* rebuild --from-chain"
        ):
            reconcile_nonces(harness.context)

        findings = plan_outbox_rebuild(harness.context, 1000)
        assert (findings.nonces, findings.dropped, findings.may_have_lost_calls) == (
            range(3, 3),
            [1],
            False,
        )
        store_rebuild_plan(harness, harness.context, findings)
        harness.tick()
        harness.mine()
        harness.until_final()

        noops = [(intent.nonce, intent.state) for intent in harness.intents(NOOP)]
        assert noops == [(1, IntentState.FINAL)]
        assert harness.intents(PUSH)[0].state is IntentState.FINAL
        assert (harness.testbed.nonce, harness.testbed.round) == (3, 1)
        assert plan_outbox_rebuild(harness.context, 1000).is_empty


def test_nonce_below_the_search_depth_is_rebuilt_without_a_hash(
    sqlite_harness: Harness, tmp_path: Path
):
    harness = sqlite_harness
    with copy_database(harness, tmp_path) as copy:
        harness.pushed()
        harness.mine(5)
        harness.pushed()
        context = restart_with_refused_store(harness, copy)
        findings = plan_outbox_rebuild(context, 3)
        store_rebuild_plan(harness, context, findings)
        assert get_next_nonce(context) == 3
        assert [text is None for text in get_rebuild_reasons(harness).values()] == [True, False]


def test_call_on_a_nonce_used_by_the_lost_database_is_superseded(
    sqlite_harness: Harness, tmp_path: Path
):
    harness = sqlite_harness
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    while harness.states() != ["assigned"]:
        assert run_next_step(harness.context, harness.source.fetch_heads()) is not None
    with copy_database(harness, tmp_path) as copy:
        # The lost database signed and sent the nonce; the copy had only assigned it.
        harness.tick()
        harness.mine(FINALITY + 1)
        harness.restart(store=copy)
        findings = plan_outbox_rebuild(harness.context, 1000)
        assert (list(findings.nonces_ahead), findings.nonces) == ([1], range(2, 2))
        store_rebuild_plan(harness, harness.context, findings)
        harness.tick()
        with copy.read_transaction() as uow:
            slot = uow.outbox.slots.find_slot(harness.context.account, 1)
            assert uow.outbox.accounts.find_pause(harness.context.account) is None
        assert slot is not None
        assert (slot.state, slot.gas_used) == (
            NonceState.FINAL,
            findings.transaction_by_nonce[1].gas_used,
        )
        (push,) = harness.intents(PUSH)[:1]
        assert (push.state, push.superseded_by) == (IntentState.SUPERSEDED, slot.intent_id)


def test_gap_in_assigned_nonces_prevents_startup(sqlite_harness: Harness):
    harness = sqlite_harness
    with harness.context.write_transaction() as uow:
        outbox, account = uow.outbox, harness.context.account
        for nonce in (1, 3):
            outbox.slots.record_rebuilt_nonce(account, nonce, None, None, harness.context.stamp)
        outbox.accounts.raise_next_nonce(account, 4, harness.context.stamp)
    with pytest.raises(InputError, match=r"lost nonces of .* that it assigned: 2;"):
        reconcile_nonces(harness.context)
    with harness.store.read_transaction() as uow:
        assert uow.outbox.slots.list_missing_nonces(harness.context.account, 4) == [2]


def test_new_account_is_enrolled_if_two_endpoints_report_nonce_0(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], new_sqlite_store: NewStore
):
    harness = proxied_harness
    proxies[1].rule(COUNT, faults.return_status(503), times=1)
    for proxy in proxies:
        proxy.rule(COUNT, faults.respond_with("0x0"))
    with new_sqlite_store() as fresh:
        context = replace(harness.context, store=prepare_empty_store(harness, fresh))
        with pytest.raises(TransientError, match="another provider reports the same"):
            reconcile_nonces(context)
        assert get_next_nonce(context) is None
        step = reconcile_nonces(context)
        assert (step and step.action, get_next_nonce(context)) == ("enrolled", 0)
