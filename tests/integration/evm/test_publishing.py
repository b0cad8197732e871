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
from tests.support.office import CAPS, ETHER, SETTINGS, Office, next_step
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    office,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "office", "premises", "sqlite_office"]

GWEI = 10**9


@pytest.mark.main_path
def test_report_becomes_a_round_of_the_contract(office: Office):
    office.period()
    office.tick()
    office.mine()
    office.tick()

    assert office.premises.round == 1
    assert office.states() == ["mined"]

    office.until_final()
    assert office.states() == ["final"]
    assert ("landed", None) in office.reports()


def test_every_step_of_push_is_journaled(sqlite_office: Office):
    office = sqlite_office
    office.pushed()
    office.until_final()

    expected = ["planned", "ready", "assigned", "signed", "sent", "live", "mined", "final"]
    assert office.journal() == expected


def test_next_round_does_not_wait_for_finality_of_the_previous_round(sqlite_office: Office):
    office = sqlite_office
    office.pushed()
    # A node leaves, so that the next report has a change.
    office.premises.network.by(
        office.premises.network.nodes[0], office.premises.network.does.quit()
    )
    office.pushed()

    assert office.premises.round == 2
    assert office.states()[-1] == "mined"


def test_report_that_is_due_earliest_is_planned_first(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.index()
    with office.store.read_transaction() as uow:
        first = uow.reports.list_due()[0].report.period
    office.period()
    office.tick()

    assert [intent.request.period for intent in office.intents()] == [first]


def test_report_whose_predecessor_changed_is_marked_missed(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.period()
    office.index()
    with office.store.read_transaction() as uow:
        due = [stored_report.report.period for stored_report in uow.reports.list_due()]
    office.tick()
    office.mine()
    office.tick()

    (landing,) = office.intents()
    assert landing.request.period == due[0]
    with office.store.read_transaction() as uow:
        missed = [uow.reports.get(period) for period in due[1:]]
    assert {
        (stored_report.state, stored_report.reason)
        for stored_report in missed
        if stored_report is not None
    } == {("missed", "another round came before it")}


def test_report_is_not_signed_while_contract_is_paused(sqlite_office: Office):
    office = sqlite_office
    premises = office.premises
    admin = premises.network.admin
    premises.chain.send(premises.oracle.functions.setPauser(admin), sender=admin)
    premises.chain.send(premises.oracle.functions.pauseFor(3600), sender=admin)
    office.period()
    office.tick()
    assert office.states() == []

    premises.chain.send(premises.oracle.functions.resume(), sender=admin)
    office.mine()
    office.tick()
    assert office.states() == ["live"]


def test_push_delayed_by_pause_expires_and_next_push_goes_live(
    sqlite_office: Office,
):
    office = sqlite_office
    premises = office.premises
    admin = premises.network.admin
    premises.chain.send(premises.oracle.functions.setPauser(admin), sender=admin)
    office.period()
    office.index()
    office.repeat(plan_push)
    premises.chain.send(premises.oracle.functions.pauseFor(86_400), sender=admin)
    office.tick()
    assert [(intent.state.value, intent.error_class) for intent in office.intents()] == [
        ("planned", "Paused")
    ]

    premises.chain.send(premises.oracle.functions.resume(), sender=admin)
    premises.chain.later(SETTINGS.ttl_seconds)
    premises.chain.mine()
    office.period()
    office.tick()
    assert office.states() == ["expired", "live"]


def test_nonce_is_released_when_simulation_result_is_unknown(sqlite_office: Office):
    office = sqlite_office
    with run_faulty_endpoint(office.premises.chain.url) as endpoint:
        office.restart(urls=[endpoint.url])
        office.period()
        office.index()
        office.repeat(plan_push)
        assert [_step(office).action for _ in range(2)] == ["push ready", "push assigned"]
        endpoint.faults["eth_call"] = "internal error"
        office.repeat(next_step)
        (waiting,) = office.intents()
        assert (waiting.state.value, waiting.nonce, waiting.error_class) == (
            "planned",
            None,
            "unknown",
        )

        endpoint.faults.clear()
        office.mine()
        office.tick()
        (sent,) = office.intents()
        assert (sent.state.value, sent.nonce) == ("live", office.premises.nonce)


def test_nothing_is_published_if_the_contract_requires_different_rules(sqlite_office: Office):
    office = sqlite_office
    premises = office.premises
    other_rules = bytes.fromhex("77" * 32)
    premises.chain.send(
        premises.oracle.functions.setRules(other_rules), sender=premises.network.admin
    )
    office.period()

    with pytest.raises(TransientError, match="the contract requires rules 0x7777"):
        office.tick()
    assert office.states() == []


def test_account_without_ether_waits_and_resumes_after_top_up(office: Office):
    chain, sender = office.premises.chain, office.premises.transmitter
    chain.rpc("anvil_setBalance", sender, "0x0")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.period()
    office.tick()
    (waiting,) = office.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "funds")
    assert sender in (waiting.error_text or "")
    office.mine()
    office.tick()
    assert office.journal().count("planned") == 2  # First planned, then the reason once.

    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    office.mine()
    office.tick()
    office.mine()
    assert office.premises.round == 1


def test_push_above_fee_cap_stays_planned(sqlite_office: Office):
    office = sqlite_office
    office.restart(caps=replace(CAPS, fee_per_gas=GWEI))
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    office.period()
    office.tick()

    (waiting,) = office.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "fee_cap")


