"""Endpoints with random faults: failures pass, requests are repeated, and little time is lost."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import transport_faults as faults
from devnet.fakechain.faults.weather import BAD_WEATHER_SHARES, WeatherEndpoint
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.tree import BlockTree
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.rpc.pool import EndpointPool
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.cli.daemon import start_daemon
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings
from tests.support.ingest.endpoints import count_requests, list_endpoints
from tests.support.ingest.event_encoding import build_transactions
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID, Indexer
from tests.support.traffic import Traffic

# --- how fast we are ---

# Below a tenth of a second, the time depends only on `Retry-After`.
_LATENCY, _POLL = 0.2, 1.0
_HISTORY, _AT_THE_HEAD = 300, 60


def measure_indexing_seconds(shares: Mapping[str, float], open_indexer: OpenIndexer) -> float:
    """Return the virtual seconds for a history and further single blocks, including all waits."""
    clock = VirtualClock()
    tree = BlockTree(CHAIN_ID)
    traffic = Traffic(1)
    for _ in range(_HISTORY):
        tree.mine(build_transactions(traffic.block()))
    weather = WeatherEndpoint(tree, lambda: clock.advance(_LATENCY))
    weather.set_head(tree.last_mined)
    with serve_endpoint(weather) as served:
        indexer = open_indexer(served.url, clock=clock, reports=False)
        for endpoint in list_endpoints(indexer):
            endpoint.health.sleep = clock.advance
        weather.shares = shares
        began = clock()
        index_to_head(indexer, clock, tree)
        for _ in range(_AT_THE_HEAD):
            weather.set_head(tree.mine())
            index_to_head(indexer, clock, tree)
        assert indexer.cursor == (tree.last_mined.number, tree.last_mined.hash)
        return clock() - began


def index_to_head(indexer: Indexer, clock: VirtualClock, tree: BlockTree) -> None:
    """Run turns as the daemon does until the newest block is folded."""
    for _ in range(500):
        try:
            done = indexer.step()
        except TransientError:
            done = None
        if done is None:
            with indexer.store.read_transaction() as uow:
                cursor = uow.cursor.get()
            if cursor is not None and cursor.number == tree.last_mined.number:
                return
            clock.advance(_POLL)
    raise AssertionError(f"never reached {tree.last_mined.number}")


def test_unreliable_endpoints_reduce_speed_by_at_most_two_thirds(
    open_indexer: OpenIndexer,
):
    fair, foul = (
        measure_indexing_seconds(shares, open_indexer) for shares in ({}, BAD_WEATHER_SHARES)
    )

    assert fair / foul >= 1 / 3


# --- repeated requests ---


@pytest.mark.parametrize(
    "fault",
    [
        faults.build_html_fault,
        faults.build_reset_connection_fault,
        faults.build_empty_body_fault,
        faults.build_truncated_body_fault,
        faults.build_cut_connection_fault,
    ],
)
def test_temporary_failure_is_retried_on_the_same_endpoint(
    fake_chain: FakeChain, open_indexer: OpenIndexer, fault: Callable[..., InjectedFault]
):
    indexer = open_indexer(fake_chain.urls[0])
    indexer.index()
    fake_chain.live(5)
    fake_chain.provider.faults.append(fault(times=1))

    indexer.index()

    assert indexer.cursor == (fake_chain.head.number, fake_chain.head.hash)
    assert indexer.source.endpoints.describe_states() == {fake_chain.urls[0]: "ok"}


def test_unavailable_endpoint_gets_at_most_one_request_per_tick(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    fake_chain.provider.faults.append(faults.build_http_status_fault(502))

    def turn() -> None:
        clock.advance(1)
        with pytest.raises(TransientError):
            indexer.step()

    for _ in range(5):
        turn()

    # Batches of one request, and one request per step.
    assert count_requests(fake_chain.provider, turn) <= 1


# --- run --once ---


def run_once(chain: FakeChain, folder: Path) -> "subprocess.CompletedProcess[str]":
    path = write_config(build_daemon_settings(chain, folder), folder / "config.toml")
    command = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def single_endpoint_chain(fake_chain: FakeChain) -> FakeChain:
    """Return a chain with a single endpoint."""
    del fake_chain.urls[1:]
    return fake_chain


@pytest.mark.parametrize("method", ["eth_chainId", "eth_getLogs"])
def test_run_once_waits_for_retry_after_and_completes(
    single_endpoint_chain: FakeChain, tmp_path: Path, method: str
):
    throttled = faults.build_429_fault(3, methods=method, times=1)
    single_endpoint_chain.provider.faults.append(throttled)

    done = run_once(single_endpoint_chain, tmp_path)

    assert (done.returncode, throttled.hit_count) == (0, 1), done.stderr
    assert "waiting" in done.stdout + done.stderr


def test_run_once_waits_for_short_retry_after_at_start(
    single_endpoint_chain: FakeChain, tmp_path: Path
):
    single_endpoint_chain.provider.faults.append(
        faults.build_429_fault(1, methods="eth_chainId", times=2)
    )

    assert run_once(single_endpoint_chain, tmp_path).returncode == 0


def test_run_once_fails_immediately_on_a_long_retry_after(
    single_endpoint_chain: FakeChain, tmp_path: Path
):
    assert run_once(single_endpoint_chain, tmp_path).returncode == 0
    single_endpoint_chain.live(1)
    single_endpoint_chain.provider.faults.append(faults.build_429_fault(3600))

    done = run_once(single_endpoint_chain, tmp_path)

    assert done.returncode in {1, 2}
    assert "HTTP 429" in done.stderr


def test_signal_stops_run_once_while_it_waits_for_an_endpoint(
    single_endpoint_chain: FakeChain, tmp_path: Path
):
    single_endpoint_chain.provider.faults.append(
        faults.build_429_fault(100, methods="eth_getLogs")
    )
    path = write_config(
        build_daemon_settings(single_endpoint_chain, tmp_path), tmp_path / "config.toml"
    )

    with start_daemon(path, "--once") as run:
        run.wait_for("waiting_for_endpoint")

        assert run.stop()[0] == 128 + signal.SIGTERM


def test_transient_error_has_the_shortest_retry_after(
    fake_chain: FakeChain,
):
    clock = VirtualClock()
    endpoints = EndpointPool.from_urls(fake_chain.urls, CHAIN_ID, clock)
    fake_chain.providers[0].faults.append(faults.build_429_fault(90))
    fake_chain.providers[1].faults.append(faults.build_429_fault(20))

    with pytest.raises(TransientError) as caught:
        endpoints.run_with_endpoint(lambda _: None)

    assert caught.value.retry_after == 20
