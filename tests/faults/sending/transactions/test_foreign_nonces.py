"""A thief has the transmitter's key and uses its nonces."""

from dataclasses import replace

from oracle.store.outbox.records import NonceState, PauseKind
from oracle.telemetry.txmgr_metrics import FOREIGN
from tests.support.harness import CAPS, FINALITY, Harness
from tests.support.sending.background_calls import get_pause_kind
from tests.support.sending.faults import return_error, shift_number
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.sending.proxy import SEND, Proxy
from tests.support.sending.stolen_keys import send_foreign_transaction

Proxies = tuple[Proxy, Proxy]
CAP = 8 * GWEI


def test_case_f16_foreign_transaction_pauses_the_sender_when_it_is_final(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    before = FOREIGN._value.get()
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    send_foreign_transaction(harness, 50 * GWEI)
    harness.mine()
    harness.tick()
    # The transaction may be reorged out again.
    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)

    harness.mine(FINALITY)
    harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["held"], PauseKind.FOREIGN)
    assert FOREIGN._value.get() == before + 1
    assert [slot.state for slot in list_slots(harness)] == [NonceState.FOREIGN]

    harness.period()
    harness.tick()
    assert (harness.states()[0], len(list_slots(harness))) == ("held", 1)


def test_case_f16_claim_of_one_endpoint_does_not_pause_the_sender(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.period()
    harness.tick()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    send_foreign_transaction(harness, 50 * GWEI)
    # One of them does not count the nonce as used.
    second_proxy = proxies[1]
    second_proxy.rule("eth_getTransactionCount", shift_number(-1))
    harness.mine(FINALITY + 1)
    harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)
    assert second_proxy.count("eth_getTransactionCount") > 0


def test_case_f17_unmined_foreign_transaction_does_not_pause_sender(
    proxied_harness: Harness, proxies: Proxies
):
    harness = proxied_harness
    harness.restart(caps=replace(CAPS, fee_per_gas=CAP))
    harness.context = replace(harness.context, send_settings=BY_BLOCKS)
    send_unmined_push(harness)
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    foreign_hash = send_foreign_transaction(harness, 1_000 * GWEI)
    for proxy in proxies:
        proxy.rule(SEND, return_error("replacement transaction underpriced"))
        # A pool that counts it already, as the `pending` block does.
        proxy.rule("eth_getTransactionCount", shift_number(1), when=_is_pending_request)
    mine_expensive_blocks(harness, 2_000 * GWEI)
    for _ in range(6):
        harness.testbed.chain.rpc("anvil_dropAllTransactions")
        mine_expensive_blocks(harness, 7 * GWEI)
        harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["live"], None)
    assert max(attempt.signed.max_fee_wei for attempt in list_attempts(harness)) <= CAP
    assert harness.testbed.chain.rpc("eth_getTransactionReceipt", foreign_hash) is None

    send_foreign_transaction(harness, 1_000 * GWEI)
    mine_expensive_blocks(harness, 7 * GWEI, FINALITY + 1)
    harness.tick()
    assert (harness.states(), get_pause_kind(harness)) == (["held"], PauseKind.FOREIGN)


def _is_pending_request(request: dict[str, object]) -> bool:
    parameters = request["params"]
    return isinstance(parameters, list) and parameters[1] == "pending"
