"""A database of the first version is brought up with everything that is in it."""

from collections.abc import Callable

import pytest
from alembic import command
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import IntegrityError

from oracle.dispatch.dispatch_calls import START_TASK
from oracle.domain.coverage import Level
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold.fold import Fold
from oracle.domain.scoring.rules import Rules
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import IntentState
from oracle.store.raw.coverage_repository import NAMELESS
from oracle.store.schema import SchemaAge, migrate
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.registry import rule_set
from tests.histories import History, node, task
from tests.store.samples import block
from tests.store.test_outbox import ME, NOW, kick, live, ready, request
from tests.store.test_schema import connected, layout, migrations

ANCESTOR, FINAL = 6, 2
SEED = rule_set("seed")


def history() -> History:
    """Blocks 1 to 9: members, scores, a timeout, a task that waits."""
    said = History().joins("A", "B", stake=5)
    said = said.after(9).scores("A", 10, 0, 5).after(9).creates("late", of="group")
    return said.updates("B", gpu_name="card", gpu_vram=8).quits("B")


def fill(uow: UnitOfWork, rules: Rules) -> None:
    """Fold with a journal, and send: every kind of row that the migration touches."""
    folding = Fold(rules)
    by_block: dict[int, list[DomainEvent]] = {}
    for event in history().events:
        by_block.setdefault(event.at.block, []).append(event)
    for number, events in by_block.items():
        folding.block(number, events, journal=number > FINAL)
    uow.changes(folding.drain(), uow.rule_sets.number_of(rules))
    uow.undo.prune_to(FINAL)
    uow.cursor.move_to(block(max(by_block)), None, 0)
    uow.bookmarks.set("folded_by_rules", f"{rules.name} {named_by(rules).sha256}")
    _, attempt = live(uow.outbox, kick("kick:1"))
    given_up = ready(uow.outbox, request())
    heir: dict[str, str | int | None] = {"superseded_by": attempt.intent_id}
    uow.outbox.intents.move(given_up, IntentState.SUPERSEDED, NOW, heir)


def seen(store: Store) -> list[object]:
    """All that the database says, outbox and names of rule sets included."""
    with store.reading() as uow:
        slots = uow.outbox.slots.watched(ME)
        return [
            list(uow.projections.dump()),
            uow.outbox.intents.newest(9),
            [(slot, uow.outbox.slots.attempts(slot)) for slot in slots],
            uow.scores.scored_by(node("A"), [1, 2, 3]),
        ]


@pytest.fixture
def first_version(database_url: str) -> Callable[[Rules], list[object]]:
    """Make the database one of revision 0001 with rows; returns what it said before."""

    def make(rules: Rules) -> list[object]:
        with Store.open(database_url) as store:
            with store.transaction() as uow:
                fill(uow, rules)
            said = seen(store)
        with connected(database_url) as connection:
            command.downgrade(migrations(connection), "0001")
        return said

    return make


def test_going_down_makes_the_tables_of_the_first_version(
    database_url: str, first_version: Callable[[Rules], list[object]]
):
    first_version(SEED)
    with connected(database_url) as connection:
        down = layout(connection)
        assert score_columns(connection)[-1] == "time"
        command.downgrade(migrations(connection), "base")
        command.upgrade(migrations(connection), "0001")
        assert layout(connection) == down


def score_columns(connection: Connection) -> list[str]:
    return [column["name"] for column in inspect(connection).get_columns("score")]


@pytest.mark.parametrize("rules", [SEED, rule_set("relay")])
def test_every_row_of_the_first_version_stays_what_it_was(
    database_url: str, first_version: Callable[[Rules], list[object]], rules: Rules
):
    before = first_version(rules)
    assert migrate(database_url).age is SchemaAge.OLDER
    with Store.open(database_url) as store:
        assert seen(store) == before
        assert before[-1] == dict.fromkeys((1, 2, 3), named_by(rules))
        with store.transaction() as uow:
            assert [each.key for each in uow.tasks.waiting()] == [task("late")]
            start = request("start:1", kind=START_TASK, exclusive_key="start_task:task=1")
            ready(uow.outbox, start)
            live(uow.outbox, request("push:2"), "e")


def test_the_journal_of_the_first_version_still_goes_back(
    database_url: str, first_version: Callable[[Rules], list[object]]
):
    first_version(SEED)
    migrate(database_url)
    with Store.open(database_url) as store, store.transaction() as uow:
        uow.undo.rollback_to(ANCESTOR)
        after = list(uow.projections.dump())
        uow.projections.clear()
        folding = Fold(SEED)
        folding.many(event for event in history().events if event.at.block <= ANCESTOR)
        uow.changes(folding.drain(), uow.rule_sets.number_of(SEED))
        assert after == list(uow.projections.dump())


def test_what_an_older_version_read_is_covered_at_no_level(
    database_url: str, first_version: Callable[[Rules], list[object]]
):
    assert first_version(SEED)
    with connected(database_url) as connection:
        connection.exec_driver_sql(
            "INSERT INTO identity (id, chain_id, genesis_hash, contracts, start_block) "
            "VALUES (1, 1, '01', '{}', 3)"
        )
    migrate(database_url)
    with Store.open(database_url) as store, store.reading() as uow:
        (span,) = uow.coverage.spans(NAMELESS)
        cursor = uow.cursor.get()
        assert cursor is not None
        assert (span.first, span.last, span.level) == (3, cursor.number, Level.NOTHING)
        assert {each.pending for each in uow.nodes.all()} == {None}


def test_scores_by_rules_that_nobody_knows_are_left_without_a_name(
    database_url: str, first_version: Callable[[Rules], list[object]]
):
    first_version(rule_set("seed", {"tau_seconds": "900"}))
    migrate(database_url)
    with Store.open(database_url) as store, store.reading() as uow:
        assert uow.scores.scored_by(node("A"), [1, 2, 3]) == {}
        assert [entry.score for entry in uow.scores.of_node(node("A"))] == [10, 0, 5]


def test_rows_that_refer_to_intents_still_find_them(
    sqlite_url: str,
):
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        fill(uow, SEED)
    with connected(sqlite_url) as connection:
        command.downgrade(migrations(connection), "0001")
    migrate(sqlite_url)
    with connected(sqlite_url) as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
        connection.exec_driver_sql("DELETE FROM pub_attempt")
        with pytest.raises(IntegrityError):
            connection.exec_driver_sql("DELETE FROM pub_intent")
