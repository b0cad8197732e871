"""The number of reads of a tick does not depend on the number of nodes or of due kickouts.

See docs/explanation/kickouts.md#lifecycle.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event

from oracle.domain.fold.working_set import KickoutDue
from oracle.indexer.round_leaves import LeafCache
from oracle.kickouts.kickout_cases import load_kickout_cases
from oracle.store.database import Store, UnitOfWork
from oracle.store.history_repository import KickoutRepository
from tests.support.due_nodes import (
    POLICY,
    SETTINGS,
    build_accused_kickout,
    build_leaves,
    store_kicks,
    store_nodes,
    store_round,
)


@contextmanager
def counting() -> Iterator[list[str]]:
    """Collect the statements that are executed within the context."""
    statements = list[str]()

    def note(_connection, _cursor, statement, *_args) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def load_planned_cases(uow: UnitOfWork, cache: LeafCache):
    """Load the cases as the planner does."""
    return load_kickout_cases(uow, cache, POLICY, SETTINGS, with_hold_reasons=False)


def store_due_nodes(store: Store, node_count: int, due_count: int, accused_count: int) -> None:
    nodes = store_nodes(store, node_count, due_count)
    store_round(store, 1, build_leaves(nodes, nodes[:due_count]))
    store_kicks(store, *map(build_accused_kickout, nodes[:accused_count]))


def count_statements_of_second_tick(
    store: Store, node_count: int, due_count: int, accused_count: int
) -> int:
    store_due_nodes(store, node_count, due_count, accused_count)
    cache = LeafCache()
    for _ in range(2):
        with counting() as statements, store.read_transaction() as uow:
            cases = load_planned_cases(uow, cache)
        assert len(cases) == due_count
        assert sum(case.obstacle is None for case in cases) == due_count - accused_count
    return len(statements)


def test_number_of_sql_statements_does_not_depend_on_due_nodes(new_store):
    with new_store() as few, new_store() as many:
        few_statements = count_statements_of_second_tick(few, 5, 3, 1)
        assert count_statements_of_second_tick(many, 300, 60, 20) == few_statements


def test_open_intervals_are_read_once_per_tick(new_sqlite_store, monkeypatch):
    reads = list[int]()
    real = KickoutRepository.list_open

    def count_read(self: KickoutRepository) -> list[KickoutDue]:
        reads.append(1)
        return real(self)

    monkeypatch.setattr(KickoutRepository, "list_open", count_read)
    with new_sqlite_store() as store:
        store_due_nodes(store, 40, 30, 10)
        with store.read_transaction() as uow:
            load_planned_cases(uow, LeafCache())
    assert reads == [1]


def test_case_of_a_single_node_is_loaded_without_the_other_due_nodes(
    new_sqlite_store, monkeypatch
):
    with new_sqlite_store() as store:
        store_due_nodes(store, 40, 30, 10)
        with store.read_transaction() as uow:
            cases = load_planned_cases(uow, LeafCache())
            monkeypatch.setattr(KickoutRepository, "list_open", pytest.fail)
            single_cases = [
                load_kickout_cases(
                    uow, LeafCache(), POLICY, SETTINGS, [case.node], with_hold_reasons=False
                )
                for case in cases
            ]
    assert single_cases == [[case] for case in cases]
