"""A rollup's fee for a transaction's data, as in the receipt, counts as spent."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from oracle.errors import TransientError
from oracle.queries.outbox_figures import OutboxCounter
from oracle.store.outbox.records import NOOP, PUSH
from oracle.txmgr.client.l1_fees import GAS_PRICE_ORACLE, L1Fee, decode_l1_fee
from oracle.txmgr.client.receipts import fetch_receipt_quorum
from tests.support.harness import CAPS, FINALITY, Harness
from tests.support.sending.faults import return_null
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    get_only_intent,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import Proxy
from tests.support.sending.rollups import add_receipt_fields, build_price_oracle_code
from tests.support.txmgr.operator_actions import cancel_intent

L1_FEE = 7 * 10**15
# The rollup operator's fee per unit of gas.
OF_OPERATOR = 10**9
OP_STACK = replace(BY_BLOCKS, l1_fee=L1Fee.OPTIMISM)


def add_rollup_receipt_fields(proxies: Iterable[Proxy], **receipt_fields: str) -> None:
    """Add fields to receipts that Anvil does not return."""
    add_receipt_fields(*proxies, **receipt_fields)


def deploy_gas_price_oracle(harness: Harness, of_operator: int | None = None) -> None:
    """Add the contract that an OP chain has from its first block."""
    code = build_price_oracle_code(L1_FEE, of_operator)
    harness.testbed.chain.rpc("anvil_setCode", GAS_PRICE_ORACLE, code)


def get_booked_fee(harness: Harness) -> int:
    """Return the recorded cost of the only nonce beyond its gas."""
    (slot,) = list_slots(harness)
    with harness.store.read_transaction() as uow:
        return uow.outbox.slots.compute_cost_wei(slot) - compute_gas_cost(harness)


def compute_gas_cost(harness: Harness) -> int:
    (slot,) = list_slots(harness)
    return (slot.gas_used or 0) * (slot.gas_price_wei or 0)


def test_l1_fee_is_included_in_the_budget_and_the_metrics(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    add_rollup_receipt_fields(proxies, l1Fee=hex(L1_FEE))
    mine_expensive_blocks(harness, GWEI)
    harness.pushed()
    assert compute_gas_cost(harness) > 0
    account = harness.context.account
    with harness.store.read_transaction() as uow:
        assert uow.outbox.slots.sum_committed_wei(account, 0) == compute_gas_cost(harness) + L1_FEE

    harness.until_final()
    stats = OutboxCounter().compute_outbox_stats(harness.store, harness.context.stamp.at)
    assert stats.wei["push"] == compute_gas_cost(harness) + L1_FEE


def test_l1_fee_counts_towards_the_daily_cap(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    harness.restart(caps=replace(CAPS, cost_per_day=L1_FEE - 1))
    add_rollup_receipt_fields(proxies, l1Fee=hex(L1_FEE))
    harness.pushed()
    harness.period()
    harness.tick()
    waiting = harness.intents(PUSH)[-1]
    assert (waiting.state.value, waiting.error_class) == ("planned", "day_cap")


def test_reorged_transaction_reserves_max_cost_without_l1_fee(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    add_rollup_receipt_fields(proxies, l1Fee=hex(L1_FEE))
    harness.pushed()
    (slot,) = list_slots(harness)
    with harness.context.write_transaction() as uow:
        uow.outbox.slots.mark_reorged(slot, harness.context.stamp)
        signed = list_attempts(harness)[0].signed
        assert uow.outbox.slots.compute_cost_wei(slot) == signed.gas_limit * signed.max_fee_wei


def test_l1_gas_that_is_part_of_gas_used_is_not_counted_twice():
    assert decode_l1_fee({"gasUsed": "0x100", "gasUsedForL1": "0x80"}) == 0
    assert decode_l1_fee({"l1Fee": None}) == 0
    assert decode_l1_fee({"l1Fee": "0x0"}) == 0


@pytest.mark.parametrize("nonsense", ["-0x1", hex(10**30), "much"])
def test_receipt_with_invalid_l1_fee_is_rejected(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], nonsense: str
):
    harness = proxied_harness
    harness.pushed()
    add_rollup_receipt_fields(proxies, l1Fee=nonsense)
    with pytest.raises(TransientError, match=r"malformed response; expected receipts"):
        fetch_receipt_quorum(
            harness.context.sender_account.pool_view, [list_attempts(harness)[0].signed.tx_hash]
        )


def test_fee_bump_reservation_includes_l1_fee(sqlite_harness: Harness):
    harness = sqlite_harness
    deploy_gas_price_oracle(harness)
    send_unmined_push(harness, OP_STACK)
    mine_expensive_blocks(harness, 5 * GWEI, 3)
    harness.tick()
    assert len(list_attempts(harness)) == 2
    (slot,), limit = list_slots(harness), list_attempts(harness)[1].signed.gas_limit
    with harness.store.read_transaction() as uow:
        reserved = uow.outbox.slots.sum_reserved_wei(harness.context.account)
        assert uow.outbox.slots.compute_cost_wei(slot) == reserved
    assert reserved == limit * list_attempt_fees(harness)[1][0] + L1_FEE


def test_noop_reservation_includes_l1_fee(sqlite_harness: Harness):
    harness = sqlite_harness
    deploy_gas_price_oracle(harness)
    send_unmined_push(harness, OP_STACK)
    cancel_intent(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)
    no_op = harness.intents(NOOP)[0]
    signed = list_attempts(harness)[1].signed
    assert no_op.max_cost_wei == signed.gas_limit * signed.max_fee_wei + L1_FEE


def test_rollup_operator_fee_is_reserved_and_booked(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    deploy_gas_price_oracle(harness, OF_OPERATOR)
    add_rollup_receipt_fields(proxies, l1Fee=hex(L1_FEE))
    send_unmined_push(harness, OP_STACK)
    limit = get_only_intent(harness).gas_limit or 0
    max_fee = list_attempt_fees(harness)[0][0]
    assert get_only_intent(harness).max_cost_wei == limit * (max_fee + OF_OPERATOR) + L1_FEE

    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    (slot,) = list_slots(harness)
    assert get_booked_fee(harness) == L1_FEE + (slot.gas_used or 0) * OF_OPERATOR


@pytest.mark.parametrize("liar", [0, 1])
def test_huge_l1_fee_of_one_endpoint_does_not_exhaust_the_budget(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], liar: int
):
    harness = proxied_harness
    # Small enough for the reserved amount.
    send_unmined_push(harness)
    add_rollup_receipt_fields((proxies[1 - liar],), l1Fee=hex(1000))
    add_receipt_fields(proxies[liar], l1Fee=hex(10**24), effectiveGasPrice=hex(10**24))
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    (slot,) = list_slots(harness)
    assert get_booked_fee(harness) == 1000
    assert GWEI <= (slot.gas_price_wei or 0) < list_attempt_fees(harness)[0][0]


def test_l1_fee_is_corrected_when_two_endpoints_agree(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    send_unmined_push(harness)
    # The other one has not seen the block yet.
    proxies[1].rule("eth_getTransactionReceipt", return_null())
    add_receipt_fields(proxies[0], l1Fee=hex(10**24))
    reserved = get_only_intent(harness).max_cost_wei or 0
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    assert get_booked_fee(harness) == reserved - compute_gas_cost(harness)

    for proxy in proxies:
        proxy.heal()
    add_rollup_receipt_fields(proxies, l1Fee=hex(L1_FEE))
    harness.mine(FINALITY + 1)
    harness.tick()
    assert harness.states()[0] == "final"
    assert get_booked_fee(harness) == L1_FEE


def test_booked_gas_price_is_capped_at_the_signed_max_fee(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    send_unmined_push(harness)
    add_rollup_receipt_fields(proxies, effectiveGasPrice=hex(10**24))
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    assert list_slots(harness)[0].gas_price_wei == list_attempt_fees(harness)[0][0]
