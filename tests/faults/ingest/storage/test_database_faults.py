"""Case 61: the database cannot be written, was lost, or was replaced by an older copy."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import Engine, event

from oracle.errors import InputError, OracleError, TransientError
from oracle.indexer.commit import CommittedWindow
from oracle.store.database import Store
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

# Pages that SQLite may still take before the disk is full.
_PAGES_LEFT = 2


def get_database_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


@pytest.fixture
def partly_indexed_indexer(fake_chain: FakeChain, open_indexer: OpenIndexer) -> Indexer:
    """Return an indexer on SQLite, at block 10 of 70."""
    fake_chain.live(40)
    indexer = open_indexer(*fake_chain.urls, reports=False)
    indexer.ingest.max_blocks = 10
    assert isinstance(indexer.step(), CommittedWindow)
    return indexer


@contextmanager
def simulate_full_disk(path: Path) -> Iterator[None]:
    """Limit the file size for all connections that are opened within this context."""
    with closing(sqlite3.connect(path)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()

    def limit(connection: sqlite3.Connection, _entry: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + _PAGES_LEFT}")

    event.listen(Engine, "connect", limit)
    try:
        yield
    finally:
        event.remove(Engine, "connect", limit)


def can_reach_undisturbed_state(
    indexer: Indexer, fake_chain: FakeChain, open_indexer: OpenIndexer
) -> bool:
    """Return whether the indexer reaches the state of an undisturbed indexer."""
    indexer.index()
    undisturbed = open_indexer(*fake_chain.urls, reports=False)
    undisturbed.index()
    states = [
        (compared.cursor, compared.digest(), compared.canonical_logs(), compared.gaps())
        for compared in (indexer, undisturbed)
    ]
    return states[0] == states[1]


def test_case_61_indexing_resumes_after_a_full_disk(
    partly_indexed_indexer: Indexer, fake_chain: FakeChain, open_indexer: OpenIndexer
):
    before = dump_database_rows(partly_indexed_indexer.url)

    with simulate_full_disk(get_database_path(partly_indexed_indexer.url)):
        partly_indexed_indexer.restart()
        partly_indexed_indexer.ingest.max_blocks = 60
        with pytest.raises(TransientError, match="the disk is full"):
            partly_indexed_indexer.index()
        assert dump_database_rows(partly_indexed_indexer.url) == before

    partly_indexed_indexer.restart()
    assert can_reach_undisturbed_state(partly_indexed_indexer, fake_chain, open_indexer)


def test_case_61_indexing_resumes_after_a_concurrent_writer(
    partly_indexed_indexer: Indexer,
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("oracle.store.engine.BUSY_SECONDS", 0.1)
    partly_indexed_indexer.restart()
    before = dump_database_rows(partly_indexed_indexer.url)

    with closing(
        sqlite3.connect(get_database_path(partly_indexed_indexer.url), isolation_level=None)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(TransientError, match="another process is writing to the database"):
            partly_indexed_indexer.index()

    assert dump_database_rows(partly_indexed_indexer.url) == before
    assert can_reach_undisturbed_state(partly_indexed_indexer, fake_chain, open_indexer)


def test_case_61_indexing_continues_from_an_older_database_copy(
    partly_indexed_indexer: Indexer,
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    tmp_path: Path,
):
    stale = tmp_path / "stale.sqlite"
    with (
        closing(sqlite3.connect(get_database_path(partly_indexed_indexer.url))) as source,
        closing(sqlite3.connect(stale)) as copy,
    ):
        source.backup(copy)
    partly_indexed_indexer.index()

    # Bypasses the process's cached state of the newer database.
    remembered, ingest = partly_indexed_indexer.folder, partly_indexed_indexer.ingest
    partly_indexed_indexer.url = f"sqlite:///{stale}"
    partly_indexed_indexer.restart()
    partly_indexed_indexer.folder, partly_indexed_indexer.ingest = remembered, ingest

    assert partly_indexed_indexer.cursor[0] < fake_chain.head.number
    assert can_reach_undisturbed_state(partly_indexed_indexer, fake_chain, open_indexer)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "fault",
    [
        "RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'",
        "RAISE EXCEPTION 'deadlock detected' USING ERRCODE = '40P01'",
        "RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'",
        "PERFORM pg_terminate_backend(pg_backend_pid())",
    ],
)
def test_case_61_postgresql_error_leaves_no_partial_window(
    fake_chain: FakeChain, open_indexer: OpenIndexer, postgresql_url: str, fault: str
):
    indexer = open_indexer(*fake_chain.urls, url=postgresql_url, reports=False)
    indexer.ingest.max_blocks = 10
    assert isinstance(indexer.step(), CommittedWindow)
    before = dump_database_rows(postgresql_url)

    with psycopg.connect(postgresql_url, autocommit=True) as server:
        server.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {fault}; RETURN NEW; END $$"
        )
        # Nearly everything is written when the cursor moves.
        server.execute("CREATE TRIGGER refusing BEFORE UPDATE ON cursor EXECUTE FUNCTION refuse()")
        with pytest.raises(TransientError):
            indexer.index()
        assert dump_database_rows(postgresql_url) == before
        server.execute("DROP FUNCTION refuse CASCADE")

    indexer.index()
    assert indexer.cursor == (fake_chain.head.number, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()
    assert indexer.gaps() == []


_LOOKS_ONCE = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
connection.close()
"""


def test_damage_found_by_a_running_process_is_fatal(tmp_path: Path):
    """With a TransientError, the daemon would continue with a damaged database until a restart."""
    path = tmp_path / "oracle.sqlite"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        with store.transaction() as uow:
            uow.bookmarks.set("key", "value")
        with closing(sqlite3.connect(path)) as connection:
            # The message of SQLITE_CORRUPT.
            connection.execute(
                "CREATE TRIGGER damaged BEFORE DELETE ON bookmark BEGIN "
                "SELECT RAISE(ABORT, 'database disk image is malformed'); END"
            )
        message = "corrupted; restore a backup"
        with pytest.raises(InputError, match=message), store.transaction() as uow:
            uow.bookmarks.delete("key")


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("session_setting", "error", "message"),
    [
        ("role=pg_monitor", InputError, "permission denied for table .*; grant the privilege to "),
        ("default_transaction_read_only=on", TransientError, "read-only; connect to the primary "),
    ],
)
def test_error_for_rejected_postgresql_write_names_the_remedy(
    postgresql_url: str, session_setting: str, error: type[OracleError], message: str
):
    url = f"{postgresql_url}&options={quote(f'-c {session_setting}')}"
    with pytest.raises(error, match=message), Store.open(url) as store, store.transaction() as uow:
        uow.bookmarks.set("key", "value")


def test_opening_a_sqlite_store_twice_preserves_its_locks(tmp_path: Path):
    path = tmp_path / "oracle.sqlite"
    url = f"sqlite:///{path}"
    with Store.open(url, create=True) as store:
        with store.transaction() as uow:
            uow.bookmarks.set("written", "1")
        Store.open(url).close()

        # The last connection to close deletes the log; while this one is open, another process
        # does not.
        subprocess.run([sys.executable, "-c", _LOOKS_ONCE, str(path)], check=True)

        assert path.with_name(path.name + "-wal").exists()
        with store.transaction() as uow:
            uow.bookmarks.set("written", "2")
