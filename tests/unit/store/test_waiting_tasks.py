"""The dispatcher's queries of waiting tasks and their groups do not read the history."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Select, select, text

from oracle.domain.blocks import BEFORE_EVERYTHING, Position
from oracle.domain.state import Ending, Task
from oracle.store.database import Store
from oracle.store.engine import create_read_engine, parse_database_url
from oracle.store.state.task_repository import IS_WAITING
from oracle.store.tables.state_tables import task as table
from tests.support.examples import examples
from tests.unit.store import samples
from tests.unit.store.folding import forget_everything
from tests.unit.store.samples import address, group_key, task, task_key

quick = examples(30)
rows_of_tasks = st.lists(samples.tasks, max_size=6, unique_by=lambda stored_task: stored_task.key)
# Few groups, so that some are shared.
groups = st.none() | st.integers(1, 3).map(group_key)


def creation(row: Task) -> Position:
    return row.created_at or BEFORE_EVERYTHING


@quick
@given(rows=rows_of_tasks)
def test_task_waits_from_creation_to_start_or_end(store: Store, rows: list[Task]):
    expected = [
        row
        for row in rows
        if row.created_at and row.node is None and not row.runs and row.ending is None
    ]
    with store.transaction() as uow:
        forget_everything(uow)
        uow.tasks.save(rows)
        waiting_tasks = uow.tasks.list_waiting()
        assert uow.tasks.count_waiting() == len(waiting_tasks)
    assert sorted(waiting_tasks, key=lambda row: row.key) == sorted(
        expected, key=lambda row: row.key
    )
    assert [creation(row) for row in waiting_tasks] == sorted(creation(row) for row in expected)


@quick
@given(rows=rows_of_tasks, shared=st.lists(groups, min_size=6, max_size=6))
def test_unscored_tasks_are_returned_by_group(store: Store, rows, shared):
    rows = [replace(row, group=group) for row, group in zip(rows, shared, strict=False)]
    group_keys = [group_key(1), group_key(2)]
    expected = [row for row in rows if row.group in group_keys and row.scored_in is None]
    with store.transaction() as uow:
        forget_everything(uow)
        uow.tasks.save(rows)
        unscored_tasks = uow.tasks.list_unscored_in_groups(group_keys)
    assert sorted(unscored_tasks, key=lambda row: row.key) == sorted(
        expected, key=lambda row: row.key
    )


def test_started_task_stops_waiting_until_the_start_is_undone(store: Store):
    waiting = task(1, created_at=Position(7, 0, 0))
    started = replace(waiting, node=address(1), started_at=Position(8, 0, 0))
    ended = replace(waiting, ending=Ending.ABORTED)
    with store.transaction() as uow:
        for row, expected in ((started, []), (ended, []), (waiting, [waiting])):
            uow.tasks.save([row])
            assert uow.tasks.list_waiting() == expected


def test_unknown_groups_have_no_unscored_tasks(store: Store):
    with store.transaction() as uow:
        uow.tasks.save([task(1)])
        assert uow.tasks.list_unscored_in_groups([]) == []
        assert (
            uow.tasks.list_unscored_in_groups([group_key(number) for number in range(1_200)]) == []
        )


@pytest.mark.parametrize(
    ("chosen", "index"),
    [
        (select(table).where(IS_WAITING), "waiting_task"),
        (
            select(table).where(table.c.task_group.in_([b"1", b"2"]), table.c.scored_in.is_(None)),
            "unscored_task",
        ),
    ],
)
def test_queries_use_partial_indexes(
    store: Store, database_url: str, chosen: Select[tuple[object, ...]], index: str
):
    with store.transaction() as uow:
        uow.tasks.save(
            task(n, node=address(n), created_at=Position(n, 0, 0), scored_in=group_key(n))
            for n in range(500)
        )
        uow.tasks.save([task(999, created_at=Position(1, 0, 0), group=group_key(1))])
        assert [waiting_task.key for waiting_task in uow.tasks.list_waiting()] == [task_key(999)]
    engine = create_read_engine(parse_database_url(database_url))
    with engine.connect() as connection:
        is_sqlite = engine.dialect.name == "sqlite"
        if not is_sqlite:
            # In a table this small, the database may read every row.
            connection.execute(text("SET enable_seqscan = off"))
        query = str(chosen.compile(engine, compile_kwargs={"literal_binds": True}))
        explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        plan = "\n".join(str(row) for row in connection.execute(text(explain + query)))
    engine.dispose()
    assert index in plan
