"""Two daemons on one database, and a daemon that is stopped while it is busy."""

import sqlite3
from pathlib import Path

import pytest

from devnet.fakechain.faults.message_faults import build_range_limit_fault
from devnet.fakechain.faults.transport_faults import build_callback_fault
from oracle.cli.main import run
from oracle.errors import FatalError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.cli.daemon import STOP_SECONDS, run_daemon
from tests.support.ingest.daemons import write_daemon_config
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


def test_case_60_second_daemon_exits_and_names_the_first(
    fake_chain: FakeChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write_daemon_config(fake_chain, tmp_path)
    with run_daemon(path) as first:
        first.wait_until_ready()

        assert run(["run", "--once", "--config", str(path)]) == 1

        error_output = capsys.readouterr().err
        assert f"process {first.process.pid}" in error_output
        fake_chain.live(3)
        first.wait_for_block(fake_chain.head.number)


def test_case_60_writer_that_lost_its_lease_commits_nothing(
    fake_chain: FakeChain, indexer: Indexer, open_indexer: OpenIndexer
):
    indexer.index()
    other_indexer = open_indexer(*fake_chain.urls, url=indexer.url)
    fake_chain.live(4)
    # While the first daemon waits for its logs, the other one ingests the same blocks.
    fake_chain.provider.faults = [
        build_callback_fault(
            lambda _: other_indexer.index(), times=1, methods=frozenset({"eth_getLogs"})
        )
    ]

    with pytest.raises(FatalError, match="another process moved the cursor"):
        indexer.step()

    alone = open_indexer(*fake_chain.urls)
    alone.index()
    assert indexer.canonical_logs() == fake_chain.logs()
    assert other_indexer.digest() == alone.digest()


def test_case_72_stop_during_backfill_ends_at_a_window_boundary(
    fake_chain: FakeChain, tmp_path: Path, open_indexer: OpenIndexer
):
    path = write_daemon_config(fake_chain, tmp_path)
    # The chain grows as fast as it is read: the backfill has no end.
    for provider in fake_chain.providers:
        provider.faults = [
            build_range_limit_fault(3),
            build_callback_fault(lambda _: fake_chain.mine_empty(3)),
        ]
    with run_daemon(path) as running:
        running.wait_for("step_completed", did="indexed")
        code, seconds = running.stop()
    for provider in fake_chain.providers:
        provider.faults = []

    assert code == 0
    # Five seconds on an idle machine.
    assert seconds < STOP_SECONDS
    assert running.lines()[-1]["event"] == "process_stopped"
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    stopped_at = _read_cursor_number(url)
    assert 0 < stopped_at < fake_chain.head.number
    left = Indexer(fake_chain.urls, url)
    assert left.canonical_logs() == [
        log for log in fake_chain.logs() if log in set(left.canonical_logs())
    ]
    left.index()
    undisturbed = open_indexer(*fake_chain.urls)
    undisturbed.index()
    assert left.digest() == undisturbed.digest()
    left.close()


def _read_cursor_number(url: str) -> int:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        return int(database.execute("SELECT number FROM cursor").fetchone()[0])
