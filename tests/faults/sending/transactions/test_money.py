"""Spending limits: a balance that runs out, and budgets that are used up."""

from dataclasses import replace

import pytest

from oracle.store.outbox.records import NOOP, CallRequest, Pause, PauseKind
from oracle.txmgr.budget import (
    DAY_SECONDS,
    HOUR_SECONDS,
    Budget,
    compute_nonce_budget,
    compute_runway_seconds,
)
from oracle.txmgr.context import SendSettings
from tests.support.office import CAPS, ETHER, Office
from tests.support.sending.faults import respond_with
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import Proxy


def test_case_f22_insufficient_funds_for_live_push_pause_sender_without_new_attempts(
    office: Office,
):
    chain, sender = office.premises.chain, office.context.account.address
    send_unmined_push(office)
    # The pool drops the transaction, and the balance no longer pays for it.
    mine_expensive_blocks(office, 5 * GWEI)
    chain.rpc("anvil_setBalance", sender, "0x1")
    mine_expensive_blocks(office, GWEI)
    office.tick()
    pause = _pause(office)
    assert pause is not None
    assert (pause.kind, office.states()) == (PauseKind.FUNDS, ["live"])

    for _ in range(6):
        mine_expensive_blocks(office, GWEI)
        office.tick()
    assert len(list_attempts(office)) == 1

    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    mine_expensive_blocks(office, GWEI, 2)
    office.tick()
    assert _pause(office) is None
    mine_expensive_blocks(office, GWEI)
    office.tick()
    assert (office.premises.round, office.states()) == (1, ["mined"])
    assert len(list_attempts(office)) == 1


