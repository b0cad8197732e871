"""The offered price of an operator's raise: the market price, or the reason for a refusal."""

from dataclasses import replace

import pytest

from oracle.errors import InputError
from oracle.store.outbox.records import AttemptReason
from oracle.txmgr.client.fee_quote import raise_fee
from oracle.txmgr.context import SendSettings
from tests.support.harness import CAPS, Harness
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    is_accepted_replacement,
    list_attempt_fees,
    list_attempts,
    mine_expensive_blocks,
    reject_known_transactions,
    send_unmined_push,
)
from tests.support.sending.proxy import Proxy
from tests.support.txmgr.operator_actions import bump_fee_now, cancel_intent


def test_operator_bump_is_rejected_until_the_market_fee_is_below_the_cap(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    cap = 6 * GWEI
    reject_known_transactions(*proxies)
    harness.restart(caps=replace(CAPS, fee_per_gas=cap))
    send_unmined_push(harness, SendSettings(bump_seconds=600))
    mine_expensive_blocks(harness, 9 * GWEI)
    market = harness.context.fetch_fee_market()
    message_pattern = (
        rf"fee is {market.base_fee + market.tip} wei .* limits\.max_fee_per_gas_wei allows {cap}"
    )
    with pytest.raises(InputError, match=message_pattern):
        bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)
    assert len(list_attempts(harness)) == 1

    mine_expensive_blocks(harness, 4 * GWEI, 3)
    market = harness.context.fetch_fee_market()
    assert market.base_fee + market.tip < cap < 2 * market.base_fee
    bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)
    assert is_accepted_replacement(*list_attempt_fees(harness))
    assert list_attempt_fees(harness)[1][0] == market.base_fee + market.tip


def test_fee_is_raised_in_steps_while_the_market_is_above_the_cap(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    cap = 6 * GWEI
    reject_known_transactions(*proxies)
    harness.restart(caps=replace(CAPS, fee_per_gas=cap))
    send_unmined_push(harness)
    mine_expensive_blocks(harness, 9 * GWEI, 4)
    harness.tick()
    old, new = list_attempt_fees(harness)
    assert new == (raise_fee(old[0]), raise_fee(old[1]))


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"cost_per_transaction": 0}, r"limits\.max_cost_per_transaction_wei allows"),
        ({"cost_per_hour": 0}, r"limits\.max_cost_per_hour_wei allows"),
        ({"cost_per_day": 0}, r"limits\.max_cost_per_day_wei allows"),
    ],
)
def test_rejected_bump_names_the_limiting_setting(
    sqlite_harness: Harness, changed: dict[str, int], setting: str
):
    harness = sqlite_harness
    send_unmined_push(harness)
    harness.restart(caps=replace(CAPS, **changed))
    with pytest.raises(InputError, match=setting):
        bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)


def test_rejected_bump_reports_insufficient_balance(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    sender = harness.context.account.address
    harness.testbed.chain.rpc("anvil_setBalance", sender, "0x1")
    with pytest.raises(InputError, match=f"the balance of {sender} allows"):
        bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)


def test_call_can_be_cancelled_while_the_market_is_above_the_cap(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    reject_known_transactions(*proxies)
    send_unmined_push(harness)
    harness.restart(caps=replace(CAPS, fee_per_gas=3 * GWEI))
    mine_expensive_blocks(harness, 9 * GWEI)
    cancel_intent(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)
    assert is_accepted_replacement(*list_attempt_fees(harness))
    assert list_attempts(harness)[1].reason is AttemptReason.NOOP
