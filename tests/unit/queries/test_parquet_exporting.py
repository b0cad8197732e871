"""An export is final, complete or absent, and the same for any number of runs."""

import pytest

from oracle.domain.blocks import BlockRange
from oracle.errors import InputError
from oracle.indexer.rules_binding import bind_or_check_rules
from oracle.indexer.stored_events import iterate_stored_events
from tests.support.accepted_rounds import remove_contract_events
from tests.support.scripted import ScriptedReader
from tests.support.traffic import Traffic
from tests.support.txmgr.follower import RULES, Follower, mine_blocks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

# They import pyarrow, which is an optional dependency.
from lab.backtest.parquet_events import ParquetEvents  # noqa: E402
from oracle.queries.parquet.parquet_export import export_blocks, load_export_source  # noqa: E402
from oracle.queries.parquet.parquet_folder import MANIFEST, ParquetFolder  # noqa: E402
from oracle.queries.parquet.parquet_tables import ExportTable  # noqa: E402

TRAFFIC = Traffic(5).blocks(120)
READER = ScriptedReader()
SIZE = 25


def export(store, path, *, recent=False, size=SIZE):
    # As the daemon does at startup.
    with store.transaction() as uow:
        bind_or_check_rules(uow, RULES)
        source = load_export_source(uow, READER)
    folder = ParquetFolder.open_for_append(path, source, size)
    return export_blocks(folder, store, READER, lambda *_: None, include_recent=recent)


def rows(path, table, *, final=True):
    """Return all rows of a table, file by file in order."""
    files = ParquetFolder.open_existing(path).list_files(table, only_final=final)
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def all_rows(path, **options):
    return {table: rows(path, table, **options) for table in ExportTable}


def final_of(store):
    with store.read_transaction() as uow:
        return uow.cursor.get().final_number


def read_back(path):
    return [event for chunk in ParquetEvents.open_export(path).read_chunks() for event in chunk]


def list_stored_events(store, last):
    with store.read_transaction() as uow:
        return list(iterate_stored_events(uow, READER, BlockRange(0, last)))


@pytest.fixture
def follower(store):
    followed = Follower(mine_blocks(TRAFFIC), store)
    followed.catch_up()
    return followed


def test_export_contains_events_of_final_blocks(follower, store, tmp_path):
    export(store, tmp_path / "out")
    final = final_of(store)
    assert final < follower.chain.newest.number
    assert read_back(tmp_path / "out") == list_stored_events(store, final)
    assert len(list_stored_events(store, final)) > 50


def test_every_table_contains_only_final_blocks(follower, store, tmp_path):
    done = export(store, tmp_path / "out")
    rows_by_table = all_rows(tmp_path / "out", final=False)
    assert {table: len(held) for table, held in rows_by_table.items()} == dict(done.rows)
    assert all(held for held in rows_by_table.values())
    assert max(row["block"] for held in rows_by_table.values() for row in held) <= final_of(store)


def test_repeated_exports_contain_same_rows_as_one_export(new_store, tmp_path):
    with new_store() as store:
        follower = Follower(mine_blocks(TRAFFIC[:30]), store)
        for upto in (30, 31, 70, 120):
            mine_blocks(TRAFFIC[follower.chain.newest.number : upto], follower.chain)
            follower.catch_up()
            export(store, tmp_path / "often")
        export(store, tmp_path / "once")
    often = all_rows(tmp_path / "often")
    once = all_rows(tmp_path / "once")
    newest = {row["node"]: row for row in often.pop(ExportTable.NODES)}
    assert newest == {row["node"]: row for row in once.pop(ExportTable.NODES)}
    assert often == once


def test_nodes_table_matches_state_at_final_block(new_store, tmp_path):
    with new_store() as store:
        Follower(mine_blocks(TRAFFIC), store).catch_up()
        export(store, tmp_path / "out")
        final = final_of(store)
    with new_store() as store:
        chain = mine_blocks(TRAFFIC[:final])
        Follower(chain, store).catch_up()
        assert chain.newest.number == final
        with store.read_transaction() as uow:
            nodes = {node.address: node for node in uow.nodes.iterate_all()}
    held = {row["node"]: row for row in rows(tmp_path / "out", ExportTable.NODES)}
    assert held.keys() == nodes.keys()
    for address, node in nodes.items():
        row = held[address]
        assert (row["pool"], row["h"], row["h_since"]) == (list(node.pool), node.base, node.since)
        assert (row["membership"], row["block"]) == (node.membership.value, node.changed_at)


def test_recent_blocks_are_exported_on_request_and_later_replaced(follower, store, tmp_path):
    path = tmp_path / "out"
    export(store, path, recent=True)
    newest = follower.chain.newest.number
    assert read_back(path) == list_stored_events(store, final_of(store))
    events = rows(path, ExportTable.EVENTS, final=False)
    assert max(row["block"] for row in events) > final_of(store)

    follower.chain = mine_blocks(
        remove_contract_events(Traffic(6).blocks(40)), follower.chain.fork(3)
    )
    follower.catch_up()
    export(store, path)
    assert final_of(store) > newest
    assert read_back(path) == list_stored_events(store, final_of(store))
    assert rows(path, ExportTable.EVENTS, final=False) == rows(path, ExportTable.EVENTS)


def test_export_without_new_blocks_does_not_change_files(follower, store, tmp_path):
    export(store, tmp_path / "out")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert export(store, tmp_path / "out").first is None
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_next_export_repairs_interrupted_export(follower, store, tmp_path, monkeypatch):
    """The export dies after some files, between two files, or before it stores its progress."""
    export(store, tmp_path / "whole")
    left = 0
    real = pq.ParquetWriter.write_batch

    def write_batch(*arguments):
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", write_batch)
    for written in range(1, 12, 3):
        left = written
        folder = tmp_path / str(written)
        with pytest.raises(KeyboardInterrupt):
            export(store, folder)
        assert not list(folder.rglob("*.part")), written
        left = 0
        export(store, folder)
        assert all_rows(folder) == all_rows(tmp_path / "whole"), written


def test_folder_that_is_not_an_export_is_rejected(follower, store, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="neither an export nor an empty folder"):
        export(store, tmp_path)


def test_export_after_rebuild_into_same_folder_is_rejected(follower, store, tmp_path):
    from oracle.indexer.rebuild import RebuildOptions, rebuild_state  # noqa: PLC0415

    export(store, tmp_path / "out")
    rebuild_state(store, follower.folder, RebuildOptions())
    with pytest.raises(InputError, match="rebuilds 0, but the database has 1"):
        export(store, tmp_path / "out")


@pytest.mark.slow
def test_export_of_diverging_chain_is_rejected(new_store, tmp_path):
    with new_store() as store:
        Follower(mine_blocks(TRAFFIC), store).catch_up()
        export(store, tmp_path / "out")
    with new_store() as store:
        diverging_chain = mine_blocks(TRAFFIC[:60])
        diverging_chain.fork(1)
        Follower(mine_blocks(TRAFFIC[60:], diverging_chain), store).catch_up()
        with pytest.raises(
            InputError, match="last exported block with a log differs from the database"
        ):
            export(store, tmp_path / "out")
    assert (tmp_path / "out" / MANIFEST).exists()
