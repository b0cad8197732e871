"""A database of today is migrated to the next release with all its content."""

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.scoring.rules import Rules
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import START_TASK, IntentState
from oracle.store.schema import SchemaAge, migrate
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.registry import build_rules
from tests.support.histories import History, make_node_address, make_task_key
from tests.unit.store import later
from tests.unit.store.samples import block
from tests.unit.store.test_outbox import ME, NOW, kick, make_ready, request, send_intent
from tests.unit.store.test_schema import open_connection

ANCESTOR, FINAL = 6, 2
CRYNUX = build_rules("crynux")


def history() -> History:
    """Return blocks 1 to 9: members, scores, a timeout, a waiting task."""
    sample_history = History().joins("A", "B", stake=5)
    sample_history = (
        sample_history.after(9).scores("A", 10, 0, 5).after(9).creates("late", of="group")
    )
    return sample_history.updates("B", gpu_name="card", gpu_vram=8).quits("B")


def fill(uow: UnitOfWork, rules: Rules) -> None:
    """Fold with a journal, and send calls: rows of every kind that a migration may touch."""
    folding = Fold(rules)
    by_block: dict[int, list[DomainEvent]] = {}
    for event in history().events:
        by_block.setdefault(event.at.block, []).append(event)
    for number, events in by_block.items():
        folding.fold_block(number, events, journal=number > FINAL)
    uow.write_changes(folding.drain_changes(), uow.rule_sets.get_or_assign_number(rules))
    uow.undo.prune_journal_to(FINAL)
    uow.cursor.move_to(block(max(by_block)), None, 0)
    _, attempt = send_intent(uow.outbox, kick("kick:1"))
    given_up = make_ready(uow.outbox, request())
    replacing_intent: dict[str, str | int | None] = {"superseded_by": attempt.intent_id}
    uow.outbox.intents.change_state(given_up, IntentState.SUPERSEDED, NOW, replacing_intent)


def read_everything(store: Store) -> list[object]:
    """Return the content of the database, with the outbox and the names of rule sets."""
    with store.read_transaction() as uow:
        slots = uow.outbox.slots.list_unfinished(ME)
        return [
            list(uow.projections.iterate_dump_lines()),
            uow.outbox.intents.list_newest(9),
            [(slot, uow.outbox.slots.list_attempts(slot)) for slot in slots],
            uow.scores.get_rule_set_by_seq(make_node_address("A"), [1, 2, 3]),
        ]


@pytest.fixture
def before(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Fill a database of today, return its content, and continue as the next release."""
    with Store.open(database_url) as store:
        with store.transaction() as uow:
            fill(uow, CRYNUX)
        stored_rows = read_everything(store)
    later.release(monkeypatch, later.write_later_migrations(tmp_path))
    return stored_rows


def test_migration_keeps_every_row(database_url: str, before: list[object]):
    assert migrate(database_url).age is SchemaAge.OLDER
    with Store.open(database_url) as store:
        assert read_everything(store) == before
        assert before[-1] == dict.fromkeys((1, 2, 3), identify_rules(CRYNUX))
        with store.transaction() as uow:
            assert [waiting_task.key for waiting_task in uow.tasks.list_waiting()] == [
                make_task_key("late")
            ]
            start = request("start:1", kind=START_TASK, exclusive_key="start_task:task=1")
            make_ready(uow.outbox, start)
            send_intent(uow.outbox, request("push:2"), "e")


@pytest.mark.usefixtures("before")
def test_undo_journal_works_after_migration(database_url: str):
    migrate(database_url)
    with Store.open(database_url) as store, store.transaction() as uow:
        uow.undo.rollback_to(ANCESTOR)
        after = list(uow.projections.iterate_dump_lines())
        uow.projections.clear()
        folding = Fold(CRYNUX)
        folding.fold_events(event for event in history().events if event.at.block <= ANCESTOR)
        uow.write_changes(folding.drain_changes(), uow.rule_sets.get_or_assign_number(CRYNUX))
        assert after == list(uow.projections.iterate_dump_lines())


def test_foreign_keys_are_kept_after_migration(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        fill(uow, CRYNUX)
    later.release(monkeypatch, later.write_later_migrations(tmp_path))
    migrate(sqlite_url)
    with open_connection(sqlite_url) as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        connection.exec_driver_sql("DELETE FROM pub_attempt")
        with pytest.raises(IntegrityError):
            connection.exec_driver_sql("DELETE FROM pub_intent")
