"""A push from its report to its finality, on a real chain and both databases."""

from dataclasses import replace

import pytest

from oracle.errors import TransientError
from oracle.queries.outbox_figures import OutboxCounter
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PauseKind
from oracle.txmgr.context import StepResult
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import run_faulty_endpoint
from tests.support.harness import CAPS, ETHER, FINALITY, SETTINGS, Harness, run_next_step
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    harness,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "harness", "sqlite_harness", "testbed"]

GWEI = 10**9


@pytest.mark.main_path
def test_pushed_report_becomes_a_round_of_the_contract(harness: Harness):
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()

    assert harness.testbed.round == 1
    assert harness.states() == ["mined"]

    harness.until_final()
    assert harness.states() == ["final"]
    assert ("landed", None) in harness.reports()


def test_every_step_of_a_push_is_recorded_in_the_journal(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.pushed()
    harness.until_final()

    expected = ["planned", "ready", "assigned", "signed", "sent", "live", "mined", "final"]
    assert harness.journal() == expected


def test_next_round_does_not_wait_until_the_previous_is_final(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.pushed()
    # A node leaves, so that the next report has a change.
    harness.testbed.network.by(
        harness.testbed.network.nodes[0], harness.testbed.network.does.quit()
    )
    harness.pushed()

    assert harness.testbed.round == 2
    assert harness.states()[-1] == "mined"


def test_earliest_due_report_is_planned_first(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.index()
    with harness.store.read_transaction() as uow:
        first = uow.reports.list_due()[0].report.period
    harness.period()
    harness.tick()

    assert [intent.request.period for intent in harness.intents()] == [first]


def test_report_is_missed_if_its_predecessor_changed(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.period()
    harness.index()
    with harness.store.read_transaction() as uow:
        due = [stored_report.report.period for stored_report in uow.reports.list_due()]
    harness.tick()
    harness.mine()
    harness.tick()

    (landing,) = harness.intents()
    assert landing.request.period == due[0]
    with harness.store.read_transaction() as uow:
        missed = [uow.reports.get(period) for period in due[1:]]
    assert {
        (stored_report.state, stored_report.reason)
        for stored_report in missed
        if stored_report is not None
    } == {("missed", "another round came before it")}


def test_report_is_not_signed_while_the_contract_is_paused(sqlite_harness: Harness):
    harness = sqlite_harness
    testbed = harness.testbed
    admin = testbed.network.admin
    testbed.chain.send(testbed.oracle.functions.setPauser(admin), sender=admin)
    testbed.chain.send(testbed.oracle.functions.pauseFor(3600), sender=admin)
    harness.period()
    harness.tick()
    assert harness.states() == []

    testbed.chain.send(testbed.oracle.functions.resume(), sender=admin)
    harness.mine()
    harness.tick()
    assert harness.states() == ["live"]


def test_push_that_expires_during_a_pause_is_replaced_by_the_next(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    testbed = harness.testbed
    admin = testbed.network.admin
    testbed.chain.send(testbed.oracle.functions.setPauser(admin), sender=admin)
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    testbed.chain.send(testbed.oracle.functions.pauseFor(86_400), sender=admin)
    harness.tick()
    assert [(intent.state.value, intent.error_class) for intent in harness.intents()] == [
        ("planned", "Paused")
    ]

    testbed.chain.send(testbed.oracle.functions.resume(), sender=admin)
    testbed.chain.later(SETTINGS.ttl_seconds)
    testbed.chain.mine(FINALITY + 1)
    harness.period()
    harness.tick()
    assert harness.states() == ["expired", "live"]


def test_nonce_is_released_if_the_simulation_is_inconclusive(sqlite_harness: Harness):
    harness = sqlite_harness
    with run_faulty_endpoint(harness.testbed.chain.url) as endpoint:
        harness.restart(urls=[endpoint.url])
        harness.period()
        harness.index()
        harness.repeat(plan_push)
        assert [_step(harness).action for _ in range(2)] == ["push ready", "push assigned"]
        endpoint.faults["eth_call"] = "internal error"
        harness.repeat(run_next_step)
        (waiting,) = harness.intents()
        assert (waiting.state.value, waiting.nonce, waiting.error_class) == (
            "planned",
            None,
            "unknown",
        )

        endpoint.faults.clear()
        harness.mine()
        harness.tick()
        (sent,) = harness.intents()
        assert (sent.state.value, sent.nonce) == ("live", harness.testbed.nonce)


def test_nothing_is_published_if_the_contract_has_different_rules(sqlite_harness: Harness):
    harness = sqlite_harness
    testbed = harness.testbed
    other_rules = bytes.fromhex("77" * 32)
    testbed.chain.send(
        testbed.oracle.functions.setRules(other_rules), sender=testbed.network.admin
    )
    harness.period()

    with pytest.raises(TransientError, match="the contract requires rules 0x7777"):
        harness.tick()
    assert harness.states() == []


def test_sender_without_funds_resumes_after_a_top_up(harness: Harness):
    chain, sender = harness.testbed.chain, harness.testbed.transmitter
    chain.rpc("anvil_setBalance", sender, "0x0")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.period()
    harness.tick()
    (waiting,) = harness.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "funds")
    assert sender in (waiting.error_text or "")
    harness.mine()
    harness.tick()
    assert harness.journal().count("planned") == 2  # First planned, then the reason once.

    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    harness.mine()
    harness.tick()
    harness.mine()
    assert harness.testbed.round == 1


def test_push_above_fee_cap_stays_planned(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.restart(caps=replace(CAPS, fee_per_gas=GWEI))
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    harness.period()
    harness.tick()

    (waiting,) = harness.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "fee_cap")


def test_push_above_transaction_cost_cap_stays_planned(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.restart(caps=replace(CAPS, cost_per_transaction=1000))
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.period()
    harness.tick()

    (waiting,) = harness.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "cost_cap")


def test_daily_cap_counts_the_cost_of_mined_transactions(harness: Harness):
    chain = harness.testbed.chain
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.pushed()
    harness.until_final()
    spent = _paid(harness)
    assert spent > 0

    harness.restart(caps=replace(CAPS, cost_per_day=spent + 1))
    chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
    harness.testbed.network.by(
        harness.testbed.network.nodes[0], harness.testbed.network.does.quit()
    )
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.period()
    harness.tick()
    waiting = harness.intents()[-1]
    assert (waiting.state.value, waiting.error_class) == ("planned", "day_cap")

    chain.later(86_400)
    chain.mine()
    harness.tick()
    # A day later there is ether, but the report is no longer worth its gas.
    assert harness.states()[-1] == "expired"


def test_paused_sender_does_not_assign_a_nonce(sqlite_harness: Harness):
    harness = sqlite_harness
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            harness.context.account, PauseKind.OPERATOR, "for a test", harness.context.stamp
        )
    harness.period()
    harness.tick()
    assert harness.states() == ["ready"]

    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.resume(harness.context.account, harness.context.stamp)
    harness.tick()
    assert harness.states() == ["live"]


def test_second_statement_for_a_round_waits_for_the_first_deadline(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.restart(caps=replace(CAPS, cost_per_transaction=1000))
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.period()
    harness.tick()
    with harness.context.write_transaction() as uow:
        (planned,) = harness.intents()
        uow.outbox.intents.end_unsent_intent(
            planned, type(planned.state).CANCELLED, "a test", harness.context.stamp
        )
    harness.period()
    harness.tick()

    # The first statement about round 1 may still land: no second one until its deadline is final.
    assert len(harness.intents()) == 1
    harness.testbed.chain.later(700)
    harness.testbed.chain.mine(FINALITY + 1)
    harness.period()
    harness.tick()
    assert [intent.request.round for intent in harness.intents()] == [1, 1]


def _step(harness: Harness) -> StepResult:
    step = run_next_step(harness.context, harness.source.fetch_heads())
    assert step is not None
    return step


def _paid(harness: Harness) -> int:
    return (
        OutboxCounter().compute_outbox_stats(harness.store, harness.context.stamp.at).wei.total()
    )
