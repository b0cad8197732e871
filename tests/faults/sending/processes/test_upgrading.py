"""A database with pending transactions continues after `migrate`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.store.database import Store
from oracle.store.outbox.records import AttemptReason, NonceState, PauseKind
from oracle.store.schema import SchemaAge, migrate
from tests.support.harness import Harness
from tests.unit.store import later


def close_harness(harness: Harness) -> str:
    """Close the harness, and return the URL of its database."""
    harness.close()
    harness.store.close()
    return harness.store._url.render_as_string(hide_password=False)


@pytest.fixture
def upgrade_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Harness], str]:
    """Return a function that closes the harness, and migrates its database to a later release."""

    def upgrade(harness: Harness) -> str:
        url = close_harness(harness)
        later.release(monkeypatch, later.write_later_migrations(tmp_path))
        assert migrate(url).age is SchemaAge.OLDER
        return url

    return upgrade


def test_case_f49_live_push_becomes_final_after_a_migration(
    harness: Harness, upgrade_database: Callable[[Harness], str]
):
    harness.period()
    harness.tick()
    with harness.store.read_transaction() as uow:
        (before,) = uow.outbox.slots.list_unfinished(harness.context.account)
        (sent,) = uow.outbox.slots.list_attempts(before)
    url = upgrade_database(harness)

    with Store.open(url) as store:
        harness.restart(store=store)
        with store.read_transaction() as uow:
            (slot,) = uow.outbox.slots.list_unfinished(harness.context.account)
            (attempt,) = uow.outbox.slots.list_attempts(slot)
        assert (slot.state, slot.nonce, slot.intent_id) == (
            NonceState.LIVE,
            before.nonce,
            before.intent_id,
        )
        assert attempt.signed == sent.signed
        assert attempt.reason is AttemptReason.FIRST
        assert attempt.first_sent_block == sent.first_sent_block == slot.opened_block
        harness.mine()
        harness.until_final()
        assert harness.states() == ["final"]
        assert (harness.testbed.round, harness.testbed.nonce) == (1, 2)
        harness.pushed()
        harness.close()


def test_case_f49_paused_account_and_push_survive_a_migration(
    harness: Harness, upgrade_database: Callable[[Harness], str]
):
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    account = harness.context.account
    reason = "nonce 7 was used by a transaction that is not ours"
    with harness.context.write_transaction() as uow:
        uow.outbox.accounts.pause(account, PauseKind.FOREIGN, reason, harness.context.stamp)
    url = upgrade_database(harness)
    with Store.open(url) as store:
        harness.restart(store=store)
        with harness.context.write_transaction() as uow:
            assert uow.outbox.accounts.find_pause(account) == (PauseKind.FOREIGN, reason)
            (slot,) = uow.outbox.slots.list_unfinished(account)
            assert slot.state is NonceState.MINED
            assert slot.mined_at is not None
            uow.outbox.accounts.resume(account, harness.context.stamp)
        harness.until_final()
        harness.pushed()
        assert (harness.testbed.round, harness.testbed.nonce) == (2, 3)
        harness.close()
