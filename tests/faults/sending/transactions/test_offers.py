"""The offered price of an operator's raise: the market price, or the reason for a refusal."""

from dataclasses import replace

import pytest

from oracle.errors import InputError
from oracle.store.outbox.records import AttemptReason
from oracle.txmgr.client.fee_quote import raise_fee
from oracle.txmgr.context import SendSettings
from tests.support.office import CAPS, Office
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


def test_bump_above_cap_is_rejected_and_bump_at_market_price_is_sent(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office, cap = proxied_office, 6 * GWEI
    reject_known_transactions(*proxies)
    office.restart(caps=replace(CAPS, fee_per_gas=cap))
    send_unmined_push(office, SendSettings(bump_seconds=600))
    mine_expensive_blocks(office, 9 * GWEI)
    market = office.context.fetch_fee_market()
    message_pattern = (
        rf"fee is {market.base_fee + market.tip} wei .* limits\.max_fee_per_gas_wei allows {cap}"
    )
    with pytest.raises(InputError, match=message_pattern):
        bump_fee_now(office.context, office.source.fetch_heads(), get_only_intent(office).id)
    assert len(list_attempts(office)) == 1

    mine_expensive_blocks(office, 4 * GWEI, 3)
    market = office.context.fetch_fee_market()
    assert market.base_fee + market.tip < cap < 2 * market.base_fee
    bump_fee_now(office.context, office.source.fetch_heads(), get_only_intent(office).id)
    assert is_accepted_replacement(*list_attempt_fees(office))
    assert list_attempt_fees(office)[1][0] == market.base_fee + market.tip


def test_fee_is_raised_stepwise_while_market_is_above_cap(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office, cap = proxied_office, 6 * GWEI
    reject_known_transactions(*proxies)
    office.restart(caps=replace(CAPS, fee_per_gas=cap))
    send_unmined_push(office)
    mine_expensive_blocks(office, 9 * GWEI, 4)
    office.tick()
    old, new = list_attempt_fees(office)
    assert new == (raise_fee(old[0]), raise_fee(old[1]))


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"cost_per_transaction": 0}, r"limits\.max_cost_per_transaction_wei allows"),
        ({"cost_per_hour": 0}, r"limits\.max_cost_per_hour_wei allows"),
        ({"cost_per_day": 0}, r"limits\.max_cost_per_day_wei allows"),
    ],
)
def test_rejected_bump_reports_limiting_setting(
    sqlite_office: Office, changed: dict[str, int], setting: str
):
    office = sqlite_office
    send_unmined_push(office)
    office.restart(caps=replace(CAPS, **changed))
    with pytest.raises(InputError, match=setting):
        bump_fee_now(office.context, office.source.fetch_heads(), get_only_intent(office).id)


def test_rejected_bump_reports_insufficient_balance(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    sender = office.context.account.address
    office.premises.chain.rpc("anvil_setBalance", sender, "0x1")
    with pytest.raises(InputError, match=f"the balance of {sender} allows"):
        bump_fee_now(office.context, office.source.fetch_heads(), get_only_intent(office).id)


def test_call_is_cancelled_while_market_is_above_cap(
    proxied_office: Office, proxies: tuple[Proxy, Proxy]
):
    office = proxied_office
    reject_known_transactions(*proxies)
    send_unmined_push(office)
    office.restart(caps=replace(CAPS, fee_per_gas=3 * GWEI))
    mine_expensive_blocks(office, 9 * GWEI)
    cancel_intent(office.context, office.source.fetch_heads(), get_only_intent(office).id)
    assert is_accepted_replacement(*list_attempt_fees(office))
    assert list_attempts(office)[1].reason is AttemptReason.NOOP
