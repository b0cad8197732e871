"""A transaction after its send: lost responses, reorgs, foreign nonces."""

from collections.abc import Iterator

import pytest

from oracle.errors import InputError
from oracle.store.outbox.records import PauseKind
from tests.support.evm.fixtures import chain
from tests.support.faulty_endpoint import Fault, FaultyEndpoint, run_faulty_endpoint
from tests.support.office import FINALITY, Office
from tests.support.sending.in_flight import GWEI
from tests.support.sending.stolen_keys import send_foreign_transaction
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    office,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "office", "premises", "sqlite_office"]

SEND = "eth_sendRawTransaction"


@pytest.fixture
def endpoint(sqlite_office: Office) -> Iterator[FaultyEndpoint]:
    """Return the office's only endpoint, which can fail."""
    with run_faulty_endpoint(sqlite_office.premises.chain.url) as standing:
        sqlite_office.restart(urls=[standing.url])
        yield standing


def sends(office: Office) -> list[tuple[str, int]]:
    """Return (hash, number of sends) of every attempt of the pending nonces."""
    with office.store.read_transaction() as uow:
        return [
            (attempt.signed.tx_hash, attempt.sends)
            for slot in uow.outbox.slots.list_unfinished(office.context.account)
            for attempt in uow.outbox.slots.list_attempts(slot)
        ]


def test_accepted_send_with_lost_response_yields_only_one_transaction(
    sqlite_office: Office, endpoint: FaultyEndpoint
):
    office = sqlite_office
    endpoint.faults[SEND] = Fault.LOSE_ANSWER
    office.period()
    office.tick()
    assert office.states() == ["live"]

    endpoint.faults.clear()
    office.mine()
    office.until_final()
    assert (office.premises.round, office.premises.nonce) == (1, 2)
    assert office.states() == ["final"]


def test_lost_send_is_repeated_with_same_bytes(sqlite_office: Office, endpoint: FaultyEndpoint):
    office = sqlite_office
    endpoint.faults[SEND] = Fault.SWALLOW
    office.period()
    office.tick()
    ((sent, times),) = sends(office)
    assert times == 1

    endpoint.faults.clear()
    office.mine(2)
    office.tick()
    assert sends(office) == [(sent, 2)]
    office.mine()
    assert office.premises.round == 1


def test_send_is_not_repeated_within_two_blocks(sqlite_office: Office, endpoint: FaultyEndpoint):
    office = sqlite_office
    endpoint.faults[SEND] = "internal error"
    office.period()
    for _ in range(5):
        office.tick()
    assert endpoint.seen.count(SEND) == 1


def test_unanswered_receipt_requests_change_no_state(
    sqlite_office: Office, endpoint: FaultyEndpoint
):
    office = sqlite_office
    office.period()
    office.tick()
    before = (office.states(), sends(office))
    endpoint.faults["eth_getTransactionReceipt"] = "internal error"
    office.mine(3)
    with pytest.raises(Exception, match="internal error"):
        office.tick()
    assert (office.states(), sends(office)) == before

    endpoint.faults.clear()
    office.tick()
    assert office.states() == ["mined"]


def test_transaction_dropped_from_pool_is_resent(office: Office):
    office.period()
    office.tick()
    ((sent, _),) = sends(office)
    office.premises.chain.rpc("anvil_dropTransaction", sent)
    office.mine(2)
    assert office.premises.round == 0

    office.tick()
    office.mine()
    assert office.premises.round == 1
    office.until_final()
    assert office.states() == ["final"]


@pytest.mark.main_path
def test_reorged_push_lands_again_with_same_bytes(office: Office):
    office.period()
    office.tick()
    office.mine()
    office.tick()
    ((sent, _),) = sends(office)
    assert office.states() == ["mined"]

    # One block is removed; its transactions are lost, as on a node that does not return them
    # to the pool.
    office.premises.chain.rpc("anvil_reorg", 1, [])
    assert office.premises.round == 0
    office.tick()
    assert office.states() == ["live"]

    office.mine(2)
    office.tick()
    office.mine()
    office.tick()
    assert (office.premises.round, office.premises.nonce) == (1, 2)
    assert sends(office)[0][0] == sent
    office.until_final()
    assert office.states() == ["final"]
    assert "reorged" in office.journal()


def test_reorg_during_downtime_is_detected_at_next_start(office: Office):
    office.period()
    office.tick()
    office.mine()
    office.tick()
    office.premises.chain.rpc("anvil_reorg", 1, [])
    office.restart()
    office.tick()
    assert office.states() == ["live"]


def test_nonce_used_by_a_foreign_transaction_pauses_the_sender(office: Office):
    premises = office.premises
    office.period()
    office.tick()
    ((sent, _),) = sends(office)
    premises.chain.rpc("anvil_dropTransaction", sent)
    foreign_hash = send_foreign_transaction(office, 50 * GWEI)
    office.mine(1 + FINALITY)
    office.tick()

    assert office.states() == ["held"]
    with office.store.read_transaction() as uow:
        reason = uow.outbox.accounts.get_pause(office.context.account)
    assert reason is not None
    assert reason.kind is PauseKind.FOREIGN
    assert f"nonce 1 was used by {foreign_hash}" in reason.reason
    office.period()
    office.tick()
    assert len(sends(office)) == 0


def test_start_is_refused_if_more_nonces_were_used_than_the_database_assigned(office: Office):
    premises = office.premises
    chain, sender = premises.chain, premises.transmitter
    chain.rpc("anvil_impersonateAccount", sender)
    chain.transact(to=premises.network.admin, data="0x", sender=sender)

    with pytest.raises(InputError, match="has used nonces up to 1, but this database assigned"):
        office.restart()


def test_receipt_is_matched_by_stored_hash_after_long_downtime(office: Office):
    office.period()
    office.tick()
    office.mine()
    office.premises.chain.later(3600)
    office.premises.chain.mine(FINALITY + 1)
    office.restart()
    office.tick()
    office.tick()
    assert (office.states()[0], office.premises.nonce) == ("final", 2)
