"""The chain counts more nonces of our account than we assigned, in the jobs of a daemon (0110)."""

import pytest
from structlog.testing import capture_logs

from oracle.daemon.sending_jobs import SendingJobs
from oracle.domain.health import Condition
from oracle.errors import InputError, TransientError
from oracle.reporting.readiness import find_unsent_report_reason
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PauseKind
from oracle.telemetry.txmgr_metrics import FOREIGN
from oracle.txmgr.rebuild_from_chain import plan_outbox_rebuild
from tests.support.harness import FINALITY, SETTINGS, Harness, create_sending_jobs, run_next_step
from tests.support.sending.background_calls import get_pause_kind
from tests.support.sending.faults import shift_number
from tests.support.sending.in_flight import list_attempts, list_slots
from tests.support.sending.old_databases import get_next_nonce, store_rebuild_plan
from tests.support.sending.proxy import Proxy
from tests.support.sending.stolen_keys import use_nonce_elsewhere


def list_paused_senders(jobs: SendingJobs) -> list[str]:
    """Return the paused senders, as `/readyz` shows them."""
    findings = jobs.health.build_report().findings
    return [finding.detail for finding in findings if finding.condition is Condition.PAUSED_SENDER]


def test_case_f16_key_used_elsewhere_pauses_only_its_sender(
    harness: Harness,
):
    jobs = create_reconciled_sending_jobs(harness)
    before = FOREIGN._value.get()
    use_nonce_elsewhere(harness)
    with capture_logs() as logs:
        jobs.reconcile_nonces()
    assert (get_pause_kind(harness), FOREIGN._value.get()) == (PauseKind.FOREIGN, before + 1)
    (line,) = [entry for entry in logs if entry["event"] == "account_nonce_ahead"]
    assert (line["counted"], line["assigned"]) == (2, 1)
    (reason,) = list_paused_senders(jobs)
    assert "has used nonces up to 1, this database assigned only those below 1" in reason
    assert f"outbox release {harness.context.account.address}" in reason
    assert "outbox rebuild --from-chain" in reason

    # Indexed and signed is as before; no nonce is given out.
    harness.period()
    folded = get_head(harness)
    actions = run_daemon_turns(harness, jobs)
    assert get_head(harness) > folded
    assert {"report signed", "push planned"} <= actions
    assert (get_next_nonce(harness.context), list_slots(harness)) == (1, [])
    # It is reported once.
    with capture_logs() as logs:
        jobs.reconcile_nonces()
    assert logs == []


def test_foreign_transaction_pause_replaces_a_pause_for_funds(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    jobs = create_reconciled_sending_jobs(harness)
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            harness.context.account, PauseKind.FUNDS, "no ether", harness.context.stamp
        )
    use_nonce_elsewhere(harness)
    jobs.reconcile_nonces()
    harness.period()
    run_daemon_turns(harness, jobs)
    assert (get_pause_kind(harness), list_slots(harness)) == (PauseKind.FOREIGN, [])
    # The earlier reason of the pause is kept, whatever the thief does next.
    use_nonce_elsewhere(harness)
    jobs.reconcile_nonces()
    reason = get_pause_reason(harness)
    assert reason.startswith(f"{harness.context.account.address} has used nonces up to 2,")
    assert reason.endswith("the sender was already paused for funds: no ether")


