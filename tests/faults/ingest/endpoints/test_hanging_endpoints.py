"""An endpoint that accepts every request and answers none delays only the background requests."""

import socket
import time
from collections.abc import Callable, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from devnet.fakechain.faults import transport_faults
from oracle.chain.log_filter import LogFilter
from oracle.chain.probe_schedule import EndpointProber
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.maintenance_jobs import BACKGROUND_SECONDS, MaintenanceJobs
from oracle.daemon.scheduler import JobLiveness
from oracle.indexer.commit import CommittedWindow
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

T = TypeVar("T")

LOG_FILTER = LogFilter(frozenset({NETWORK, ORACLE}), frozenset({"0x" + "1" * 64}))
_PATIENCE_SECONDS = 120.0


@pytest.fixture
def hanging_listener() -> Iterator[socket.socket]:
    """Run a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_PATIENCE_SECONDS)
        yield listener


def get_url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def poll_until_value(poll: Callable[[], T | None]) -> T:
    """Poll until a value is returned."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (outcome := poll()) is None:
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)
    return outcome


def create_prober(indexer: Indexer, seconds: float | None = BACKGROUND_SECONDS) -> EndpointProber:
    """Return the prober of an indexer's endpoints; a tick waits up to `seconds` for a response."""
    prober = EndpointProber(indexer.source.endpoints, LOG_FILTER, 0)
    prober.background_call.wait_seconds = seconds
    return prober


def create_counter_jobs(indexer: Indexer) -> MaintenanceJobs:
    """Return the daemon's job that compares counters, for an indexer."""
    index: Any = SimpleNamespace(chain=indexer.source, store=indexer.store)
    health = DaemonHealth(JobLiveness(time.monotonic))
    jobs = MaintenanceJobs(index, 1, indexer.ingest, health, BACKGROUND_SECONDS)
    jobs.scope_backfill.is_complete = True
    return jobs


def can_ingest_new_blocks(chain: FakeChain, indexer: Indexer) -> bool:
    """Return whether new blocks are still ingested."""
    chain.live(2)
    return any(isinstance(done, CommittedWindow) for done in indexer.index())


def test_indexing_does_not_wait_for_the_probe_of_a_hanging_endpoint(
    fake_chain: FakeChain, open_indexer: OpenIndexer, hanging_listener: socket.socket
):
    indexer = open_indexer(fake_chain.urls[0])
    indexer.index()
    probed = open_indexer(get_url(hanging_listener), url=indexer.url)
    prober = create_prober(probed)

    assert prober.run_due_probe() is None

    line, _ = hanging_listener.accept()
    line.settimeout(_PATIENCE_SECONDS)
    with line:
        assert b"eth_chainId" in line.recv(4096)
        assert can_ingest_new_blocks(fake_chain, indexer)
        assert prober.run_due_probe() is None
    step = poll_until_value(prober.run_due_probe)
    assert (step["did"], "failed" in step) == ("probe", True)


def test_late_probe_response_is_applied(fake_chain: FakeChain, open_indexer: OpenIndexer):
    gate = Event()
    fake_chain.provider.faults.append(
        transport_faults.build_held_response_fault(gate, methods="web3_clientVersion")
    )
    indexer = open_indexer(*fake_chain.urls)
    prober = create_prober(indexer)

    assert prober.run_due_probe() is None
    gate.set()

    first = poll_until_value(prober.run_due_probe)
    second = poll_until_value(prober.run_due_probe)
    assert [step["batch"] for step in (first, second)] == [100, 100]
    assert all(endpoint.capabilities is not None for endpoint in indexer.source.endpoints)
    assert prober.run_due_probe() is None


def test_run_once_waits_for_the_result_of_the_probe(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(*fake_chain.urls)
    prober = create_prober(indexer, None)

    step = prober.run_due_probe()

    assert step is not None
    assert step["batch"] == 100


def test_indexing_does_not_wait_for_counters_of_a_hanging_endpoint(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    gate = Event()
    for provider in fake_chain.providers:
        provider.call_handler = lambda _request, _block: "0x" + 6 * f"{3:064x}"
        provider.faults.append(
            transport_faults.build_held_response_fault(gate, methods="eth_call")
        )
    indexer = open_indexer(*fake_chain.urls)
    indexer.index()
    jobs = create_counter_jobs(indexer)
    at, _ = indexer.cursor

    assert jobs.check_counters() is None

    poll_until_value(lambda: fake_chain.provider.count_requests("eth_call") or None)
    assert can_ingest_new_blocks(fake_chain, indexer)
    assert jobs.check_counters() is None
    gate.set()
    step = poll_until_value(jobs.check_counters)
    # As of the block of the request, regardless of later blocks.
    assert (step["did"], step["block"]) == ("compared counters", at)
    assert jobs.check_counters() is None
