"""Our push is pending while another account sends the same report."""

from tests.support.office import SETTINGS, Office
from tests.support.sending.background_calls import rival_push
from tests.support.sending.in_flight import GWEI, attempts, dear_blocks, in_flight, only, slots


def test_push_delivered_by_another_transmitter_passes_its_nonce_to_next_push(
    sqlite_office: Office,
):
    office = sqlite_office
    in_flight(office)
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
    assert len(slots(office)) == 1
    assert [state for state, _ in office.reports()].count("landed") == 2


def test_push_delivered_by_another_transmitter_gets_no_fee_bump(sqlite_office: Office):
    office = sqlite_office
    in_flight(office)
    _brought_by_another(office)
    for _ in range(3):
        dear_blocks(office, 5 * GWEI, 2)
        office.tick()
    assert only(office).state.value == "live"
    assert len(attempts(office)) == 1


def _brought_by_another(office: Office) -> None:
    """Let the same report land from another account, while our cheaper push stays in the pool."""
    chain = office.premises.chain
    chain.rpc("anvil_dropAllTransactions")
    rival_push(office, only(office).request.calldata)
    dear_blocks(office, 5 * GWEI)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", "0x" + attempts(office)[0].signed.raw.hex())


def _dear_period(office: Office) -> None:
    """End the next period in blocks that are too expensive for the transactions in the pool."""
    chain, length = office.premises.chain, SETTINGS.period_seconds
    chain.at(chain.time // length * length + 2 * length - 1)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.mine()
    dear_blocks(office, 5 * GWEI, 2)
