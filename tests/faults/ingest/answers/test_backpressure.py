"""Data that arrives faster than it can be written waits at its source; and clocks that jump."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.domain.blocks import BlockRange
from oracle.indexer.commit import CommittedWindow
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.ingest.reorgs.test_handoff import dump_path_independent_rows
from tests.support.cli.daemon import run_daemon
from tests.support.ingest.daemons import write_daemon_config
from tests.support.ingest.fake_chain import FakeChain

HOUR = 3600.0
HISTORY = 6_000
# A short write timeout: on a slow machine the lease would expire during the wait.
IMPATIENT = (
    "-c",
    "import oracle.store.engine as e, oracle.cli.main as c; e.BUSY_SECONDS = 0.2; c.main()",
)


def test_case_71_slow_fold_limits_the_number_of_prefetched_windows(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.mine_empty(HISTORY)
    indexer = open_indexer(fake_chain.urls[0])
    last = indexer.source.fetch_heads().final.number

    first = indexer.source.fetch_window(BlockRange(0, last), with_headers=False)
    wait_for_read_ahead()

    block_ranges = [
        request.block_range
        for request in fake_chain.provider.received_requests
        if request.method == "eth_getLogs"
    ]
    assert max(blocks[1] for blocks in block_ranges if blocks) < HISTORY / 2
    # Each response taken permits one further read.
    before = fake_chain.provider.count_requests("eth_getLogs")
    indexer.source.fetch_window(BlockRange(first.range.last + 1, last), with_headers=False)
    wait_for_read_ahead()
    assert fake_chain.provider.count_requests("eth_getLogs") <= before + 2


def test_case_71_daemon_with_a_locked_database_lags_and_is_not_ready(
    fake_chain: FakeChain, tmp_path: Path
):
    with run_daemon(write_daemon_config(fake_chain, tmp_path), program=IMPATIENT) as running:
        running.wait_until_ready()
        with hold_write_lock(tmp_path / "oracle.sqlite"):
            fake_chain.live(20)
            reasons = str(running.wait_until_not_ready())
            metrics = running.get("/metrics").text
        fake_chain.live(1)

        running.wait_until_ready()
        running.wait_for_block(fake_chain.head.number)
    assert "the index is 20 blocks behind the head" in reasons
    assert parse_lag_metric(metrics) == 20


def test_case_69_clock_jump_neither_stalls_nor_changes_the_index(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock(seconds=10 * HOUR)
    calm = open_indexer(fake_chain.urls[0])
    wild = open_indexer(fake_chain.urls[0], clock=clock)
    for seconds in (HOUR, -HOUR, 0.0, -2 * HOUR, 3 * HOUR):
        fake_chain.live(5)
        calm.index()
        wild.index()
        assert not wild.source.fetch_heads().stalled
        # The machine slept, or its clock was corrected, between two requests for one block.
        clock.advance(seconds)
        assert not wild.source.fetch_heads().stalled
        assert all(isinstance(step, CommittedWindow) for step in wild.index())

    assert wild.canonical_logs() == fake_chain.logs()
    assert dump_path_independent_rows(wild) == dump_path_independent_rows(calm)


def wait_for_read_ahead() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("read ahead"):
            thread.join(120)
            assert not thread.is_alive()


@contextmanager
def hold_write_lock(database: Path) -> Iterator[None]:
    """Hold the writer's lock, like a long transaction of another process."""
    with closing(sqlite3.connect(database, timeout=120, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def parse_lag_metric(metrics: str) -> float:
    line = next(line for line in metrics.splitlines() if line.startswith("oracle_lag_blocks "))
    return float(line.split()[1])
