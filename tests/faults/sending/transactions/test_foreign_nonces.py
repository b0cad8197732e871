"""A thief has the transmitter's key and uses its nonces."""

from dataclasses import replace

from oracle.store.outbox.records import NonceState, PauseKind
from oracle.telemetry.txmgr_metrics import FOREIGN
from tests.support.office import CAPS, FINALITY, Office
from tests.support.sending.background_calls import pause_of
from tests.support.sending.faults import error, moved_by
from tests.support.sending.in_flight import (
    BY_BLOCKS,
    GWEI,
    attempts,
    dear_blocks,
    in_flight,
    slots,
)
from tests.support.sending.proxy import SEND, Proxy
from tests.support.sending.thieves import foreign_transaction

Proxies = tuple[Proxy, Proxy]
CAP = 8 * GWEI


def test_case_f16_foreign_nonce_pauses_sender_once_final(proxied_office: Office, proxies: Proxies):
    office, before = proxied_office, FOREIGN._value.get()
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    foreign_transaction(office, 50 * GWEI)
    office.mine()
    office.tick()
    # It may be reorged out again.
    assert (office.states(), pause_of(office)) == (["live"], None)

    office.mine(FINALITY)
    office.tick()
    assert (office.states(), pause_of(office)) == (["held"], PauseKind.FOREIGN)
    assert FOREIGN._value.get() == before + 1
    assert [slot.state for slot in slots(office)] == [NonceState.FOREIGN]

    office.period()
    office.tick()
    assert (office.states()[0], len(slots(office))) == ("held", 1)


def test_case_f16_single_endpoint_does_not_make_nonce_foreign(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.period()
    office.tick()
    office.premises.chain.rpc("anvil_dropAllTransactions")
    foreign_transaction(office, 50 * GWEI)
    # One of them does not count the nonce as used.
    second_proxy = proxies[1]
    second_proxy.rule("eth_getTransactionCount", moved_by(-1))
    office.mine(FINALITY + 1)
    office.tick()
    assert (office.states(), pause_of(office)) == (["live"], None)
    assert second_proxy.count("eth_getTransactionCount") > 0


def test_case_f17_pending_foreign_transaction_does_not_pause_sender(
    proxied_office: Office, proxies: Proxies
):
    office = proxied_office
    office.restart(caps=replace(CAPS, fee_per_gas=CAP))
    office.context = replace(office.context, send_settings=BY_BLOCKS)
    in_flight(office)
    office.premises.chain.rpc("anvil_dropAllTransactions")
    foreign_hash = foreign_transaction(office, 1_000 * GWEI)
    for proxy in proxies:
        proxy.rule(SEND, error("replacement transaction underpriced"))
        # A pool that counts it already, as the `pending` block does.
        proxy.rule("eth_getTransactionCount", moved_by(1), when=_pending)
    dear_blocks(office, 2_000 * GWEI)
    for _ in range(6):
        office.premises.chain.rpc("anvil_dropAllTransactions")
        dear_blocks(office, 7 * GWEI)
        office.tick()
    assert (office.states(), pause_of(office)) == (["live"], None)
    assert max(attempt.signed.max_fee_wei for attempt in attempts(office)) <= CAP
    assert office.premises.chain.rpc("eth_getTransactionReceipt", foreign_hash) is None

    foreign_transaction(office, 1_000 * GWEI)
    dear_blocks(office, 7 * GWEI, FINALITY + 1)
    office.tick()
    assert (office.states(), pause_of(office)) == (["held"], PauseKind.FOREIGN)


def _pending(request: dict[str, object]) -> bool:
    parameters = request["params"]
    return isinstance(parameters, list) and parameters[1] == "pending"
