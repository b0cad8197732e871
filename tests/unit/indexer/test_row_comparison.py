"""Every field of a log and of a call is compared;
a difference in another would never be noticed.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import fields, replace
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, LargeBinary, update

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.logs import Call, Log
from oracle.errors import TransientError
from oracle.indexer.audit.row_diff import (
    RowDiff,
    check_window_on_same_chain,
    compare_window_with_database,
    find_conflicting_hashes,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.tables.chain_tables import call as call_table
from oracle.store.tables.log_tables import log_block, log_row, log_source
from tests.support.txmgr.stores import NewStore
from tests.unit.store.samples import call, log, make_hash

A_LOG = log(5, 2, topics=(make_hash(7), make_hash(8)), data="0x1234")
A_CALL = call(5, 1, value=10, input="0x1234")


@pytest.fixture
def store(new_sqlite_store: NewStore) -> Iterator[Store]:
    with new_sqlite_store() as opened:
        with opened.transaction() as uow:
            uow.logs.append([A_LOG])
            uow.calls.append([A_CALL])
        yield opened


def make_window(logs: list[Log], calls: list[Call]) -> BlockWindow:
    last = BlockRef(9, make_hash(9), make_hash(8), 99)
    return BlockWindow(BlockRange(0, 9), make_hash(0), last, [], logs, calls)


def change_field(row: Log | Call, name: str) -> Any:
    """Return the row with another value in this field."""
    value: Any = getattr(row, name)
    if isinstance(value, bool):
        value = not value
    elif isinstance(value, int):
        value += 1
    elif isinstance(value, tuple):
        value = value[:-1]
    else:
        value = value[:-2] + ("00" if value[-2:] != "00" else "01")
    changed_row = copy(row)
    setattr(changed_row, name, value)
    return changed_row


def other_value(column: Column[Any], row: Any) -> object:
    value = getattr(row, column.name)
    if isinstance(column.type, Boolean):
        return not value
    if isinstance(column.type, LargeBinary):
        return bytes(value[:-1]) + bytes([value[-1] ^ 1])
    return value + 1


def differs(uow: UnitOfWork) -> RowDiff:
    return compare_window_with_database(uow, make_window([A_LOG], [A_CALL]))


def test_identical_rows_have_no_difference(store: Store):
    with store.read_transaction() as uow:
        assert not differs(uow)


@pytest.mark.parametrize("name", [field.name for field in fields(Log)])
def test_changed_log_field_is_found(store: Store, name: str):
    with store.read_transaction() as uow:
        assert compare_window_with_database(
            uow, make_window([change_field(A_LOG, name)], [A_CALL])
        )


@pytest.mark.parametrize("name", [field.name for field in fields(Call)])
def test_changed_call_field_is_found(store: Store, name: str):
    with store.read_transaction() as uow:
        assert compare_window_with_database(
            uow, make_window([A_LOG], [change_field(A_CALL, name)])
        )


# All columns, except the keys that connect the parts of a row.
COLUMNS = [
    column
    for column in (
        *log_row.columns,
        *log_block.columns,
        *log_source.columns,
        *call_table.columns,
    )
    if column not in {log_row.c.source, log_block.c.number, log_source.c.id}
]


@pytest.mark.parametrize(
    "column", COLUMNS, ids=lambda table_column: f"{table_column.table}.{table_column.name}"
)
def test_changed_row_column_is_found(store: Store, column: Column[Any]):
    """A new column that is not read into the row would not be compared."""
    with store.transaction() as uow:
        connection = uow.logs._connection
        (row,) = connection.execute(column.table.select())
        there = update(column.table).values({column.name: other_value(column, row)})
        connection.execute(there)
        assert differs(uow)


@pytest.mark.parametrize("name", [field.name for field in fields(Call)])
def test_call_with_any_wrong_field_is_repaired(store: Store, name: str):
    wrong = change_field(A_CALL, name)
    with store.transaction() as uow:
        uow.calls.orphan([A_CALL])
        uow.calls.append([wrong])
        differences = differs(uow)
        uow.calls.orphan(differences.extra_calls)
        uow.calls.append(differences.missing_calls)
        uow.calls.replace(differences.changed_calls)
        assert list(uow.calls.iterate_between(0, 9)) == [A_CALL]


@pytest.mark.parametrize("name", [field.name for field in fields(Log)])
def test_log_with_any_wrong_field_is_repaired(store: Store, name: str):
    wrong = change_field(A_LOG, name)
    with store.transaction() as uow:
        uow.logs.orphan([A_LOG])
        uow.logs.append([wrong])
        differences = differs(uow)
        uow.logs.orphan(differences.extra_logs)
        uow.logs.append(differences.missing_logs)
        uow.logs.replace(differences.changed_logs)
        assert list(uow.logs.iterate_between(0, 9)) == [A_LOG]


def test_stored_block_missing_from_the_window_is_reported_as_a_conflict(store: Store):
    window = make_window([], [])
    linked = replace(window, headers=[BlockRef(4, make_hash(4), make_hash(3), 48), window.last])

    with store.read_transaction() as uow:
        assert find_conflicting_hashes(uow, window) == {}
        assert list(find_conflicting_hashes(uow, linked)) == [5]


def test_window_above_the_newest_block_raises_transient_error(store: Store):
    """The window shows no block at the stored height, and logs above it that were not read."""
    cursor = Cursor(8, make_hash(88), 90, 6, make_hash(6), 0)

    with (
        store.read_transaction() as uow,
        pytest.raises(TransientError, match="a reorg is in progress"),
    ):
        check_window_on_same_chain(uow, cursor, make_window([], []))
