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
from tests.support.office import FINALITY, SETTINGS, Office, next_step, sending_jobs_of
from tests.support.sending.background_calls import get_pause_kind
from tests.support.sending.faults import shift_number
from tests.support.sending.in_flight import list_attempts, list_slots
from tests.support.sending.old_databases import next_nonce, store_rebuild_plan
from tests.support.sending.proxy import Proxy
from tests.support.sending.stolen_keys import use_nonce_elsewhere


def list_paused_senders(jobs: SendingJobs) -> list[str]:
    """Return the paused senders, as `/readyz` shows them."""
    findings = jobs.health.build_report().findings
    return [finding.detail for finding in findings if finding.condition is Condition.PAUSED_SENDER]


def test_case_f16_key_used_elsewhere_while_outbox_is_empty_pauses_only_its_sender(
    office: Office,
):
    jobs, before = daemon(office), FOREIGN._value.get()
    use_nonce_elsewhere(office)
    with capture_logs() as logs:
        jobs.reconcile_nonces()
    assert (get_pause_kind(office), FOREIGN._value.get()) == (PauseKind.FOREIGN, before + 1)
    (line,) = [entry for entry in logs if entry["event"] == "account_nonce_ahead"]
    assert (line["counted"], line["given_out"]) == (2, 1)
    (reason,) = list_paused_senders(jobs)
    assert "has used nonces up to 1, this database gave out only those below 1" in reason
    assert f"outbox release {office.context.account.address}" in reason
    assert "outbox rebuild --from-chain" in reason

    # Indexed and signed is as before; no nonce is given out.
    office.period()
    folded = get_head(office)
    done = run_daemon_turns(office, jobs)
    assert get_head(office) > folded
    assert {"report signed", "push planned"} <= done
    assert (next_nonce(office.context), list_slots(office)) == (1, [])
    # It is reported once.
    with capture_logs() as logs:
        jobs.reconcile_nonces()
    assert logs == []


def test_foreign_pause_replaces_temporary_funds_pause(
    sqlite_office: Office,
):
    office = sqlite_office
    jobs = daemon(office)
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            office.context.account, PauseKind.FUNDS, "no ether", office.context.stamp
        )
    use_nonce_elsewhere(office)
    jobs.reconcile_nonces()
    office.period()
    run_daemon_turns(office, jobs)
    assert (get_pause_kind(office), list_slots(office)) == (PauseKind.FOREIGN, [])
    # The earlier reason of the pause is kept, whatever the thief does next.
    use_nonce_elsewhere(office)
    jobs.reconcile_nonces()
    reason = get_pause_reason(office)
    assert reason.startswith(f"{office.context.account.address} has used nonces up to 2,")
    assert reason.endswith("it rested before, funds: no ether")


def test_daemon_starts_with_foreign_pause_and_signs_nothing_during_embargo(
    sqlite_office: Office,
):
    office = sqlite_office
    use_nonce_elsewhere(office)
    with pytest.raises(InputError, match="outbox rebuild --from-chain"):
        daemon(office)
    store_rebuild_plan(office, office.context, plan_outbox_rebuild(office.context, 1000))
    jobs = daemon(office)
    office.premises.chain.later(SETTINGS.ttl_seconds)
    office.premises.chain.mine()
    office.index()
    assert find_unsent_report_reason(office.reporting) is None
    use_nonce_elsewhere(office)
    jobs.reconcile_nonces()

    again = daemon(office)
    assert again.is_reconciled
    assert get_pause_kind(office) is PauseKind.FOREIGN
    assert "signs nothing" in (find_unsent_report_reason(office.reporting) or "")
    assert any("sends nothing (foreign)" in detail for detail in list_paused_senders(again))
    office.period()
    run_daemon_turns(office, again)
    assert (next_nonce(office.context), count_assigned_slots(office)) == (2, [1])


def test_run_once_is_refused_even_when_sender_is_paused_as_foreign(sqlite_office: Office):
    office = sqlite_office
    jobs = daemon(office)
    use_nonce_elsewhere(office)
    jobs.reconcile_nonces()
    once = daemon_before_its_first_turn(office)
    once.is_one_shot = True
    with pytest.raises(InputError, match="has used nonces up to 1"):
        once.reconcile_nonces()


