"""A Dask cluster of two workers prepares history: the same bytes, whoever dies."""

import os
import signal
from collections.abc import Iterator

import msgspec
import pytest
from distributed import Client, LocalCluster

from oracle.chain.segments.cluster_pool import ENDPOINTS_VARIABLE, ClusterPool
from tests.integration.segments.conftest import OpenPrepared, at_question, outcomes
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.dumping import dump
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def cluster(a_chain: AChain, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.setenv(ENDPOINTS_VARIABLE, msgspec.json.encode(a_chain.urls).decode())
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as opened:
        yield opened


def on(cluster: LocalCluster, indexer: Indexer) -> ClusterPool:
    """Have an indexer's history prepared by the cluster."""
    pool = ClusterPool(indexer.pool.plan, cluster.scheduler_address, 2)
    indexer.pool.close()
    indexer.source.prepare_on(pool, least_blocks=1)
    return pool


def kill_one(cluster: LocalCluster) -> None:
    with Client(cluster, set_as_default=False) as client:
        pids = list(client.run(os.getpid).values())
    os.kill(pids[0], signal.SIGKILL)


def test_what_a_cluster_prepares_is_stored_as_inline(
    expected: list[str], open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer, before = open_prepared(1), outcomes("taken")
    on(cluster, indexer)

    indexer.index()

    assert dump(indexer.url) == expected
    assert outcomes("taken") > before


def test_a_worker_of_the_cluster_that_is_killed_costs_its_range(
    a_chain: AChain, expected: list[str], open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer = open_prepared(1)
    on(cluster, indexer)
    fault = at_question(40, "eth_getBlockReceipts", lambda: kill_one(cluster))
    a_chain.provider.faults.append(fault)

    indexer.index()

    assert fault.hits
    assert dump(indexer.url) == expected


def test_without_its_scheduler_the_writer_goes_on_alone(
    expected: list[str], open_prepared: OpenPrepared, cluster: LocalCluster
):
    indexer = open_prepared(1)
    on(cluster, indexer)
    indexer.step()
    cluster.close()

    indexer.index()

    assert dump(indexer.url) == expected


def test_a_cluster_without_endpoints_leaves_history_to_the_writer(
    expected: list[str], open_prepared: OpenPrepared, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(ENDPOINTS_VARIABLE, "[]")
    indexer = open_prepared(1)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as empty:
        on(empty, indexer)
        indexer.index()

    assert dump(indexer.url) == expected
