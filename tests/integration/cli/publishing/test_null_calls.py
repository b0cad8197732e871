"""A daemon whose endpoint returns null for every call continues, reports it, and recovers.

If a contract has answered before, null is an outage: the daemon neither exits nor halts.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.bindings.codec import decode_result, encode_call
from tests.integration.reporters.waiting import wait_until
from tests.support.cli.daemon import Daemon, run_daemon, start_daemon
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config
from tests.support.sending import faults
from tests.support.sending.proxy import Proxy, run_proxy

pytestmark = [pytest.mark.evm, pytest.mark.slow]

CALL = "eth_call"
# Each loop that calls contracts runs twice a second instead of every few minutes.
OFTEN = (
    "-c",
    """
from oracle.cli import main
from oracle.daemon import jobs, maintenance_jobs
jobs.RECONCILE_SECONDS = jobs.STATISTICS_SECONDS = jobs.COUNTERS_TICK_SECONDS = 0.5
maintenance_jobs._COUNTERS_PERIOD_SECONDS = 0.5
main.main()
""",
)
LOOPS = ("reconcile", "index", "confirm", "publish", "counters", "statistics")


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    """Yield a separate chain for each test, because rounds land on it."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        yield started


@pytest.fixture
def endpoint_proxy(network: LocalNetwork) -> Iterator[Proxy]:
    with run_proxy(network.url) as opened:
        yield opened


@pytest.fixture
def config(network: LocalNetwork, endpoint_proxy: Proxy, tmp_path: Path) -> Path:
    settings = network.settings(tmp_path)
    settings["chain"]["endpoints"] = [endpoint_proxy.url]
    return write_config(settings, tmp_path / "config.toml")


def round_of(network: LocalNetwork) -> int:
    """Return the newest round that the contract accepted."""
    call = {"to": network.stage.oracle, "data": encode_call("roots/QoSRoots", "head")}
    (head,) = decode_result(
        "roots/QoSRoots", "head", network.stage.chain.make_request(CALL, call, "latest")
    )
    return int(head[0])


def lands(network: LocalNetwork, running: Daemon, number: int) -> None:
    """Wait until the push of this round is in the pool, and then mine it.

    Blocks wait for the push: a period of chain time passes in one or two real seconds, in which
    no daemon could sign and send before its deadline.
    """

    def is_sent() -> bool:
        assert running.process.poll() is None, running.log.read_text("utf-8")
        return int(network.stage.chain.make_request("txpool_status")["pending"], 16) > 0

    wait_until(is_sent, f"the push of round {number}", lambda: running.log.read_text("utf-8"))
    network.mine(1)
    assert round_of(network) == number


def check_continues_without_calls(
    network: LocalNetwork, endpoint_proxy: Proxy, running: Daemon, waves: int = 1
) -> None:
    """Answer every call with null while a report is due: the daemon reports it and continues."""
    endpoint_proxy.rule(CALL, faults.return_null())
    network.play(waves)
    running.wait_for("step_failed", step="publish", in_a_row=4)
    running.wait_for_text("/readyz", "publish: ")
    assert running.get("/readyz").status_code == 503
    assert running.get("/livez").status_code == 200
    # The index job calls no contract.
    running.wait_for_block(network.head())
    before = turns(running)
    wait_until(
        lambda: all(turns(running)[loop] > before[loop] + 1 for loop in LOOPS), "every loop"
    )
    assert running.process.poll() is None


def turns(running: Daemon) -> dict[str, float]:
    """Return how often each loop has run."""
    metrics_text = running.get("/metrics").text
    return {
        loop: float(
            metrics_text.split(f'oracle_step_seconds_count{{step="{loop}"}} ')[1].split()[0]
        )
        for loop in LOOPS
    }


@pytest.mark.nightly
def test_daemon_survives_null_eth_call_result_after_first_round(
    network: LocalNetwork, endpoint_proxy: Proxy, config: Path
):
    network.play(2)
    with run_daemon(config, "--publish", program=OFTEN) as running:
        lands(network, running, 1)
        check_continues_without_calls(network, endpoint_proxy, running)
        endpoint_proxy.heal()
        lands(network, running, 2)
        running.wait_until_ready()
        assert running.stop()[0] == 0


@pytest.mark.nightly
def test_daemon_survives_null_eth_call_result_before_first_round(
    network: LocalNetwork, endpoint_proxy: Proxy, config: Path
):
    with run_daemon(config, "--publish", program=OFTEN) as running:
        running.wait_for_block(network.head())
        # No node has a score before the end of the first wave, so no report is sent.
        check_continues_without_calls(network, endpoint_proxy, running, waves=2)
        assert round_of(network) == 0
        endpoint_proxy.heal()
        lands(network, running, 1)
        running.wait_until_ready()
        assert running.stop()[0] == 0


def test_startup_waits_while_eth_call_returns_null(
    network: LocalNetwork, endpoint_proxy: Proxy, config: Path
):
    network.play(2)
    endpoint_proxy.rule(CALL, faults.return_null())
    with start_daemon(config, "--publish") as running:
        running.url = running.wait_for("waiting_for_endpoint")["web"]
        running.wait_for("step_failed", in_a_row=4)
        assert running.get("/readyz").status_code == 503
        endpoint_proxy.heal()
        running.url = running.wait_for("daemon_started")["web"]
        lands(network, running, 1)
        running.wait_until_ready()
        assert running.stop()[0] == 0