def test_nonce_count_of_single_endpoint_does_not_pause_running_sender(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    jobs = daemon(office)
    proxies[0].rule("eth_getTransactionCount", shift_number(5))
    with pytest.raises(TransientError, match="running senders continue"):
        jobs.reconcile_nonces()
    assert get_pause_kind(office) is None
    proxies[0].heal()
    office.period()
    run_daemon_turns(office, jobs)
    assert office.states() == ["live"]


def test_released_sender_continues_with_unused_nonce_after_rebuild(
    sqlite_office: Office,
):
    office = sqlite_office
    jobs = daemon(office)
    use_nonce_elsewhere(office)
    jobs.reconcile_nonces()
    findings = plan_outbox_rebuild(office.context, 1000)
    assert (findings.nonces, list(findings.transaction_by_nonce)) == (range(1, 2), [1])
    store_rebuild_plan(office, office.context, findings)
    assert get_pause_kind(office) is PauseKind.FOREIGN
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.resume(office.context.account, office.context.stamp)

    jobs = daemon(office)
    assert jobs.health.pause_reasons == []
    office.premises.chain.later(SETTINGS.ttl_seconds)
    while office.premises.round == 0:
        assert len(office.reports()) < 20, office.steps
        office.period()
        run_daemon_turns(office, jobs)
        office.mine()
    assert count_assigned_slots(office) == [1, 2]


def test_foreign_use_of_open_nonce_and_next_nonce_is_reported_and_neither_is_reused(
    sqlite_office: Office,
):
    office, before = sqlite_office, FOREIGN._value.get()
    jobs = daemon(office)
    office.period()
    run_daemon_turns(office, jobs)
    assert office.states() == ["live"]
    office.premises.chain.rpc("anvil_dropAllTransactions")
    for _ in range(2):
        use_nonce_elsewhere(office)
    office.index()
    jobs.reconcile_nonces()
    office.mine(FINALITY + 1)
    run_daemon_turns(office, jobs)
    assert office.states() == ["held"]
    jobs.reconcile_nonces()
    # One of the two nonces belonged to the daemon.
    assert FOREIGN._value.get() == before + 2
    assert (
        "has used nonces up to 2, this database gave out only those below 2"
        in get_pause_reason(office)
    )

    store_rebuild_plan(office, office.context, plan_outbox_rebuild(office.context, 1000))
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.resume(office.context.account, office.context.stamp)
    assert daemon(office).health.pause_reasons == []
    assert next_nonce(office.context) == 3


def test_nothing_is_signed_for_assigned_nonce_of_key_used_elsewhere(sqlite_office: Office):
    office = sqlite_office
    jobs = daemon(office)
    office.period()
    office.index()
    office.repeat(plan_push)
    while office.states() != ["assigned"]:
        assert next_step(office.context, office.source.fetch_heads()) is not None
    for _ in range(2):
        use_nonce_elsewhere(office)
    jobs.reconcile_nonces()
    run_daemon_turns(office, jobs)
    assert (office.states(), list_attempts(office)) == (["assigned"], [])

    office.mine(FINALITY + 1)
    run_daemon_turns(office, jobs)
    assert (office.states(), list_attempts(office)) == (["held"], [])


def test_database_missing_own_nonces_stops_daemon(sqlite_office: Office):
    office = sqlite_office
    jobs = daemon(office)
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.raise_next_nonce(office.context.account, 3, office.context.stamp)
        uow.outbox.slots.record_rebuilt_nonce(
            office.context.account, 1, None, None, office.context.stamp
        )
    with pytest.raises(InputError, match=r"lost nonces of .* that it assigned: 2"):
        jobs.reconcile_nonces()
    assert get_pause_kind(office) is None


def daemon_before_its_first_turn(office: Office) -> SendingJobs:
    """Return the sending jobs of a process that has just started."""
    office.index()
    return sending_jobs_of(office)


def daemon(office: Office) -> SendingJobs:
    """Return the sending jobs of a daemon that has compared its nonces with the chain's."""
    jobs = daemon_before_its_first_turn(office)
    jobs.reconcile_nonces()
    return jobs


def run_daemon_turns(office: Office, jobs: SendingJobs) -> set[object]:
    """Index to the head, then publish until nothing is left; return the results."""
    office.index()
    done: set[object] = set()
    for _ in range(100):
        jobs.confirm_transactions()
        facts = jobs.advance_reports()
        if facts is None:
            return done
        done.add(facts["did"])
    raise AssertionError(done)


def get_head(office: Office) -> int:
    with office.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    return cursor.number


def get_pause_reason(office: Office) -> str:
    with office.store.read_transaction() as uow:
        pause = uow.outbox.accounts.get_pause(office.context.account)
    assert pause is not None
    return pause.reason


def count_assigned_slots(office: Office) -> list[int]:
    return [slot.nonce for slot in list_slots(office)]
