"""A transaction after its send: lost responses, reorgs, foreign nonces."""

from collections.abc import Iterator

import pytest

from oracle.errors import InputError
from oracle.store.outbox.records import PauseKind
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import Fault, FaultyEndpoint, run_faulty_endpoint
from tests.support.harness import FINALITY, Harness
from tests.support.sending.in_flight import GWEI
from tests.support.sending.stolen_keys import send_foreign_transaction
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    harness,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "harness", "sqlite_harness", "testbed"]

SEND = "eth_sendRawTransaction"


@pytest.fixture
def endpoint(sqlite_harness: Harness) -> Iterator[FaultyEndpoint]:
    """Return the harness's only endpoint, which can fail."""
    with run_faulty_endpoint(sqlite_harness.testbed.chain.url) as standing:
        sqlite_harness.restart(urls=[standing.url])
        yield standing


def sends(harness: Harness) -> list[tuple[str, int]]:
    """Return (hash, number of sends) of every attempt of the pending nonces."""
    with harness.store.read_transaction() as uow:
        return [
            (attempt.signed.tx_hash, attempt.sends)
            for slot in uow.outbox.slots.list_unfinished(harness.context.account)
            for attempt in uow.outbox.slots.list_attempts(slot)
        ]


def test_send_with_a_lost_response_creates_only_one_transaction(
    sqlite_harness: Harness, endpoint: FaultyEndpoint
):
    harness = sqlite_harness
    endpoint.faults[SEND] = Fault.LOSE_ANSWER
    harness.period()
    harness.tick()
    assert harness.states() == ["live"]

    endpoint.faults.clear()
    harness.mine()
    harness.until_final()
    assert (harness.testbed.round, harness.testbed.nonce) == (1, 2)
    assert harness.states() == ["final"]


def test_lost_send_is_repeated_with_the_same_bytes(
    sqlite_harness: Harness, endpoint: FaultyEndpoint
):
    harness = sqlite_harness
    endpoint.faults[SEND] = Fault.SWALLOW
    harness.period()
    harness.tick()
    ((sent, times),) = sends(harness)
    assert times == 1

    endpoint.faults.clear()
    harness.mine(2)
    harness.tick()
    assert sends(harness) == [(sent, 2)]
    harness.mine()
    assert harness.testbed.round == 1


def test_transaction_is_not_resent_within_two_blocks(
    sqlite_harness: Harness, endpoint: FaultyEndpoint
):
    harness = sqlite_harness
    endpoint.faults[SEND] = "internal error"
    harness.period()
    for _ in range(5):
        harness.tick()
    assert endpoint.seen.count(SEND) == 1


def test_failed_receipt_requests_change_no_state(
    sqlite_harness: Harness, endpoint: FaultyEndpoint
):
    harness = sqlite_harness
    harness.period()
    harness.tick()
    before = (harness.states(), sends(harness))
    endpoint.faults["eth_getTransactionReceipt"] = "internal error"
    harness.mine(3)
    with pytest.raises(Exception, match="internal error"):
        harness.tick()
    assert (harness.states(), sends(harness)) == before

    endpoint.faults.clear()
    harness.tick()
    assert harness.states() == ["mined"]


def test_transaction_dropped_from_the_mempool_is_resent(harness: Harness):
    harness.period()
    harness.tick()
    ((sent, _),) = sends(harness)
    harness.testbed.chain.rpc("anvil_dropTransaction", sent)
    harness.mine(2)
    assert harness.testbed.round == 0

    harness.tick()
    harness.mine()
    assert harness.testbed.round == 1
    harness.until_final()
    assert harness.states() == ["final"]


@pytest.mark.main_path
def test_reorged_push_is_mined_again_with_the_same_bytes(harness: Harness):
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    ((sent, _),) = sends(harness)
    assert harness.states() == ["mined"]

    # One block is removed; its transactions are lost, as on a node that does not return them
    # to the pool.
    harness.testbed.chain.rpc("anvil_reorg", 1, [])
    assert harness.testbed.round == 0
    harness.tick()
    assert harness.states() == ["live"]

    harness.mine(2)
    harness.tick()
    harness.mine()
    harness.tick()
    assert (harness.testbed.round, harness.testbed.nonce) == (1, 2)
    assert sends(harness)[0][0] == sent
    harness.until_final()
    assert harness.states() == ["final"]
    assert "reorged" in harness.journal()


def test_reorg_during_downtime_is_detected_at_the_next_start(harness: Harness):
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    harness.testbed.chain.rpc("anvil_reorg", 1, [])
    harness.restart()
    harness.tick()
    assert harness.states() == ["live"]


def test_foreign_transaction_on_a_nonce_pauses_the_sender(harness: Harness):
    testbed = harness.testbed
    harness.period()
    harness.tick()
    ((sent, _),) = sends(harness)
    testbed.chain.rpc("anvil_dropTransaction", sent)
    foreign_hash = send_foreign_transaction(harness, 50 * GWEI)
    harness.mine(1 + FINALITY)
    harness.tick()

    assert harness.states() == ["held"]
    with harness.store.read_transaction() as uow:
        reason = uow.outbox.accounts.find_pause(harness.context.account)
    assert reason is not None
    assert reason.kind is PauseKind.FOREIGN
    assert f"nonce 1 was used by {foreign_hash}" in reason.reason
    harness.period()
    harness.tick()
    assert len(sends(harness)) == 0


def test_higher_onchain_nonce_prevents_startup(harness: Harness):
    testbed = harness.testbed
    chain, sender = testbed.chain, testbed.transmitter
    chain.rpc("anvil_impersonateAccount", sender)
    chain.transact(to=testbed.network.admin, data="0x", sender=sender)

    with pytest.raises(InputError, match="has used nonces up to 1, but this database assigned"):
        harness.restart()


def test_receipt_is_found_by_stored_hash_after_long_downtime(harness: Harness):
    harness.period()
    harness.tick()
    harness.mine()
    harness.testbed.chain.later(3600)
    harness.testbed.chain.mine(FINALITY + 1)
    harness.restart()
    harness.tick()
    harness.tick()
    assert (harness.states()[0], harness.testbed.nonce) == ("final", 2)