def test_daemon_signs_nothing_while_paused_for_key_use_elsewhere(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    use_nonce_elsewhere(harness)
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        create_reconciled_sending_jobs(harness)
    store_rebuild_plan(harness, harness.context, plan_outbox_rebuild(harness.context, 1000))
    jobs = create_reconciled_sending_jobs(harness)
    harness.testbed.chain.later(SETTINGS.ttl_seconds)
    harness.testbed.chain.mine()
    harness.mine(FINALITY)
    harness.index()
    assert find_unsent_report_reason(harness.reporting) is None
    use_nonce_elsewhere(harness)
    jobs.reconcile_nonces()

    again = create_reconciled_sending_jobs(harness)
    assert again.is_reconciled
    assert get_pause_kind(harness) is PauseKind.FOREIGN
    assert "signs nothing" in (find_unsent_report_reason(harness.reporting) or "")
    assert any("sends nothing (foreign)" in detail for detail in list_paused_senders(again))
    harness.period()
    run_daemon_turns(harness, again)
    assert (get_next_nonce(harness.context), list_assigned_nonces(harness)) == (2, [1])


def test_run_once_is_rejected_while_key_use_elsewhere_is_unresolved(sqlite_harness: Harness):
    harness = sqlite_harness
    jobs = create_reconciled_sending_jobs(harness)
    use_nonce_elsewhere(harness)
    jobs.reconcile_nonces()
    once = create_indexed_sending_jobs(harness)
    once.is_one_shot = True
    with pytest.raises(InputError, match="has used nonces up to 1"):
        once.reconcile_nonces()


def test_nonce_count_of_one_endpoint_does_not_pause_the_sender(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    jobs = create_reconciled_sending_jobs(harness)
    proxies[0].rule("eth_getTransactionCount", shift_number(5))
    with pytest.raises(TransientError, match="running senders continue"):
        jobs.reconcile_nonces()
    assert get_pause_kind(harness) is None
    proxies[0].heal()
    harness.period()
    run_daemon_turns(harness, jobs)
    assert harness.states() == ["live"]


def test_released_sender_continues_with_unused_nonce_after_rebuild(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    jobs = create_reconciled_sending_jobs(harness)
    use_nonce_elsewhere(harness)
    jobs.reconcile_nonces()
    findings = plan_outbox_rebuild(harness.context, 1000)
    assert (findings.nonces, list(findings.transaction_by_nonce)) == (range(1, 2), [1])
    store_rebuild_plan(harness, harness.context, findings)
    assert get_pause_kind(harness) is PauseKind.FOREIGN
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.resume(harness.context.account, harness.context.stamp)

    jobs = create_reconciled_sending_jobs(harness)
    assert jobs.health.pause_reasons == []
    harness.testbed.chain.later(SETTINGS.ttl_seconds)
    while harness.testbed.round == 0:
        assert len(harness.reports()) < 20, harness.steps
        harness.period()
        run_daemon_turns(harness, jobs)
        harness.mine()
    assert list_assigned_nonces(harness) == [1, 2]


def test_use_of_open_and_next_nonce_elsewhere_is_reported(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    before = FOREIGN._value.get()
    jobs = create_reconciled_sending_jobs(harness)
    harness.period()
    run_daemon_turns(harness, jobs)
    assert harness.states() == ["live"]
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    for _ in range(2):
        use_nonce_elsewhere(harness)
    harness.index()
    jobs.reconcile_nonces()
    harness.mine(FINALITY + 1)
    run_daemon_turns(harness, jobs)
    assert harness.states() == ["held"]
    jobs.reconcile_nonces()
    # One of the two nonces belonged to the daemon.
    assert FOREIGN._value.get() == before + 2
    assert (
        "has used nonces up to 2, this database assigned only those below 2"
        in get_pause_reason(harness)
    )

    store_rebuild_plan(harness, harness.context, plan_outbox_rebuild(harness.context, 1000))
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.resume(harness.context.account, harness.context.stamp)
    assert create_reconciled_sending_jobs(harness).health.pause_reasons == []
    assert get_next_nonce(harness.context) == 3


def test_nothing_is_signed_if_the_assigned_nonce_was_used_elsewhere(sqlite_harness: Harness):
    harness = sqlite_harness
    jobs = create_reconciled_sending_jobs(harness)
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    while harness.states() != ["assigned"]:
        assert run_next_step(harness.context, harness.source.fetch_heads()) is not None
    for _ in range(2):
        use_nonce_elsewhere(harness)
    jobs.reconcile_nonces()
    run_daemon_turns(harness, jobs)
    assert (harness.states(), list_attempts(harness)) == (["assigned"], [])

    harness.mine(FINALITY + 1)
    run_daemon_turns(harness, jobs)
    assert (harness.states(), list_attempts(harness)) == (["held"], [])


def test_daemon_exits_if_its_database_lacks_used_nonces(sqlite_harness: Harness):
    harness = sqlite_harness
    jobs = create_reconciled_sending_jobs(harness)
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.raise_next_nonce(harness.context.account, 3, harness.context.stamp)
        uow.outbox.slots.record_rebuilt_nonce(
            harness.context.account, 1, None, None, harness.context.stamp
        )
    with pytest.raises(InputError, match=r"lost nonces of .* that it assigned: 2"):
        jobs.reconcile_nonces()
    assert get_pause_kind(harness) is None


def create_indexed_sending_jobs(harness: Harness) -> SendingJobs:
    """Return the sending jobs of a process that has just started."""
    harness.index()
    return create_sending_jobs(harness)


def create_reconciled_sending_jobs(harness: Harness) -> SendingJobs:
    """Return the sending jobs of a daemon that has compared its nonces with the chain's."""
    jobs = create_indexed_sending_jobs(harness)
    jobs.reconcile_nonces()
    return jobs


def run_daemon_turns(harness: Harness, jobs: SendingJobs) -> set[object]:
    """Index to the head, then publish until nothing is left; return the results."""
    harness.index()
    actions: set[object] = set()
    for _ in range(100):
        jobs.confirm_transactions()
        facts = jobs.advance_reports()
        if facts is None:
            return actions
        actions.add(facts["did"])
    raise AssertionError(actions)


def get_head(harness: Harness) -> int:
    with harness.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    return cursor.number


def get_pause_reason(harness: Harness) -> str:
    with harness.store.read_transaction() as uow:
        pause = uow.outbox.accounts.find_pause(harness.context.account)
    assert pause is not None
    return pause.reason


def list_assigned_nonces(harness: Harness) -> list[int]:
    return [slot.nonce for slot in list_slots(harness)]
