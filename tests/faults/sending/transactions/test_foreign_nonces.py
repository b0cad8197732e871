"""A thief has the transmitter's key and uses its nonces."""

from dataclasses import replace

from oracle.store.outbox.records import NonceState, PauseKind
from oracle.telemetry.txmgr_metrics import FOREIGN
from tests.support.office import CAPS, FINALITY, Office
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


def test_case_f16_foreign_nonce_pauses_sender_once_final(proxied_office: Office, proxies: Proxies):
    office, before = proxied_office, FOREIGN._value.get()
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    send_foreign_transaction(office, 50 * GWEI)
    office.mine()
    office.tick()
    # The transaction may be reorged out again.
    assert (office.states(), get_pause_kind(office)) == (["live"], None)

    office.mine(FINALITY)
    office.tick()
    assert (office.states(), get_pause_kind(office)) == (["held"], PauseKind.FOREIGN)
    assert FOREIGN._value.get() == before + 1
    assert [slot.state for slot in list_slots(office)] == [NonceState.FOREIGN]

    office.period()
    office.tick()
    assert (office.states()[0], len(list_slots(office))) == ("held", 1)


def test_case_f16_single_endpoint_does_not_make_nonce_foreign(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    send_foreign_transaction(office, 50 * GWEI)
    # One of them does not count the nonce as used.
    second_proxy = proxies[1]
    second_proxy.rule("eth_getTransactionCount", shift_number(-1))
    office.mine(FINALITY + 1)
    office.tick()
    assert (office.states(), get_pause_kind(office)) == (["live"], None)
    assert second_proxy.count("eth_getTransactionCount") > 0


def test_case_f17_pending_foreign_transaction_does_not_pause_sender(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.restart(caps=replace(CAPS, fee_per_gas=CAP))
    office.context = replace(office.context, send_settings=BY_BLOCKS)
    send_unmined_push(office)
    office.premises.chain.rpc("anvil_dropAllTransactions")
    foreign_hash = send_foreign_transaction(office, 1_000 * GWEI)
    for proxy in proxies:
        proxy.rule(SEND, return_error("replacement transaction underpriced"))
        # A pool that counts it already, as the `pending` block does.
        proxy.rule("eth_getTransactionCount", shift_number(1), when=_pending)
    mine_expensive_blocks(office, 2_000 * GWEI)
    for _ in range(6):
        office.premises.chain.rpc("anvil_dropAllTransactions")
        mine_expensive_blocks(office, 7 * GWEI)
        office.tick()
    assert (office.states(), get_pause_kind(office)) == (["live"], None)
    assert max(attempt.signed.max_fee_wei for attempt in list_attempts(office)) <= CAP
    assert office.premises.chain.rpc("eth_getTransactionReceipt", foreign_hash) is None

    send_foreign_transaction(office, 1_000 * GWEI)
    mine_expensive_blocks(office, 7 * GWEI, FINALITY + 1)
    office.tick()
    assert (office.states(), get_pause_kind(office)) == (["held"], PauseKind.FOREIGN)


def _pending(request: dict[str, object]) -> bool:
    parameters = request["params"]
    return isinstance(parameters, list) and parameters[1] == "pending"
