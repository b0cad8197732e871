"""A Dask cluster of two workers prepares history: the same bytes, whichever worker dies."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest
from distributed import Client, LocalCluster

from oracle.chain.segments.cluster_pool import ENDPOINTS_VARIABLE, ClusterPool
from oracle.chain.segments.segment import decode_answer
from oracle.chain.segments.segment_request import SegmentRequest, WriterState
from tests.integration.segments.conftest import OpenPrepared, at_request, outcomes
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def cluster(fake_chain: FakeChain, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.setenv(ENDPOINTS_VARIABLE, msgspec.json.encode(fake_chain.urls).decode())
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as opened:
        yield opened


def on(cluster: LocalCluster, indexer: Indexer) -> ClusterPool:
    """Let the cluster prepare an indexer's history."""
    pool = ClusterPool(indexer.pool.plan, cluster.scheduler_address, 2)
    indexer.pool.close()
    indexer.source.use_workers(pool, min_worker_blocks=1)
    return pool


def poll_until(condition: Callable[[], bool]) -> None:
    """Poll the cluster until the condition is true; a poll takes long enough without a pause."""
    ends_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends_at


def kill_one_worker(cluster: LocalCluster) -> None:
    with Client(cluster, set_as_default=False) as client:
        pids = list(client.run(os.getpid).values())
    os.kill(pids[0], signal.SIGKILL)


def test_dask_cluster_produces_same_database_as_inline_indexing(
    expected: list[str], open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer = open_prepared(1)
    before = outcomes("taken")
    on(cluster, indexer)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected
    assert outcomes("taken") > before


def test_killed_cluster_worker_loses_only_its_range(
    fake_chain: FakeChain, expected: list[str], open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer = open_prepared(1)
    on(cluster, indexer)
    fault = at_request(40, "eth_getBlockReceipts", lambda: kill_one_worker(cluster))
    fake_chain.provider.faults.append(fault)

    indexer.index()

    assert fault.hit_count
    assert dump_database_rows(indexer.url) == expected


def test_abandoned_cluster_worker_is_stopped_and_replaced(
    open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer = open_prepared(1)
    pool = on(cluster, indexer)
    name = indexer.source.list_endpoint_names()[0]
    order = SegmentRequest(pool.plan.id, 1, 0, 9, name, WriterState({}))
    cluster.scale(1)
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1)
        poll_until(lambda: len(client.run(os.getpid)) == 1)
        (pid,) = client.run(os.getpid).values()
        os.kill(pid, signal.SIGSTOP)
        future = pool.submit(order)
        poll_until(lambda: any(client.processing().values()))

        pool.abort_request(future)

        assert future.cancelled()
        poll_until(lambda: pid not in client.run(os.getpid, on_error="ignore").values())
    # The new worker's answer does not matter, because nothing is known about the chain yet.
    assert decode_answer(pool.submit(order).result(60), order).number == order.number


def test_writer_continues_alone_without_scheduler(
    expected: list[str], open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer = open_prepared(1)
    on(cluster, indexer)
    indexer.step()
    cluster.close()

    indexer.index()

    assert dump_database_rows(indexer.url) == expected


def test_writer_indexes_alone_if_a_cluster_worker_has_no_endpoints(
    expected: list[str], open_prepared: OpenPrepared, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(ENDPOINTS_VARIABLE, "[]")
    indexer = open_prepared(1)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as empty:
        on(empty, indexer)
        indexer.index()

    assert dump_database_rows(indexer.url) == expected
