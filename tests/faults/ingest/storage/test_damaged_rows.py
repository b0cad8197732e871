"""Every single row that is lost, added or changed by other means is found, on both engines.

See docs/how-to/check-and-repair.md.
"""

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Table, delete, insert, select, update
from sqlalchemy.sql.sqltypes import Boolean, LargeBinary, Text

from oracle.indexer.rebuild import (
    IncompleteLogsError,
    RebuildOptions,
    find_damaged_spans,
    rebuild_state,
)
from oracle.queries.index_checks import iter_differing_rows, refold_into_temporary_store
from oracle.store.database import UnitOfWork
from oracle.store.state.projections import PROJECTIONS
from oracle.store.tables.chain_tables import call, undo
from oracle.store.tables.integrity_tables import raw_checksum
from oracle.store.tables.log_tables import log_block, log_row, log_source
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

RAW = (log_row, log_block, log_source, call, raw_checksum)
# Columns whose damage SQLite and PostgreSQL would reject, or that nothing reads.
UNREAD_COLUMNS = {("score", "rule_set")}
ROWS_EACH = 3


def is_damage_found(uow: UnitOfWork, folded: UnitOfWork) -> bool:
    cursor = uow.cursor.get()
    assert cursor is not None
    if find_damaged_spans(uow, cursor.number):
        return True
    return bool(list(iter_differing_rows(uow, folded)))


def iter_damages(connection: Connection, table: Table, chance: random.Random) -> Iterator[str]:
    """Damage one row after another in each way, each time inside a savepoint."""
    rows = connection.execute(select(table)).all()
    for row in chance.sample(rows, min(ROWS_EACH, len(rows))):
        key = [column == getattr(row, column.name) for column in table.primary_key.columns]
        yield from _apply_statement(
            connection, delete(table).where(*key), f"{table.name}: row deleted"
        )
        for column in table.columns:
            if column.primary_key or (table.name, column.name) in UNREAD_COLUMNS:
                continue
            changed = update(table).where(*key).values({column.name: change_value(row, column)})
            yield from _apply_statement(connection, changed, f"{table.name}.{column.name} changed")
    if rows and table is not raw_checksum:
        values = dict(zip(table.columns.keys(), chance.choice(rows), strict=True))
        name = next(iter(table.primary_key.columns)).name
        for column in table.primary_key.columns:
            values[column.name] = change_value(chance.choice(rows), column)
        yield from _apply_statement(
            connection, insert(table).values(values), f"{table.name}: row added {name}"
        )


def _apply_statement(connection: Connection, statement, what: str) -> Iterator[str]:
    savepoint = connection.begin_nested()
    try:
        connection.execute(statement)
    except Exception:  # noqa: BLE001  a constraint refuses it: then nothing is damaged
        savepoint.rollback()
        return
    yield what
    savepoint.rollback()


def change_value(row, column):
    value = getattr(row, column.name)
    if isinstance(column.type, Boolean):
        return not value
    if isinstance(column.type, LargeBinary):
        return b"\x01" if not value else bytes([value[0] ^ 1]) + value[1:]
    if isinstance(column.type, Text):
        return "x" if value is None else value + "x"
    return 1 if value is None else value + 1


def iter_missed_damages(
    uow: UnitOfWork, synced_indexer: Indexer, connection: Connection, table: Table
) -> Iterator[str]:
    chance = random.Random(table.name)  # noqa: S311  cases to be played again
    reader, rules = synced_indexer.folder.reader, synced_indexer.folder.rules
    cursor = uow.cursor.get()
    assert cursor is not None
    with refold_into_temporary_store(uow, cursor, reader, rules, lambda *_: None) as (folded, _):
        assert not is_damage_found(uow, folded)
        for what in iter_damages(connection, table, chance):
            if not is_damage_found(UnitOfWork(connection), folded):
                yield what


def test_any_damaged_row_is_detected(synced_indexer: Indexer):
    with synced_indexer.store.transaction() as uow:
        connection = uow._connection
        missed = [
            what
            for table in (*RAW, *PROJECTIONS, undo)
            for what in iter_missed_damages(uow, synced_indexer, connection, table)
        ]
    assert missed == []


def test_rebuild_from_damaged_logs_is_rejected(synced_indexer: Indexer):
    with synced_indexer.store.transaction() as uow:
        before = uow.projections.compute_digest()
        connection = uow._connection
        first = connection.execute(select(log_row.c.id).limit(1)).scalar_one()
        connection.execute(delete(log_row).where(log_row.c.id == first))
    with pytest.raises(IncompleteLogsError, match=r"1 missing.*resync verify --from 0"):
        rebuild_state(synced_indexer.store, synced_indexer.folder, RebuildOptions())
    with synced_indexer.store.read_transaction() as uow:
        assert uow.projections.compute_digest() == before


def test_checksums_remain_valid_after_reorgs(fake_chain: FakeChain, synced_indexer: Indexer):
    fake_chain.live(7, on=fake_chain.back(5))
    synced_indexer.index()
    with synced_indexer.store.read_transaction() as uow:
        assert find_damaged_spans(uow, fake_chain.head.number) == []
        assert uow.logs.count(canonical=False) > 0
