"""A pending transaction is replaced at a higher fee: same nonce, same call, one effect."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from oracle.errors import InputError
from oracle.signing.signer import Fees
from oracle.store.outbox.records import PauseKind
from oracle.telemetry.metrics import REGISTRY
from oracle.txmgr.client.fee_quote import FeeMarket, bump_fees
from oracle.txmgr.context import SendSettings
from oracle.txmgr.fee_bump import bump_lowest_nonce
from tests.support.harness import CAPS, Harness, run_next_step
from tests.support.sending.background_calls import get_pause_kind, send_background_call
from tests.support.sending.faults import drop_request, freeze_at_block, return_error, return_null
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    assign_push,
    get_only_intent,
    is_accepted_replacement,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    reject_known_transactions,
    send_unmined_push,
)
from tests.support.sending.proxy import EVERY, SEND, Proxy
from tests.support.txmgr.operator_actions import bump_fee_now, cancel_intent

FEE = st.integers(0, 10_000 * GWEI)


def test_pending_push_is_mined_after_a_fee_bump(harness: Harness, proxies: tuple[Proxy, Proxy]):
    harness.restart(urls=[proxy.url for proxy in proxies])
    reject_known_transactions(*proxies)
    send_unmined_push(harness)
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    assert len(list_attempts(harness)) == 1

    mine_expensive_blocks(harness, 5 * GWEI)
    harness.tick()
    old, new = list_attempt_fees(harness)
    assert is_accepted_replacement(old, new)
    assert new[0] >= 5 * GWEI

    harness.mine()
    harness.tick()
    assert (harness.testbed.round, harness.states()) == (1, ["mined"])
    assert list_slots(harness)[0].won_attempt == list_attempts(harness)[1].id


def test_fee_bump_requires_both_blocks_and_seconds(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    reject_known_transactions(*proxies)
    send_unmined_push(harness, SendSettings(bump_seconds=60))
    mine_expensive_blocks(harness, 5 * GWEI, 4)
    harness.tick()
    assert len(list_attempts(harness)) == 1

    harness.testbed.chain.later(60)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    harness.testbed.chain.mine()
    harness.tick()
    assert len(list_attempts(harness)) == 2


def test_urgent_report_behind_a_push_triggers_an_earlier_fee_bump(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    reject_known_transactions(*proxies)
    send_unmined_push(harness, SendSettings(bump_seconds=600))
    network = harness.testbed.network
    # A node that leaves must not be selected any more.
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", "0x0")
    network.by(network.nodes[0], network.does.quit())
    length = harness.settings.period_seconds
    harness.testbed.chain.at(harness.testbed.chain.time // length * length + length)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    harness.testbed.chain.mine()
    mine_expensive_blocks(harness, 5 * GWEI, 1)
    harness.tick()

    assert len(list_attempts(harness)) == 2


@pytest.mark.parametrize(
    ("words", "error_message", "required_fee"),
    [
        ("replacement transaction underpriced", "underpriced_replacement", 0),
        ("FeeTooLowToCompete", "underpriced_replacement", 0),
        (
            "transaction underpriced: gas tip cap 1, minimum needed 3000000000",
            "underpriced",
            3 * GWEI,
        ),
    ],
)
def test_case_f09_underpriced_bump_is_raised_to_the_required_fee(
    proxied_harness: Harness,
    proxies: tuple[Proxy, Proxy],
    words: str,
    error_message: str,
    required_fee: int,
):
    harness = proxied_harness
    send_unmined_push(harness)
    first = list_attempts(harness)[0].signed.raw
    for proxy in proxies:
        proxy.rule(
            SEND,
            return_error(words),
            when=lambda request: request["params"][0] != "0x" + first.hex(),
        )
    mine_expensive_blocks(harness, 5 * GWEI, 3)
    harness.tick()
    refused = list_attempts(harness)[1]
    assert refused.last_error_class == error_message
    assert required_fee == 0 or list_attempt_fees(harness)[1][1] < required_fee

    # If it counted as sent, the next bump would follow three blocks later.
    mine_expensive_blocks(harness, 5 * GWEI)
    harness.tick()
    assert is_accepted_replacement(list_attempt_fees(harness)[1], list_attempt_fees(harness)[2])
    assert list_attempt_fees(harness)[2][1] >= required_fee

    # None of the fee bumps is in a pool, so the first transaction lands. Anvil drops transactions
    # that are too cheap.
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.testbed.chain.rpc("eth_sendRawTransaction", "0x" + first.hex())
    harness.mine()
    harness.tick()
    assert harness.testbed.round == 1
    assert list_slots(harness)[0].won_attempt == list_attempts(harness)[0].id
    harness.until_final()
    assert harness.states() == ["final"]


def test_case_f12_push_at_the_fee_cap_is_mined_when_fees_fall(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    cap = 8 * GWEI
    harness.restart(caps=replace(CAPS, fee_per_gas=cap))
    send_unmined_push(harness)
    for _ in range(20):
        # Always a little more than the daemon offers, up to ten times the initial fee.
        mine_expensive_blocks(harness, min(list_attempt_fees(harness)[-1][0] + 1, 10 * GWEI))
        harness.tick()
    assert all(
        is_accepted_replacement(old, new) for old, new in pairwise(list_attempt_fees(harness))
    )
    assert cap * 100 < list_attempt_fees(harness)[-1][0] * 110
    assert max(fee for fee, _ in list_attempt_fees(harness)) <= cap
    assert _read_gauge("oracle_txmgr_fee_capped") == 1

    many = len(list_attempts(harness))
    before = proxies[0].count(SEND)
    # The longest wait between two broadcasts.
    mine_expensive_blocks(harness, 10 * GWEI, 8)
    harness.tick()
    assert (len(list_attempts(harness)), proxies[0].count(SEND) > before) == (many, True)

    # Anvil has dropped the transaction and accepts it again.
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    mine_expensive_blocks(harness, 5 * GWEI)
    harness.tick()
    assert (harness.testbed.round, harness.states()) == (1, ["mined"])
    assert len(list_attempts(harness)) == many
    assert _read_gauge("oracle_txmgr_fee_capped") == 0


def test_case_f13_attempt_at_the_fee_cap_is_resent_unchanged(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    send_unmined_push(harness)
    offered = list_attempt_fees(harness)[0][0]
    harness.restart(caps=replace(CAPS, fee_per_gas=offered * 109 // 100))
    harness.context = replace(harness.context, send_settings=SendSettings(bump_seconds=0))
    before = proxies[0].count(SEND)
    for _ in range(8):
        mine_expensive_blocks(harness, 5 * GWEI)
        harness.tick()

    assert len(list_attempts(harness)) == 1
    assert proxies[0].count(SEND) >= before + 3
    assert (harness.states(), _read_gauge("oracle_txmgr_fee_capped")) == (["live"], 1)


@pytest.mark.parametrize("tip", [0, 1, 9])
@given(max_fee=FEE, base=FEE, ask=FEE)
def test_case_f14_bump_of_a_tiny_tip_meets_replacement_rules(
    tip: int, max_fee: int, base: int, ask: int
):
    last = Fees(max_fee + tip, tip)
    twin = bump_fees(last, FeeMarket(base, ask), 10**6 * GWEI)

    assert twin is not None
    assert is_accepted_replacement(last, twin)
    assert twin.tip <= twin.max_fee


def test_at_most_max_attempts_are_signed_per_nonce(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness, SendSettings(bump_seconds=0, bump_blocks=1, max_attempts=3))
    for _ in range(8):
        mine_expensive_blocks(harness, list_attempt_fees(harness)[-1][0] + 1)
        harness.tick()

    assert len(list_attempts(harness)) == 3
    assert _read_gauge("oracle_txmgr_attempts_exhausted") == 1
    assert list_attempts(harness)[-1].sends > 1


def test_attempt_with_a_used_nonce_gets_no_fee_bump(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    send_unmined_push(harness)
    for proxy in proxies:
        proxy.rule(SEND, return_error("nonce too low"))
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()

    assert len(list_attempts(harness)) == 1


@pytest.mark.parametrize("place", [0, 1])
def test_false_nonce_too_low_of_one_endpoint_does_not_prevent_a_fee_bump(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    harness = proxied_harness
    send_unmined_push(harness)
    proxies[place].rule(SEND, return_error("nonce too low"))
    mine_expensive_blocks(harness, 5 * GWEI, 2)
    harness.tick()
    mine_expensive_blocks(harness, 5 * GWEI)
    harness.tick()

    assert len(list_attempts(harness)) == 2


@pytest.mark.parametrize("place", [0, 1])
def test_lack_of_funds_does_not_pause_the_sender_of_a_used_nonce(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy], place: int
):
    """The endpoint that lacks the block of the transaction checks an old balance."""
    harness = proxied_harness
    send_unmined_push(harness)
    for proxy in proxies:
        proxy.rule("eth_getTransactionReceipt", return_null())
    mine_expensive_blocks(harness, GWEI, 2)
    assert harness.testbed.round == 1
    proxies[place].rule(SEND, return_error("insufficient funds for gas * price + value"))
    proxies[1 - place].rule(SEND, return_error("nonce too low"))
    harness.tick()

    (attempt,) = list_attempts(harness)
    assert (attempt.sends, attempt.last_error_class) == (2, "nonce_too_low")
    assert get_pause_kind(harness) is None


def test_lack_of_funds_is_recorded_if_the_use_of_the_nonce_cannot_be_checked(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    assign_push(harness)
    for proxy in proxies:
        proxy.rule(SEND, return_error("insufficient funds for gas * price + value"))
        proxy.rule("eth_getTransactionReceipt", drop_request())
        proxy.rule("eth_getTransactionCount", drop_request())
    while not (attempts := list_attempts(harness)) or not attempts[0].sends:
        assert run_next_step(harness.context, harness.source.fetch_heads())

    assert attempts[0].last_error_class == "funds"
    assert get_pause_kind(harness) is PauseKind.FUNDS


def test_stalled_endpoint_does_not_prevent_a_fee_bump(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    chain = harness.testbed.chain
    reject_known_transactions(*proxies)
    send_unmined_push(harness, SendSettings(bump_seconds=60))
    # The first endpoint lacks the block at which the transaction was sent.
    proxies[0].rule(EVERY, freeze_at_block(chain.block - 1))
    for _ in range(3):
        chain.later(30)
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
        chain.mine()
        harness.tick()

    assert len(list_attempts(harness)) == 2


def test_push_sent_at_a_block_that_is_no_longer_stored_gets_a_fee_bump(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    """The account was paused, or the daemon stopped, until the header of that block was pruned."""
    harness = proxied_harness
    reject_known_transactions(*proxies)
    send_unmined_push(harness, SendSettings(bump_seconds=60))
    for _ in range(3):
        harness.testbed.chain.later(30)
        mine_expensive_blocks(harness, 5 * GWEI)
        harness.index()
    with harness.store.transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        uow.blocks.prune_below(cursor.number)
    harness.tick()

    assert len(list_attempts(harness)) == 2


def test_call_gets_its_fee_bump_while_the_index_has_stalled(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    reject_known_transactions(*proxies)
    harness.context = replace(harness.context, send_settings=SendSettings(bump_seconds=60))
    harness.index()
    mine_expensive_blocks(harness, GWEI, 4)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    send_background_call(harness, "behind")
    mine_expensive_blocks(harness, 5 * GWEI, 3)
    assert harness.repeat(bump_lowest_nonce) == []
    chain.later(60)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.mine()

    assert [step_result.action for step_result in harness.repeat(bump_lowest_nonce)] == [
        "noop bumped"
    ]


def test_call_sent_at_an_invented_head_gets_a_fee_bump(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    reject_known_transactions(*proxies)
    harness.context = replace(harness.context, send_settings=SendSettings(bump_seconds=60))
    assign_push(harness)
    heads = harness.source.fetch_heads()
    invented_block = heads.latest._replace(number=heads.latest.number + 1000)
    while harness.states() != ["live"]:
        assert run_next_step(harness.context, replace(heads, latest=invented_block))
    mine_expensive_blocks(harness, 5 * GWEI, 4)
    harness.tick()
    assert len(list_attempts(harness)) == 1

    chain.later(60)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.mine()
    harness.tick()
    assert len(list_attempts(harness)) == 2


def test_call_sent_while_the_index_is_behind_gets_its_fee_bump_after_the_interval(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    """The newest indexed block is minutes older than the block at which the call was sent."""
    harness, chain = proxied_harness, proxied_harness.testbed.chain
    reject_known_transactions(*proxies)
    harness.context = replace(harness.context, send_settings=SendSettings(bump_seconds=60))
    harness.index()
    chain.later(600)
    chain.mine()
    mine_expensive_blocks(harness, GWEI, 4)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    send_background_call(harness, "behind")
    for is_indexed in (False, True):
        mine_expensive_blocks(harness, 5 * GWEI, 4)
        if is_indexed:
            harness.index()
        assert harness.repeat(bump_lowest_nonce) == []

    chain.later(60)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.mine()
    harness.index()
    assert [step.action for step in harness.repeat(bump_lowest_nonce)] == ["noop bumped"]


def test_operator_bump_immediately_sends_a_higher_fee(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    harness = proxied_harness
    reject_known_transactions(*proxies)
    send_unmined_push(harness, SendSettings(bump_seconds=600))
    mine_expensive_blocks(harness, 5 * GWEI)
    step = bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)

    assert step.action == "sent"
    assert is_accepted_replacement(*list_attempt_fees(harness))
    harness.mine()
    assert harness.testbed.round == 1
    harness.tick()
    with pytest.raises(InputError, match="it is mined and has no pending transaction"):
        bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)


def test_unrecorded_mined_transaction_is_not_bumped_or_cancelled(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    send_unmined_push(harness)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.testbed.chain.mine()
    assert harness.testbed.round == 1
    harness.mine(BY_BLOCKS.bump_blocks)

    assert bump_lowest_nonce(harness.context, harness.source.fetch_heads()) is None
    for act in (bump_fee_now, cancel_intent):
        with pytest.raises(InputError, match="is already in a block"):
            act(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)
    assert len(list_attempts(harness)) == 1


def test_mined_transaction_is_not_bumped_because_of_later_calls(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    send_background_call(harness, "behind")
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.testbed.chain.mine()
    assert harness.testbed.round == 1
    harness.mine(BY_BLOCKS.bump_blocks)

    # Else the way would be cleared, at any price.
    assert bump_lowest_nonce(harness.context, harness.source.fetch_heads()) is None
    assert len(list_attempts(harness)) == 1


def test_operator_bump_above_the_fee_cap_is_rejected(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    harness.restart(caps=replace(CAPS, fee_per_gas=list_attempt_fees(harness)[0][0] + 1))
    with pytest.raises(InputError, match=r"limits\.max_fee_per_gas_wei allows"):
        bump_fee_now(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)


def _read_gauge(name: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"account": "transmitter"})
