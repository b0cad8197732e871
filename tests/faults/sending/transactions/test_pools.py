"""Faults of pools: they lose transactions, keep the wrong ones, and mix up nonces."""

import pytest

from oracle.txmgr.context import SendSettings
from tests.support.harness import Harness
from tests.support.sending.background_calls import (
    get_pause_kind,
    lower_base_fee,
    send_background_call,
)
from tests.support.sending.faults import return_error, return_null, shift_number
from tests.support.sending.in_flight import (
    GWEI,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    reject_known_transactions,
    send_unmined_push,
)
from tests.support.sending.proxy import SEND, Proxy

Proxies = tuple[Proxy, Proxy]
CAP = 8 * GWEI


def test_case_f08_transaction_dropped_from_mempool_is_resent(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.period()
    harness.tick()
    (sent,) = [attempt.signed.tx_hash for attempt in list_attempts(harness)]
    harness.testbed.chain.rpc("anvil_dropTransaction", sent)
    harness.mine(2)
    assert harness.testbed.round == 0

    harness.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [2, 2]
    assert harness.testbed.chain.rpc("eth_getTransactionByHash", sent) is not None
    harness.mine()
    assert harness.testbed.round == 1


def create_push_and_replacements(harness: Harness, proxies: Proxies, number: int) -> list[str]:
    """Create a pending push and replacements with its nonce; return their bytes, oldest first."""
    reject_known_transactions(*proxies)
    send_unmined_push(harness)
    for base_fee in (10, 45)[: number - 1]:
        mine_expensive_blocks(harness, base_fee * GWEI, 3)
        harness.tick()
    signed = ["0x" + attempt.signed.raw.hex() for attempt in list_attempts(harness)]
    assert len(signed) == number
    return signed


@pytest.mark.parametrize("restarts", [False, True])
def test_case_f10_older_attempt_that_is_mined_counts_once(
    proxied_harness: Harness, proxies: Proxies, *, restarts: bool
):
    harness = proxied_harness
    old, _ = create_push_and_replacements(harness, proxies, 2)
    mine_bytes_alone(harness, old)
    if restarts:
        harness.restart()
    harness.tick()
    (slot,) = list_slots(harness)
    first, second = list_attempts(harness)
    assert (slot.won_attempt, harness.states()) == (first.id, ["mined"])
    assert harness.testbed.chain.rpc("eth_getTransactionReceipt", second.signed.tx_hash) is None

    harness.until_final()
    assert (harness.states(), harness.testbed.round, harness.testbed.nonce) == (["final"], 1, 2)
    assert harness.journal().count("final") == 1


def test_case_f11_second_attempt_mined_in_downtime_is_recognised(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    _, middle, _ = create_push_and_replacements(harness, proxies, 3)
    harness.close()
    mine_bytes_alone(harness, middle)
    harness.open()
    harness.tick()
    harness.until_final()
    (slot,) = list_slots(harness)
    assert slot.won_attempt == list_attempts(harness)[1].id
    assert (harness.states(), harness.testbed.round, harness.testbed.nonce) == (["final"], 1, 2)


def test_accepted_attempt_is_resent_after_its_bump_is_rejected(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    send_unmined_push(harness, SendSettings(bump_seconds=0, max_attempts=2))
    (first,) = ["0x" + attempt.signed.raw.hex() for attempt in list_attempts(harness)]
    for proxy in proxies:
        proxy.rule(
            SEND,
            return_error("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)"),
            when=lambda question: question["params"][0] != first,
        )
    mine_expensive_blocks(harness, 10 * GWEI, 3)
    harness.tick()
    assert list_attempts(harness)[1].last_error_class == "cap"
    # The node was restarted, so its pool is empty.
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    mine_expensive_blocks(harness, GWEI, 2)
    harness.tick()
    mine_expensive_blocks(harness, GWEI)
    assert (harness.testbed.round, proxies[0].sent.count(first) > 1) == (1, True)


def mine_bytes_alone(harness: Harness, raw: str) -> None:
    """Mine these bytes in the next block, with no other transaction of the nonce in a pool."""
    chain = harness.testbed.chain
    chain.rpc("anvil_dropAllTransactions")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.mine()
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", raw)
    mine_expensive_blocks(harness, GWEI)
    assert harness.testbed.nonce == 2


def test_case_f15_nonce_too_low_is_ignored_if_own_hash_is_mined(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.period()
    harness.tick()
    harness.mine(2)
    for proxy in proxies:
        proxy.rule("eth_getTransactionReceipt", return_null())
    for proxy in proxies:
        proxy.rule(SEND, return_error("nonce too low: next nonce 2, tx nonce 1"))
    harness.tick()
    (only,) = list_attempts(harness)
    assert (only.last_error_class, only.sends, harness.states()) == ("nonce_too_low", 2, ["live"])
    assert get_pause_kind(harness) is None

    for proxy in proxies:
        proxy.heal()
    harness.until_final()
    assert (harness.states(), harness.testbed.round, harness.testbed.nonce) == (["final"], 1, 2)


def test_case_f18_nonce_is_not_reused_if_endpoints_return_a_low_count(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.pushed()
    harness.until_final()
    for proxy in proxies:
        proxy.rule("eth_getTransactionCount", shift_number(-1))
    harness.restart()
    harness.pushed()
    harness.until_final()
    assert [slot.nonce for slot in list_slots(harness)] == [1, 2]
    assert (harness.states(), harness.testbed.round) == (["final", "final"], 2)


def test_case_f20_lower_nonce_is_resent_before_higher_ones(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    lower_base_fee(harness)
    lower = send_background_call(harness, "lower")
    chain = harness.testbed.chain
    chain.rpc("anvil_dropAllTransactions")
    for proxy in proxies:
        proxy.rule(SEND, return_error("NonceGap, Future nonce. Expected nonce: 1"), times=1)
    higher = send_background_call(harness, "higher")
    assert list_attempts(harness, 2)[0].last_error_class == "nonce_too_high"

    mine_expensive_blocks(harness, GWEI, 2)
    for proxy in proxies:
        proxy.forget()
    harness.tick()
    assert [proxy.sent for proxy in proxies] == [[lower, higher], [lower, higher]]
    mine_expensive_blocks(harness, GWEI)
    harness.until_final()
    assert (harness.states(), harness.testbed.nonce) == (["final", "final"], 3)


def test_case_f21_dropped_transactions_are_resent_in_nonce_order(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    lower_base_fee(harness)
    sent = [send_background_call(harness, name) for name in ("first", "second", "third")]
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    mine_expensive_blocks(harness, GWEI, 2)
    assert harness.testbed.nonce == 1
    for proxy in proxies:
        proxy.forget()
    harness.tick()
    assert [proxy.sent for proxy in proxies] == [sent, sent]
    mine_expensive_blocks(harness, GWEI)
    harness.until_final()
    assert (harness.states(), harness.testbed.nonce) == (3 * ["final"], 4)
