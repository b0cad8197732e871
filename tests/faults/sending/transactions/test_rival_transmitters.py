"""Our push is pending while another account sends the same report."""

from tests.support.harness import SETTINGS, Harness
from tests.support.sending.background_calls import send_rival_push
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)


def test_nonce_of_a_push_delivered_by_another_transmitter_is_reused(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    send_unmined_push(harness)
    _land_rival_report(harness)
    assert harness.testbed.round == 1
    _end_expensive_period(harness)
    harness.tick()

    late, fresh = harness.intents()
    assert (late.state.value, fresh.state.value) == ("live", "live")
    assert (fresh.nonce, fresh.replaces, fresh.request.round) == (late.nonce, late.id, 2)
    harness.mine()
    harness.until_final()
    assert harness.states() == ["superseded", "final"]
    assert harness.testbed.round == 2
    assert len(list_slots(harness)) == 1
    assert [state for state, _ in harness.reports()].count("landed") == 2


def test_push_delivered_by_another_transmitter_gets_no_fee_bump(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    _land_rival_report(harness)
    for _ in range(3):
        mine_expensive_blocks(harness, 5 * GWEI, 2)
        harness.tick()
    assert get_only_intent(harness).state.value == "live"
    assert len(list_attempts(harness)) == 1


def _land_rival_report(harness: Harness) -> None:
    """Let the same report land from another account, while our cheaper push stays in the pool."""
    chain = harness.testbed.chain
    chain.rpc("anvil_dropAllTransactions")
    send_rival_push(harness, get_only_intent(harness).request.calldata)
    mine_expensive_blocks(harness, 5 * GWEI)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", "0x" + list_attempts(harness)[0].signed.raw.hex())


def _end_expensive_period(harness: Harness) -> None:
    """End the next period in blocks that are too expensive for the transactions in the pool."""
    chain, length = harness.testbed.chain, SETTINGS.period_seconds
    chain.at(chain.time // length * length + 2 * length - 1)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.mine()
    mine_expensive_blocks(harness, 5 * GWEI, 2)
