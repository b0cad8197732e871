"""Spending limits: a balance that runs out, and budgets that are used up."""

from dataclasses import replace

import pytest

from oracle.store.outbox.records import NOOP, Attempt, CallRequest, Pause, PauseKind
from oracle.txmgr.budget import (
    DAY_SECONDS,
    HOUR_SECONDS,
    Budget,
    compute_nonce_budget,
    compute_runway_seconds,
)
from oracle.txmgr.context import SendSettings
from tests.support.harness import CAPS, ETHER, Harness
from tests.support.sending.faults import respond_with
from tests.support.sending.in_flight import (
    GWEI,
    assign_push,
    get_only_intent,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import Proxy


def test_case_f22_insufficient_funds_pause_the_sender(
    harness: Harness,
):
    chain, sender = harness.testbed.chain, harness.context.account.address
    send_unmined_push(harness)
    # The pool drops the transaction, and the balance no longer pays for it.
    mine_expensive_blocks(harness, 5 * GWEI)
    chain.rpc("anvil_setBalance", sender, "0x1")
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    pause = _get_pause(harness)
    assert pause is not None
    assert (pause.kind, harness.states()) == (PauseKind.FUNDS, ["live"])

    for _ in range(6):
        mine_expensive_blocks(harness, GWEI)
        harness.tick()
    assert len(list_attempts(harness)) == 1

    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    mine_expensive_blocks(harness, GWEI, 2)
    harness.tick()
    assert _get_pause(harness) is None
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    assert (harness.testbed.round, harness.states()) == (1, ["mined"])
    assert len(list_attempts(harness)) == 1


def test_case_f29_exhausted_budget_allows_only_fee_bumps(
    harness: Harness,
):
    send_unmined_push(harness)
    reserved = get_only_intent(harness).max_cost_wei or 0
    harness.restart(caps=replace(CAPS, cost_per_day=reserved * 5 // 4))
    harness.context = replace(harness.context, send_settings=SendSettings(bump_seconds=0))
    _request_noop_call(harness)
    mine_expensive_blocks(harness, 5 * GWEI, 3)
    harness.tick()

    # The open transaction used the daily limit to the wei; the other call waits, visibly.
    live, waiting = harness.intents()
    assert (live.state.value, len(list_attempts(harness))) == ("live", 2)
    limit = list_attempts(harness)[1].signed.gas_limit
    assert reserved < limit * list_attempt_fees(harness)[1][0] <= reserved * 5 // 4
    assert (waiting.state.value, waiting.nonce, waiting.error_class) == (
        "planned",
        None,
        "day_cap",
    )
    assert len(list_slots(harness)) == 1

    mine_expensive_blocks(harness, GWEI, 2)
    harness.tick()
    mine_expensive_blocks(harness, GWEI)
    assert harness.testbed.round == 1


def test_assigned_push_is_signed_within_a_lowered_cost_limit(sqlite_harness: Harness):
    """The signer may have been unreachable for hours when the operator lowers the limit."""
    harness = sqlite_harness
    assign_push(harness)
    limit = (get_only_intent(harness).max_cost_wei or 0) * 3 // 4
    harness.restart(caps=replace(CAPS, cost_per_transaction=limit))
    harness.tick()
    (attempt,) = list_attempts(harness)
    assert attempt.signed.gas_limit * attempt.signed.max_fee_wei <= limit


def test_assigned_push_is_not_signed_above_a_lowered_daily_limit(sqlite_harness: Harness):
    harness = sqlite_harness
    assign_push(harness)
    harness.restart(caps=replace(CAPS, cost_per_day=GWEI))
    harness.tick()
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    push = get_only_intent(harness)
    assert (push.state.value, push.error_class, _list_all_attempts(harness)) == (
        "planned",
        "day_cap",
        [],
    )


@pytest.mark.parametrize("kind", [PauseKind.OPERATOR, PauseKind.CONFIG, PauseKind.FUNDS])
def test_assigned_push_is_not_signed_while_its_account_is_paused(
    sqlite_harness: Harness, kind: PauseKind
):
    harness = sqlite_harness
    assign_push(harness)
    # Without ether, a pause for funds lasts.
    harness.testbed.chain.rpc("anvil_setBalance", harness.context.account.address, "0x1")
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.pause(harness.context.account, kind, "a test", harness.context.stamp)
    harness.restart()
    harness.tick()
    assert (harness.states(), _list_all_attempts(harness)) == (["assigned"], [])

    harness.testbed.chain.rpc("anvil_setBalance", harness.context.account.address, hex(ETHER))
    _set_account_paused(harness, is_paused=False)
    harness.tick()
    assert harness.states() == ["live"]


def test_held_call_of_a_paused_account_leaves_its_nonce_to_the_next_call(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    assign_push(harness)
    _set_account_paused(harness, is_paused=True)
    held_push = get_only_intent(harness)
    with harness.context.write_transaction() as uow:
        uow.outbox.intents.hold(held_push, PauseKind.OPERATOR, "a test", harness.context.stamp)
    _request_noop_call(harness)
    harness.tick()
    assert harness.states()[:2] == ["held", "ready"]

    _set_account_paused(harness, is_paused=False)
    harness.tick()
    harness.mine()
    harness.tick()
    assert harness.states()[:2] == ["held", "mined"]
    assert harness.intents()[1].nonce == held_push.nonce
    assert harness.testbed.round == 0


def test_hourly_budget_is_restored_after_one_hour(sqlite_harness: Harness):
    harness = sqlite_harness
    mine_expensive_blocks(harness, GWEI)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.restart(caps=replace(CAPS, cost_per_hour=1))
    harness.period()
    harness.tick()
    assert (get_only_intent(harness).state.value, get_only_intent(harness).error_class) == (
        "planned",
        "hour_cap",
    )

    with harness.store.read_transaction() as uow:
        assert Budget.from_outbox(uow, harness.context, 0).remaining == 1


def test_budget_is_charged_in_the_commit_that_assigns_the_nonce(sqlite_harness: Harness):
    harness = sqlite_harness
    mine_expensive_blocks(harness, GWEI)
    _set_account_paused(harness, is_paused=True)
    for name in ("one", "two"):
        _request_noop_call(harness, name)
    harness.tick()
    assert harness.states() == ["ready", "ready"]

    # Each fits alone.
    cost = max(intent.max_cost_wei or 0 for intent in harness.intents())
    harness.restart(caps=replace(CAPS, cost_per_day=cost))
    _set_account_paused(harness, is_paused=False)
    harness.tick()
    assert [intent.error_class for intent in harness.intents()] == [None, "day_cap"]
    assert len(list_slots(harness)) == 1


def test_open_nonces_never_exceed_max_in_flight(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.context = replace(harness.context, send_settings=SendSettings(max_in_flight=1))
    for name in ("one", "two"):
        _request_noop_call(harness, name)
    harness.tick()
    assert harness.states() == ["live", "ready"]

    harness.mine()
    harness.until_final()
    # A period may have ended meanwhile: its report waits like the others.
    assert harness.states()[:2] == ["final", "live"]
    assert harness.states().count("live") == 1


def test_budget_counts_the_reservation_of_a_call_only_once(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    (slot,) = list_slots(harness)
    with harness.store.read_transaction() as uow:
        own = uow.outbox.slots.compute_cost_wei(slot)
        assert compute_nonce_budget(uow, harness.context, slot) == CAPS.cost_per_transaction
    harness.restart(caps=replace(CAPS, cost_per_day=own + 5))
    with harness.store.read_transaction() as uow:
        assert compute_nonce_budget(uow, harness.context, slot) == own + 5
        assert Budget.from_outbox(uow, harness.context, 0).remaining == 5


def test_runway_is_computed_from_spending_of_the_last_day(sqlite_harness: Harness):
    harness = sqlite_harness
    account = harness.context.account
    with harness.store.read_transaction() as uow:
        assert compute_runway_seconds(uow, account, ETHER, harness.context.stamp.at) is None
    send_unmined_push(harness)
    with harness.store.read_transaction() as uow:
        spent = uow.outbox.slots.sum_committed_wei(
            account, harness.context.stamp.at - HOUR_SECONDS
        )
        assert (
            compute_runway_seconds(uow, account, 3 * spent, harness.context.stamp.at)
            == 3 * DAY_SECONDS
        )
    mine_expensive_blocks(harness, GWEI, 2)
    harness.tick()
    assert harness.states() == ["mined"]
    with harness.store.read_transaction() as uow:
        assert (
            compute_runway_seconds(uow, account, ETHER, harness.context.stamp.at + 2 * DAY_SECONDS)
            is None
        )


def _request_noop_call(harness: Harness, name: str = "another") -> None:
    """Request a call to the account itself, which only costs gas."""
    account = harness.context.account
    request = CallRequest(account, account.address, NOOP, name, "0x")
    with harness.context.write_transaction() as uow:
        uow.outbox.intents.add(request, harness.context.stamp)


def _list_all_attempts(harness: Harness) -> list[Attempt]:
    with harness.store.read_transaction() as uow:
        slots = uow.outbox.slots.list_unfinished(harness.context.account)
        return [attempt for slot in slots for attempt in uow.outbox.slots.list_attempts(slot)]


def _set_account_paused(harness: Harness, *, is_paused: bool) -> None:
    account, stamp = harness.context.account, harness.context.stamp
    with harness.context.write_transaction() as uow:
        if is_paused:
            uow.outbox.accounts.pause(account, PauseKind.OPERATOR, "a test", stamp)
        else:
            uow.outbox.accounts.resume(account, stamp)


def _get_pause(harness: Harness) -> Pause | None:
    with harness.store.read_transaction() as uow:
        return uow.outbox.accounts.find_pause(harness.context.account)


@pytest.mark.parametrize("place", [0, 1])
def test_balance_of_a_stalled_endpoint_does_not_block_a_push(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    sender = harness.context.account.address
    chain.rpc("anvil_setBalance", sender, "0x1")
    mine_expensive_blocks(harness, GWEI)
    harness.period()
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.tick()
    assert (get_only_intent(harness).state.value, get_only_intent(harness).error_class) == (
        "planned",
        "funds",
    )

    head = chain.block
    proxies[place].rule("eth_blockNumber", respond_with(hex(head)))
    proxies[place].rule("eth_getBalance", respond_with("0x1"))
    chain.rpc("anvil_setBalance", sender, hex(ETHER))
    mine_expensive_blocks(harness, GWEI, 5)
    harness.tick()
    assert harness.states() == ["live"]


@pytest.mark.parametrize("place", [0, 1])
def test_gas_price_of_a_stalled_endpoint_does_not_block_a_push(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    # Within the fee cap, but above the cost limit of a transaction.
    dear = {"baseFeePerGas": [hex(CAPS.fee_per_gas - 1)], "reward": []}
    proxies[place].rule("eth_blockNumber", respond_with(hex(chain.block)))
    proxies[place].rule("eth_feeHistory", respond_with(dear))
    harness.restart(caps=replace(CAPS, cost_per_transaction=CAPS.fee_per_gas * 100_000))
    harness.mine(5)
    harness.pushed()
    assert harness.testbed.round == 1


def test_budget_counts_open_nonces_of_any_age(
    sqlite_harness: Harness,
):
    harness, chain = sqlite_harness, sqlite_harness.testbed.chain
    account = harness.context.account
    send_unmined_push(harness)
    (slot,) = list_slots(harness)
    later = replace(harness.context, clock=lambda: slot.opened_at + 2 * DAY_SECONDS)
    with harness.store.read_transaction() as uow:
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
    harness.tick()
    slot = list_slots(harness)[0]
    assert harness.states()[0] == "mined"
    assert (slot.mined_at or 0) - slot.opened_at >= 2 * DAY_SECONDS
    with harness.store.read_transaction() as uow:
        spent = uow.outbox.slots.sum_committed_wei(
            account, harness.context.stamp.at - HOUR_SECONDS
        )
        assert spent == uow.outbox.slots.compute_cost_wei(slot) > 0


def test_spending_dated_in_the_future_does_not_exhaust_the_budget(sqlite_harness: Harness):
    harness = sqlite_harness
    year = 365 * DAY_SECONDS
    right = harness.context.clock
    harness.context = replace(harness.context, clock=lambda: right() + year)
    send_unmined_push(harness)
    mine_expensive_blocks(harness, GWEI, 2)
    harness.tick()
    assert harness.states() == ["mined"]

    max_cost = min(CAPS.cost_per_day, CAPS.cost_per_hour or CAPS.cost_per_day)
    harness.context = replace(harness.context, clock=right)
    with harness.store.read_transaction() as uow:
        assert Budget.from_outbox(uow, harness.context, 0).remaining == max_cost
    # A little ahead is as good as now.
    harness.context = replace(harness.context, clock=lambda: right() + year - HOUR_SECONDS // 2)
    with harness.store.read_transaction() as uow:
        assert Budget.from_outbox(uow, harness.context, 0).remaining < max_cost
