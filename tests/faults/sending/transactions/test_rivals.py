"""Our push is pending while another account sends the same report."""

from tests.support.office import SETTINGS, Office
from tests.support.sending.background_calls import send_rival_push
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)


def test_push_delivered_by_another_transmitter_passes_its_nonce_to_next_push(
    sqlite_office: Office,
):
    office = sqlite_office
    send_unmined_push(office)
    _brought_by_another(office)
    assert office.premises.round == 1
    _dear_period(office)
    office.tick()

    late, fresh = office.intents()
    assert (late.state.value, fresh.state.value) == ("live", "live")
    assert (fresh.nonce, fresh.replaces, fresh.request.round) == (late.nonce, late.id, 2)
    office.mine()
    office.until_final()
    assert office.states() == ["superseded", "final"]
    assert office.premises.round == 2
    assert len(list_slots(office)) == 1
    assert [state for state, _ in office.reports()].count("landed") == 2


def test_push_delivered_by_another_transmitter_gets_no_fee_bump(sqlite_office: Office):
    office = sqlite_office
    send_unmined_push(office)
    _brought_by_another(office)
    for _ in range(3):
        mine_expensive_blocks(office, 5 * GWEI, 2)
        office.tick()
    assert get_only_intent(office).state.value == "live"
    assert len(list_attempts(office)) == 1


def _brought_by_another(office: Office) -> None:
    """Let the same report land from another account, while our cheaper push stays in the pool."""
    chain = office.premises.chain
    chain.rpc("anvil_dropAllTransactions")
    send_rival_push(office, get_only_intent(office).request.calldata)
    mine_expensive_blocks(office, 5 * GWEI)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", "0x" + list_attempts(office)[0].signed.raw.hex())


def _dear_period(office: Office) -> None:
    """End the next period in blocks that are too expensive for the transactions in the pool."""
    chain, length = office.premises.chain, SETTINGS.period_seconds
    chain.at(chain.time // length * length + 2 * length - 1)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.mine()
    mine_expensive_blocks(office, 5 * GWEI, 2)