def test_push_above_transaction_cost_cap_stays_planned(sqlite_office: Office):
    office = sqlite_office
    office.restart(caps=replace(CAPS, cost_per_transaction=1000))
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.period()
    office.tick()

    (waiting,) = office.intents()
    assert (waiting.state.value, waiting.error_class) == ("planned", "cost_cap")


def test_daily_cap_counts_paid_transactions(office: Office):
    chain = office.premises.chain
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.pushed()
    office.until_final()
    spent = _paid(office)
    assert spent > 0

    office.restart(caps=replace(CAPS, cost_per_day=spent + 1))
    chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
    office.premises.network.by(
        office.premises.network.nodes[0], office.premises.network.does.quit()
    )
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.period()
    office.tick()
    waiting = office.intents()[-1]
    assert (waiting.state.value, waiting.error_class) == ("planned", "day_cap")

    chain.later(86_400)
    chain.mine()
    office.tick()
    # A day later there is ether, but the report is no longer worth its gas.
    assert office.states()[-1] == "expired"


def test_paused_sender_assigns_no_nonce(sqlite_office: Office):
    office = sqlite_office
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            office.context.account, PauseKind.OPERATOR, "for a test", office.context.stamp
        )
    office.period()
    office.tick()
    assert office.states() == ["ready"]

    with office.context.write_transaction() as uow:
        uow.outbox.accounts.resume(office.context.account, office.context.stamp)
    office.tick()
    assert office.states() == ["live"]


def test_second_statement_for_round_waits_for_first_deadline(sqlite_office: Office):
    office = sqlite_office
    office.restart(caps=replace(CAPS, cost_per_transaction=1000))
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.period()
    office.tick()
    with office.context.write_transaction() as uow:
        (planned,) = office.intents()
        uow.outbox.intents.end_unsent(
            planned, type(planned.state).CANCELLED, "a test", office.context.stamp
        )
    office.period()
    office.tick()

    # The first statement about round 1 may still land: no second one until its deadline.
    assert len(office.intents()) == 1
    office.premises.chain.later(700)
    office.premises.chain.mine()
    office.period()
    office.tick()
    assert [intent.request.round for intent in office.intents()] == [1, 1]


def _step(office: Office) -> StepResult:
    step = next_step(office.context, office.source.fetch_heads())
    assert step is not None
    return step


def _paid(office: Office) -> int:
    return OutboxCounter().compute_outbox_stats(office.store, office.context.stamp.at).wei.total()
