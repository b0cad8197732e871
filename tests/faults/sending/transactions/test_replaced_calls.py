"""Another call replaces a pending one: at most one lands, and the database shows which."""

import pytest

from oracle.errors import InputError
from oracle.reporting.report_planner import plan_push
from oracle.reporting.reporting_context import PUSH
from oracle.store.outbox.records import NOOP, AttemptReason
from tests.support.office import SETTINGS, Office, next_step
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    is_accepted_replacement,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.txmgr.operator_actions import cancel_intent


def test_expired_push_passes_its_nonce_to_next_push(office: Office):
    send_unmined_push(office)
    _dead(office)
    office.tick()

    dead, fresh = office.intents()
    assert (dead.state.value, fresh.state.value) == ("live", "live")
    assert (fresh.nonce, fresh.replaces) == (dead.nonce, dead.id)
    assert list_attempts(office)[-1].reason is AttemptReason.REPLACEMENT
    assert is_accepted_replacement(list_attempt_fees(office)[-2], list_attempt_fees(office)[-1])

    office.mine()
    office.until_final()
    assert office.states() == ["superseded", "final"]
    assert office.premises.round == 1
    assert len(list_slots(office)) == 1
    assert ("missed", f"replacement of nonce {dead.nonce}") in office.reports()
    assert ("landed", None) in office.reports()


def test_next_push_moves_to_another_nonce_when_the_expired_push_is_mined_after_all(
    sqlite_office: Office,
):
    office = sqlite_office
    send_unmined_push(office)
    _dead(office)
    office.tick()
    _back_in_the_pool(office)
    office.mine()
    office.tick()
    assert office.states()[:2] == ["mined", "superseded"]

    office.mine()
    office.until_final()
    assert office.states() == ["reverted", "superseded", "final"]
    assert office.intents()[0].error_class == "Expired"
    assert office.intents()[2].request.digest == office.intents()[1].request.digest
    assert (office.premises.round, len(list_slots(office))) == (1, 2)


def test_expired_push_mined_before_it_was_recorded_keeps_its_nonce(
    sqlite_office: Office,
):
    office = sqlite_office
    send_unmined_push(office)
    _dead(office)
    _back_in_the_pool(office)
    office.mine()
    office.index()
    office.repeat(plan_push)
    office.repeat(next_step)

    assert office.states() == ["live", "ready"]
    assert len(list_attempts(office)) == 1
    office.tick()
    assert office.states() == ["mined", "live"]
    assert len(list_slots(office)) == 2


def test_push_that_can_still_land_is_never_replaced(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    mine_expensive_blocks(office, 5 * GWEI, 5)
    office.period()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    office.tick()

    assert len(office.intents()) == 1
    assert {attempt.reason for attempt in list_attempts(office)} <= {
        AttemptReason.FIRST,
        AttemptReason.BUMP,
    }


def test_operator_cancels_call_with_noop_on_its_nonce(office: Office):
    send_unmined_push(office)
    mine_expensive_blocks(office, 5 * GWEI)
    step = cancel_intent(office.context, office.source.fetch_heads(), get_only_intent(office).id)
    assert step.action == "sent"
    assert is_accepted_replacement(list_attempt_fees(office)[0], list_attempt_fees(office)[1])
    no_op = list_attempts(office)[1]
    assert (no_op.reason, no_op.signed.gas_limit) == (AttemptReason.NOOP, 21_000)

    office.mine()
    office.until_final()
    assert office.states(NOOP) == ["final"]
    assert office.states(PUSH) == ["cancelled"]
    assert ("missed", f"noop of nonce {list_slots(office)[0].nonce}") in office.reports()
    assert office.premises.round == 0


def test_mined_call_cannot_be_cancelled(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    mine_expensive_blocks(office, GWEI)
    office.tick()
    with pytest.raises(InputError, match="it is mined and has no pending transaction"):
        cancel_intent(office.context, office.source.fetch_heads(), get_only_intent(office).id)


def test_call_without_nonce_is_cancelled_without_transaction(sqlite_office: Office):
    office = sqlite_office
    chain, sender = office.premises.chain, office.context.account.address
    chain.rpc("anvil_setBalance", sender, "0x0")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.period()
    office.tick()
    step = cancel_intent(office.context, office.source.fetch_heads(), get_only_intent(office).id)

    assert step.action == "push cancelled"
    assert get_only_intent(office).state.value == "cancelled"


def _dead(office: Office) -> None:
    """Let the deadline of the sent call pass, and the next period end."""
    chain = office.premises.chain
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.later(SETTINGS.ttl_seconds)
    chain.mine()
    office.index()
    length = SETTINGS.period_seconds
    chain.at(chain.time // length * length + 2 * length - 1)
    dear = hex(5 * GWEI)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", dear)
    chain.mine()
    mine_expensive_blocks(office, 5 * GWEI, 2)


def _back_in_the_pool(office: Office) -> None:
    """Put only the first signed transaction into the pool, with a sufficient fee."""
    first = "0x" + list_attempts(office)[0].signed.raw.hex()
    chain = office.premises.chain
    chain.rpc("anvil_dropAllTransactions")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", first)