def test_case_f29_no_new_nonce_is_opened_when_budget_is_spent_but_open_nonce_is_bumped_to_cap(
    office: Office,
):
    send_unmined_push(office)
    reserved = get_only_intent(office).max_cost_wei or 0
    office.restart(caps=replace(CAPS, cost_per_day=reserved * 5 // 4))
    office.context = replace(office.context, send_settings=SendSettings(bump_seconds=0))
    _request_more(office)
    mine_expensive_blocks(office, 5 * GWEI, 3)
    office.tick()

    # The open transaction used the daily limit to the wei; the other call waits, visibly.
    live, waiting = office.intents()
    assert (live.state.value, len(list_attempts(office))) == ("live", 2)
    limit = list_attempts(office)[1].signed.gas_limit
    assert reserved < limit * list_attempt_fees(office)[1][0] <= reserved * 5 // 4
    assert (waiting.state.value, waiting.nonce, waiting.error_class) == (
        "planned",
        None,
        "day_cap",
    )
    assert len(list_slots(office)) == 1

    mine_expensive_blocks(office, GWEI, 2)
    office.tick()
    mine_expensive_blocks(office, GWEI)
    assert office.premises.round == 1


def test_hourly_budget_is_available_again_after_one_hour(sqlite_office: Office):
    office = sqlite_office
    mine_expensive_blocks(office, GWEI)
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.restart(caps=replace(CAPS, cost_per_hour=1))
    office.period()
    office.tick()
    assert (get_only_intent(office).state.value, get_only_intent(office).error_class) == (
        "planned",
        "hour_cap",
    )

    with office.store.read_transaction() as uow:
        assert Budget.from_outbox(uow, office.context, 0).remaining == 1


def test_budget_is_counted_in_commit_that_assigns_nonce(sqlite_office: Office):
    office = sqlite_office
    mine_expensive_blocks(office, GWEI)
    _is_account_paused(office, is_paused=True)
    for name in ("one", "two"):
        _request_more(office, name)
    office.tick()
    assert office.states() == ["ready", "ready"]

    # Each fits alone.
    cost = max(intent.max_cost_wei or 0 for intent in office.intents())
    office.restart(caps=replace(CAPS, cost_per_day=cost))
    _is_account_paused(office, is_paused=False)
    office.tick()
    assert [intent.error_class for intent in office.intents()] == [None, "day_cap"]
    assert len(list_slots(office)) == 1


def test_open_nonces_never_exceed_max_in_flight(sqlite_office: Office):
    office = sqlite_office
    office.context = replace(office.context, send_settings=SendSettings(max_in_flight=1))
    for name in ("one", "two"):
        _request_more(office, name)
    office.tick()
    assert office.states() == ["live", "ready"]

    office.mine()
    office.until_final()
    # A period may have ended meanwhile: its report waits like the others.
    assert office.states()[:2] == ["final", "live"]
    assert office.states().count("live") == 1


def test_nonce_budget_counts_own_reservation_once(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    (slot,) = list_slots(office)
    with office.store.read_transaction() as uow:
        own = uow.outbox.slots.compute_cost_wei(slot)
        assert compute_nonce_budget(uow, office.context, slot) == CAPS.cost_per_transaction
    office.restart(caps=replace(CAPS, cost_per_day=own + 5))
    with office.store.read_transaction() as uow:
        assert compute_nonce_budget(uow, office.context, slot) == own + 5
        assert Budget.from_outbox(uow, office.context, 0).remaining == 5


def test_runway_is_derived_from_spending_of_last_day(sqlite_office: Office):
    office = sqlite_office
    account = office.context.account
    with office.store.read_transaction() as uow:
        assert compute_runway_seconds(uow, account, ETHER, office.context.stamp.at) is None
    send_unmined_push(office)
    with office.store.read_transaction() as uow:
        spent = uow.outbox.slots.sum_committed_wei(account, office.context.stamp.at - HOUR_SECONDS)
        assert (
            compute_runway_seconds(uow, account, 3 * spent, office.context.stamp.at)
            == 3 * DAY_SECONDS
        )
    mine_expensive_blocks(office, GWEI, 2)
    office.tick()
    assert office.states() == ["mined"]
    with office.store.read_transaction() as uow:
        assert (
            compute_runway_seconds(uow, account, ETHER, office.context.stamp.at + 2 * DAY_SECONDS)
            is None
        )


def _request_more(office: Office, name: str = "another") -> None:
    """Request a call to the account itself, which only costs gas."""
    account = office.context.account
    request = CallRequest(account, account.address, NOOP, name, "0x")
    with office.context.write_transaction() as uow:
        uow.outbox.intents.add(request, office.context.stamp)


def _is_account_paused(office: Office, *, is_paused: bool) -> None:
    account, stamp = office.context.account, office.context.stamp
    with office.context.write_transaction() as uow:
        if is_paused:
            uow.outbox.accounts.pause(account, PauseKind.OPERATOR, "a test", stamp)
        else:
            uow.outbox.accounts.resume(account, stamp)


def _pause(office: Office) -> Pause | None:
    with office.store.read_transaction() as uow:
        return uow.outbox.accounts.get_pause(office.context.account)


@pytest.mark.parametrize("place", [0, 1])
def test_push_is_sent_when_only_a_stalled_endpoint_reports_insufficient_balance(
    proxied_office: Office, proxies: tuple[Proxy, Proxy], place: int
):
    office, chain = proxied_office, proxied_office.premises.chain
    sender = office.context.account.address
    chain.rpc("anvil_setBalance", sender, "0x1")
    mine_expensive_blocks(office, GWEI)
    office.period()
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.tick()
    assert (get_only_intent(office).state.value, get_only_intent(office).error_class) == (
        "planned",
        "funds",
    )

    head = chain.block
    proxies[place].rule("eth_blockNumber", respond_with(hex(head)))
    proxies[place].rule("eth_getBalance", respond_with("0x1"))
    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    mine_expensive_blocks(office, GWEI, 5)
    office.tick()
    assert office.states() == ["live"]


@pytest.mark.parametrize("place", [0, 1])
def test_gas_price_of_stalled_endpoint_does_not_block_push(
    proxied_office: Office, proxies: tuple[Proxy, Proxy], place: int
):
    office, chain = proxied_office, proxied_office.premises.chain
    # Within the fee cap, but above the cost limit of a transaction.
    dear = {"baseFeePerGas": [hex(CAPS.fee_per_gas - 1)], "reward": []}
    proxies[place].rule("eth_blockNumber", respond_with(hex(chain.block)))
    proxies[place].rule("eth_feeHistory", respond_with(dear))
    office.restart(caps=replace(CAPS, cost_per_transaction=CAPS.fee_per_gas * 100_000))
    office.mine(5)
    office.pushed()
    assert office.premises.round == 1


def test_budget_counts_open_nonces_at_any_age_and_mined_nonces_from_their_landing(
    sqlite_office: Office,
):
    office, chain = sqlite_office, sqlite_office.premises.chain
    account = office.context.account
    send_unmined_push(office)
    (slot,) = list_slots(office)
    later = replace(office.context, clock=lambda: slot.opened_at + 2 * DAY_SECONDS)
    with office.store.read_transaction() as uow:
        own = uow.outbox.slots.compute_cost_wei(slot)
        assert (
            Budget.from_outbox(uow, later, 0).remaining
            == (CAPS.cost_per_hour or CAPS.cost_per_day) - own
        )
        # A call's own reservation does not count against it.
        assert compute_nonce_budget(uow, later, slot) == CAPS.cost_per_transaction

    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.later(2 * DAY_SECONDS)
    chain.mine()
    office.tick()
    slot = list_slots(office)[0]
    assert office.states()[0] == "mined"
    assert (slot.mined_at or 0) - slot.opened_at >= 2 * DAY_SECONDS
    with office.store.read_transaction() as uow:
        spent = uow.outbox.slots.sum_committed_wei(account, office.context.stamp.at - HOUR_SECONDS)
        assert spent == uow.outbox.slots.compute_cost_wei(slot) > 0


def test_fast_clock_does_not_use_up_budget_forever(sqlite_office: Office):
    office = sqlite_office
    year, right = 365 * DAY_SECONDS, office.context.clock
    office.context = replace(office.context, clock=lambda: right() + year)
    send_unmined_push(office)
    mine_expensive_blocks(office, GWEI, 2)
    office.tick()
    assert office.states() == ["mined"]

    max_cost = min(CAPS.cost_per_day, CAPS.cost_per_hour or CAPS.cost_per_day)
    office.context = replace(office.context, clock=right)
    with office.store.read_transaction() as uow:
        assert Budget.from_outbox(uow, office.context, 0).remaining == max_cost
    # A little ahead is as good as now.
    office.context = replace(office.context, clock=lambda: right() + year - HOUR_SECONDS // 2)
    with office.store.read_transaction() as uow:
        assert Budget.from_outbox(uow, office.context, 0).remaining < max_cost
