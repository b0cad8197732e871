"""A database with pending transactions continues after `migrate`, and after a newer fold."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.chain.decode.oracle_logs import ORACLE_EVENTS
from oracle.domain.events.oracle_events import RoleSet
from oracle.domain.reports.kicks import KickState
from oracle.indexer.audit.scope_backfill import ScopeBackfill, backfill_next_gap
from oracle.indexer.rebuild import RebuildOptions
from oracle.store.database import Store
from oracle.store.outbox.records import AttemptReason, NonceState, PauseKind
from oracle.store.schema import SchemaAge, migrate
from tests.faults.sending.kickouts.test_kickouts_late import cancelled, died, state_of_kick
from tests.integration.evm.test_kicking import proposed
from tests.support.office import Office
from tests.unit.store import later
from tests.unit.store.test_schema import connected


def left(office: Office) -> str:
    """Close the office, and return the URL of its database."""
    office.close()
    office.store.close()
    return office.store._url.render_as_string(hide_password=False)


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Office], str]:
    """Return a function that closes the office, and migrates its database to a later release."""

    def upgrade(office: Office) -> str:
        url = left(office)
        later.release(monkeypatch, later.written(tmp_path))
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


@pytest.mark.parametrize("by_node", [False, True])
def test_kickout_cancellation_is_classified_after_upgrade_from_older_fold(
    office: Office, monkeypatch: pytest.MonkeyPatch, *, by_node: bool
):
    with monkeypatch.context() as older:
        older_events = {
            event_class: input_by_field
            for event_class, input_by_field in ORACLE_EVENTS.items()
            if event_class is not RoleSet
        }
        older.setattr("oracle.chain.profiles.event_reader.ORACLE_EVENTS", older_events)
        older.setattr("oracle.indexer.provenance.FOLD_VERSION", 2)
        office.reread()
        proposed(office)
        died(office)
        network = office.premises.network
        cancelled(office, by=network.nodes[2] if by_node else network.admin)
        url = left(office)
    with connected(url) as connection:
        # The fold of then took every cancellation for one.
        connection.exec_driver_sql("UPDATE kick SET state = 'cancelled'")

    with Store.open(url) as store:
        office.store = store
        office.reread()
        scope_backfill, options = ScopeBackfill(), RebuildOptions(lease_epoch=office.epoch)
        while (
            backfill_next_gap(office.source, store, office.folder, scope_backfill, options)
            is not None
        ):
            pass
        assert state_of_kick(office) is (KickState.CANCELLED if by_node else KickState.VETOED)
        office.close()
