"""Many pending calls of the dispatcher: only the lowest nonce is bumped, the others wait."""

from dataclasses import replace

from oracle.store.outbox.records import Attempt, PauseKind
from oracle.txmgr.context import SendSettings
from tests.support.evm.fixtures import chain
from tests.support.sending.in_flight import GWEI, is_accepted_replacement
from tests.support.txmgr.dispatch_office import DispatchOffice, fresh_stage, office, premises
from tests.support.txmgr.office_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "office", "premises"]


def test_only_lowest_nonce_of_batch_gets_fee_bump(office: DispatchOffice):
    network = office.premises.network
    for _ in range(2):
        network.create()
    _dear(office, GWEI)
    office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    office.turn()
    office.starts = replace(office.starts, send_settings=SendSettings(bump_seconds=0))
    assert [len(slot_attempts) for slot_attempts in _attempts(office)] == [1, 1]

    _dear(office, 5 * GWEI, 3)
    office.turn()
    lower, higher = _attempts(office)
    assert (len(lower), len(higher)) == (2, 1)
    old, new = (attempt.signed for attempt in lower)
    assert is_accepted_replacement((old.max_fee_wei, old.tip_wei), (new.max_fee_wei, new.tip_wei))


def test_dispatcher_paused_for_funds_resumes_automatically(office: DispatchOffice):
    with office.starts.write_transaction() as uow:
        uow.outbox.accounts.pause(
            office.starts.account, PauseKind.FUNDS, "for a test", office.starts.stamp
        )
    assert [step.action for step in office.turn()] == ["resumed"]


def _dear(office: DispatchOffice, base_fee: int, blocks: int = 1) -> None:
    for _ in range(blocks):
        office.premises.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(base_fee))
        office.mine()


def _attempts(office: DispatchOffice) -> list[list[Attempt]]:
    with office.store.read_transaction() as uow:
        slots = uow.outbox.slots.list_unfinished(office.starts.account)
        return [uow.outbox.slots.list_attempts(slot) for slot in slots]
