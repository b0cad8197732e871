"""The drill of docs/how-to/rotate-and-replace-keys.md: a transmitter is paused and replaced."""

from dataclasses import replace
from pathlib import Path

from oracle.store.outbox.records import PauseKind
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.support.office import FINALITY, Office
from tests.support.sending.in_flight import send_unmined_push
from tests.support.sending.reporters import create_second_transmitter


def replace_transmitter(office: Office, folder: Path) -> None:
    """Send from another account from now on; the signer stays."""
    premises = office.premises
    new_transmitter = create_second_transmitter(premises, folder)
    keys = ReporterKeys(premises.keys.signer, new_transmitter)
    office.restart(premises=replace(premises, keys=keys))


def test_paused_account_finishes_its_push_and_replacement_account_continues(
    office: Office, tmp_path: Path
):
    send_unmined_push(office)
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.pause(
            office.context.account, PauseKind.OPERATOR, "rotation", office.context.stamp
        )
    office.restart()
    office.period()
    office.tick()
    office.mine(FINALITY + 1)
    office.tick()
    (drained,) = office.intents()
    assert (drained.state.value, office.premises.round) == ("final", 1)

    replace_transmitter(office, tmp_path)
    office.pushed()
    first, second = office.intents()[:2]
    assert office.premises.round >= 2
    assert (first.id, second.nonce) == (drained.id, 0)
    assert second.request.account.address == office.premises.transmitter


def test_account_change_during_a_push_leaves_only_that_push_unfinished(
    sqlite_office: Office, tmp_path: Path
):
    office = sqlite_office
    send_unmined_push(office)
    replace_transmitter(office, tmp_path)
    office.period()
    office.tick()
    # Its transaction lands as well, because it is in the pool; no other transmitter sends the
    # round again.
    office.mine()
    assert office.premises.round == 1
    office.pushed()
    assert office.premises.round == 2
    states = [(intent.request.round, intent.state.value) for intent in office.intents()]
    assert states == [(1, "live"), (2, "mined")]
