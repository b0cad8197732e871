"""Faults of pools: they lose transactions, keep the wrong ones, and mix up nonces."""

import pytest

from oracle.txmgr.context import SendSettings
from tests.support.office import Office
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


def test_case_f08_transaction_dropped_from_pool_is_resent_after_two_blocks(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.period()
    office.tick()
    (sent,) = [attempt.signed.tx_hash for attempt in list_attempts(office)]
    office.premises.chain.rpc("anvil_dropTransaction", sent)
    office.mine(2)
    assert office.premises.round == 0

    office.tick()
    assert [proxy.count(SEND) for proxy in proxies] == [2, 2]
    assert office.premises.chain.rpc("eth_getTransactionByHash", sent) is not None
    office.mine()
    assert office.premises.round == 1


def create_push_and_replacements(office: Office, proxies: Proxies, number: int) -> list[str]:
    """Create a pending push and replacements with its nonce; return their bytes, oldest first."""
    reject_known_transactions(*proxies)
    send_unmined_push(office)
    for base_fee in (10, 45)[: number - 1]:
        mine_expensive_blocks(office, base_fee * GWEI, 3)
        office.tick()
    signed = ["0x" + attempt.signed.raw.hex() for attempt in list_attempts(office)]
    assert len(signed) == number
    return signed


@pytest.mark.parametrize("restarts", [False, True])
def test_case_f10_mined_older_attempt_is_recognised_and_counted_once(
    proxied_office: Office, proxies: Proxies, *, restarts: bool
):
    office = proxied_office
    old, _ = create_push_and_replacements(office, proxies, 2)
    mine_bytes_alone(office, old)
    if restarts:
        office.restart()
    office.tick()
    (slot,) = list_slots(office)
    first, second = list_attempts(office)
    assert (slot.won_attempt, office.states()) == (first.id, ["mined"])
    assert office.premises.chain.rpc("eth_getTransactionReceipt", second.signed.tx_hash) is None

    office.until_final()
    assert (office.states(), office.premises.round, office.premises.nonce) == (["final"], 1, 2)
    assert office.journal().count("final") == 1


def test_case_f11_middle_of_three_attempts_mined_during_downtime_is_recognised(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    _, middle, _ = create_push_and_replacements(office, proxies, 3)
    office.close()
    mine_bytes_alone(office, middle)
    office.open()
    office.tick()
    office.until_final()
    (slot,) = list_slots(office)
    assert slot.won_attempt == list_attempts(office)[1].id
    assert (office.states(), office.premises.round, office.premises.nonce) == (["final"], 1, 2)


def test_accepted_attempt_is_resent_after_its_fee_bump_was_refused(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    send_unmined_push(office, SendSettings(bump_seconds=0, max_attempts=2))
    (first,) = ["0x" + attempt.signed.raw.hex() for attempt in list_attempts(office)]
    for proxy in proxies:
        proxy.rule(
            SEND,
            return_error("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)"),
            when=lambda question: question["params"][0] != first,
        )
    mine_expensive_blocks(office, 10 * GWEI, 3)
    office.tick()
    assert list_attempts(office)[1].last_error_class == "cap"
    # The node was restarted, so its pool is empty.
    office.premises.chain.rpc("anvil_dropAllTransactions")
    mine_expensive_blocks(office, GWEI, 2)
    office.tick()
    mine_expensive_blocks(office, GWEI)
    assert (office.premises.round, proxies[0].sent.count(first) > 1) == (1, True)


def mine_bytes_alone(office: Office, raw: str) -> None:
    """Mine these bytes in the next block, with no other transaction of the nonce in a pool."""
    chain = office.premises.chain
    chain.rpc("anvil_dropAllTransactions")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.mine()
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", raw)
    mine_expensive_blocks(office, GWEI)
    assert office.premises.nonce == 2


def test_case_f15_nonce_too_low_is_not_an_error_when_own_hash_was_mined(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.period()
    office.tick()
    office.mine(2)
    for proxy in proxies:
        proxy.rule("eth_getTransactionReceipt", return_null())
    for proxy in proxies:
        proxy.rule(SEND, return_error("nonce too low: next nonce 2, tx nonce 1"))
    office.tick()
    (only,) = list_attempts(office)
    assert (only.last_error_class, only.sends, office.states()) == ("nonce_too_low", 2, ["live"])
    assert get_pause_kind(office) is None

    for proxy in proxies:
        proxy.heal()
    office.until_final()
    assert (office.states(), office.premises.round, office.premises.nonce) == (["final"], 1, 2)


def test_case_f18_nonce_undercounted_by_endpoint_is_not_reused(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.pushed()
    office.until_final()
    for proxy in proxies:
        proxy.rule("eth_getTransactionCount", shift_number(-1))
    office.restart()
    office.pushed()
    office.until_final()
    assert [slot.nonce for slot in list_slots(office)] == [1, 2]
    assert (office.states(), office.premises.round) == (["final", "final"], 2)


def test_case_f20_lower_nonce_is_resent_before_waiting_higher_nonce(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    lower_base_fee(office)
    lower = send_background_call(office, "lower")
    chain = office.premises.chain
    chain.rpc("anvil_dropAllTransactions")
    for proxy in proxies:
        proxy.rule(SEND, return_error("NonceGap, Future nonce. Expected nonce: 1"), times=1)
    higher = send_background_call(office, "higher")
    assert list_attempts(office, 2)[0].last_error_class == "nonce_too_high"

    mine_expensive_blocks(office, GWEI, 2)
    for proxy in proxies:
        proxy.forget()
    office.tick()
    assert [proxy.sent for proxy in proxies] == [[lower, higher], [lower, higher]]
    mine_expensive_blocks(office, GWEI)
    office.until_final()
    assert (office.states(), office.premises.nonce) == (["final", "final"], 3)


def test_case_f21_all_transactions_are_resent_in_nonce_order_after_pool_loss(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    lower_base_fee(office)
    sent = [send_background_call(office, name) for name in ("first", "second", "third")]
    office.premises.chain.rpc("anvil_dropAllTransactions")
    mine_expensive_blocks(office, GWEI, 2)
    assert office.premises.nonce == 1
    for proxy in proxies:
        proxy.forget()
    office.tick()
    assert [proxy.sent for proxy in proxies] == [sent, sent]
    mine_expensive_blocks(office, GWEI)
    office.until_final()
    assert (office.states(), office.premises.nonce) == (3 * ["final"], 4)
