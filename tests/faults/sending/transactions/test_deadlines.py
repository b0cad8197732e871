"""A call that cannot be mined by its deadline is not signed: it would revert and cost gas."""

from dataclasses import replace

import pytest

from oracle.domain.reports.round_schedule import compute_submission_window
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PUSH, AttemptReason
from oracle.txmgr import call_replacement
from oracle.txmgr.deferral import compute_deadline_margin_seconds
from oracle.txmgr.fee_bump import bump_lowest_nonce
from tests.support.harness import CAPS, FINALITY, SETTINGS, Harness, run_next_step
from tests.support.sending.background_calls import send_background_call
from tests.support.sending.faults import drop_request
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import Proxy
from tests.support.sending.rounds import plan_round


def mine_before_deadline(harness: Harness, seconds: int) -> None:
    """Mine a block `seconds` before the deadline of the newest push."""
    deadlines = [intent.request.deadline for intent in harness.intents()]
    deadline = max(due_time for due_time in deadlines if due_time is not None)
    harness.testbed.chain.at(deadline - seconds)
    harness.testbed.chain.mine()


def test_push_is_not_signed_one_block_before_its_deadline(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    plan_round(harness)
    mine_before_deadline(harness, 1)
    harness.index()
    harness.repeat(run_next_step)
    harness.repeat(plan_push)
    assert (harness.states(), list_slots(harness)) == (["expired"], [])
    (push,) = harness.intents()
    assert push.error_text == "its deadline is in 1 s, but landing may take 2 s"
    assert push.error_class == "deadline"
    assert ("missed", push.error_text) in harness.reports()
    # The call that would have reverted cost nothing; the next report is sent as usual.
    harness.mine(3)
    harness.tick()
    # The first report of this submission window may be as old as the ended call, and expire just
    # as it is scheduled. No other report is then scheduled in this window.
    chain = harness.testbed.chain
    window_seconds = compute_submission_window(SETTINGS) * SETTINGS.period_seconds
    chain.at((chain.time // window_seconds + 1) * window_seconds)
    chain.mine()
    harness.pushed()
    assert harness.states()[-1] == "mined"


def test_push_that_can_be_mined_before_its_deadline_is_sent(sqlite_harness: Harness):
    harness = sqlite_harness
    plan_round(harness)
    mine_before_deadline(harness, 3)
    harness.tick()
    harness.mine()
    harness.tick()
    assert (harness.states()[0], harness.testbed.round) == ("mined", 1)


def test_deadline_margin_is_based_on_past_inclusion_times(sqlite_harness: Harness):
    harness = sqlite_harness
    for blocks in (5, 6, 5, 30):
        land_push_after_blocks(harness, blocks)
    with harness.store.read_transaction() as uow:
        assert sorted(uow.outbox.slots.list_inclusion_delays(harness.context.account, 20)) == [
            5,
            5,
            6,
            30,
        ]
        # The slowest is left out; blocks are a second apart.
        assert compute_deadline_margin_seconds(harness.context, uow) == 6
    plan_round(harness)
    mine_before_deadline(harness, 5)
    harness.tick()
    assert harness.states()[-1] == "expired"


def test_deadline_margin_is_capped_by_max_margin_seconds(sqlite_harness: Harness):
    harness = sqlite_harness
    land_push_after_blocks(harness, 25)
    short = replace(harness.context.send_settings, max_margin_seconds=20)
    with harness.store.read_transaction() as uow:
        assert compute_deadline_margin_seconds(harness.context, uow) == 25
        assert (
            compute_deadline_margin_seconds(replace(harness.context, send_settings=short), uow)
            == 20
        )


def test_no_fee_bump_is_signed_within_the_deadline_margin(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness, replace(BY_BLOCKS, bump_blocks=3))
    chain = harness.testbed.chain
    # A fee bump is long due, but the deadline is one block away.
    for seconds in (5, 4, 3, 2, 1):
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
        mine_before_deadline(harness, seconds)
    harness.tick()
    assert (harness.states()[0], len(list_attempts(harness))) == ("live", 1)


def test_case_f12_late_push_is_bumped_if_another_call_waits(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    send_unmined_push(harness, replace(BY_BLOCKS, bump_blocks=3))
    send_background_call(harness, "behind")
    chain = harness.testbed.chain
    for seconds in (5, 4, 3, 2, 1):
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
        mine_before_deadline(harness, seconds)
    harness.tick()
    assert len(list_attempts(harness)) == 2
    # Nothing lands before the nonce is used, whatever becomes of its call.
    harness.mine(2)
    harness.tick()
    assert [slot.state.value for slot in list_slots(harness)] == ["mined", "live"]


def test_expired_push_becomes_a_noop_if_another_call_waits(sqlite_harness: Harness):
    """A push of a later report would take over the nonce, but waits until gas is cheaper."""
    harness = sqlite_harness
    expire_push_before_another_call(harness)
    harness.tick()
    noop = list_attempts(harness)[-1]
    assert (noop.reason, noop.signed.gas_limit) == (AttemptReason.NOOP, 21_000)

    harness.mine(2)
    harness.tick()
    first_slot = list_slots(harness)[0]
    assert (first_slot.state.value, first_slot.succeeded, first_slot.gas_used) == (
        "mined",
        True,
        21_000,
    )
    assert harness.states(PUSH)[0] == "cancelled"


def expire_push_before_another_call(harness: Harness) -> None:
    """Let a push expire in a final block while a later call waits for its nonce."""
    send_unmined_push(harness, replace(BY_BLOCKS, bump_blocks=3))
    send_background_call(harness, "behind")
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    mine_before_deadline(harness, 0)
    mine_expensive_blocks(harness, 5 * GWEI, FINALITY + 2)
    harness.index()


def test_push_is_not_replaced_by_a_noop_if_only_an_endpoint_reports_its_deadline_passed(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    send_unmined_push(harness, replace(BY_BLOCKS, bump_blocks=3))
    send_background_call(harness, "behind")
    mine_expensive_blocks(harness, 5 * GWEI, 3)
    harness.index()
    heads = harness.source.fetch_heads()
    late_heads = replace(
        heads,
        latest=heads.latest._replace(time=heads.latest.time + 10_000),
        final=heads.final._replace(time=heads.final.time + 10_000),
    )
    run_next_step(harness.context, late_heads)
    assert AttemptReason.NOOP not in {attempt.reason for attempt in list_attempts(harness)}


def test_expired_push_keeps_its_nonce_while_no_noop_can_be_simulated(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    expire_push_before_another_call(harness)
    for proxy in proxies:
        proxy.rule("eth_estimateGas", drop_request())
    assert bump_lowest_nonce(harness.context, harness.source.fetch_heads()) is None
    assert len(list_attempts(harness)) == 1


def test_expired_push_keeps_its_nonce_while_a_noop_cannot_be_mined(sqlite_harness: Harness):
    """Every attempt counts, and a no-op below the market's fee would only use one up."""
    harness = sqlite_harness
    expire_push_before_another_call(harness)
    harness.restart(caps=replace(CAPS, fee_per_gas=4 * GWEI))
    harness.context = replace(harness.context, send_settings=BY_BLOCKS)
    assert bump_lowest_nonce(harness.context, harness.source.fetch_heads()) is None
    assert len(list_attempts(harness)) == 1

    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.testbed.chain.mine()
    harness.index()
    harness.repeat(bump_lowest_nonce)
    assert list_attempts(harness)[-1].reason is AttemptReason.NOOP


def test_expired_push_keeps_its_nonce_if_the_budget_is_used_up_during_the_signature(
    sqlite_harness: Harness, monkeypatch: pytest.MonkeyPatch
):
    harness = sqlite_harness
    expire_push_before_another_call(harness)
    monkeypatch.setattr(call_replacement, "compute_nonce_budget", lambda *_: 0)
    assert bump_lowest_nonce(harness.context, harness.source.fetch_heads()) is None
    assert len(list_attempts(harness)) == 1


def land_push_after_blocks(harness: Harness, blocks: int) -> None:
    """Let a push drop out of the pool, and be mined `blocks` blocks after its first send."""
    before = harness.testbed.round
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    harness.mine(blocks - 1)
    harness.tick()
    harness.mine()
    harness.tick()
    assert harness.testbed.round == before + 1
