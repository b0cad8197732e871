"""A database with pending transactions continues after `migrate`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.store.database import Store
from oracle.store.outbox.records import AttemptReason, NonceState, PauseKind
from oracle.store.schema import SchemaAge, migrate
from tests.support.office import Office
from tests.unit.store import later


def close_office(office: Office) -> str:
    """Close the office, and return the URL of its database."""
    office.close()
    office.store.close()
    return office.store._url.render_as_string(hide_password=False)


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Office], str]:
    """Return a function that closes the office, and migrates its database to a later release."""

    def upgrade(office: Office) -> str:
        url = close_office(office)
        later.release(monkeypatch, later.write_later_migrations(tmp_path))
        assert migrate(url).age is SchemaAge.OLDER
        return url

    return upgrade


def test_case_f49_live_push_becomes_final_after_migration(
    office: Office, upgraded: Callable[[Office], str]
):
    office.period()
    office.tick()
    with office.store.read_transaction() as uow:
        (before,) = uow.outbox.slots.list_unfinished(office.context.account)
        (sent,) = uow.outbox.slots.list_attempts(before)
    url = upgraded(office)

    with Store.open(url) as store:
        office.restart(store=store)
        with store.read_transaction() as uow:
            (slot,) = uow.outbox.slots.list_unfinished(office.context.account)
            (attempt,) = uow.outbox.slots.list_attempts(slot)
        assert (slot.state, slot.nonce, slot.intent_id) == (
            NonceState.LIVE,
            before.nonce,
            before.intent_id,
        )
        assert attempt.signed == sent.signed
        assert attempt.reason is AttemptReason.FIRST
        assert attempt.first_sent_block == sent.first_sent_block == slot.opened_block
        office.mine()
        office.until_final()
        assert office.states() == ["final"]
        assert (office.premises.round, office.premises.nonce) == (1, 2)
        office.pushed()
        office.close()


def test_case_f49_paused_account_and_mined_push_survive_migration(
    office: Office, upgraded: Callable[[Office], str]
):
    office.period()
    office.tick()
    office.mine()
    office.tick()
    account = office.context.account
    reason = "nonce 7 was used by a transaction that is not ours"
    with office.context.write_transaction() as uow:
        uow.outbox.accounts.pause(account, PauseKind.FOREIGN, reason, office.context.stamp)
    url = upgraded(office)
    with Store.open(url) as store:
        office.restart(store=store)
        with office.context.write_transaction() as uow:
            assert uow.outbox.accounts.get_pause(account) == (PauseKind.FOREIGN, reason)
            (slot,) = uow.outbox.slots.list_unfinished(account)
            assert slot.state is NonceState.MINED
            assert slot.mined_at is not None
            uow.outbox.accounts.resume(account, office.context.stamp)
        office.until_final()
        office.pushed()
        assert (office.premises.round, office.premises.nonce) == (2, 3)
        office.close()
