"""A daemon continues to publish when its network becomes quiet:
the quiet gate holds one report.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devnet.demo import demo_system
from tests.support.cli.daemon import Daemon, run_daemon
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]

# Longer than a wave of tasks. The heartbeat is as long, so one of two periods has a change.
PERIOD_SECONDS = 180
# The gate judges networks in which a hundred tasks end in a period: here it is a dozen.
SMALL_NETWORK = (
    "-c",
    """
from oracle.cli import main
from oracle.domain.reports import sanity_limits
sanity_limits._MIN_TASKS = 5
main.main()
""",
)
# Blocks of a second each in which a report must land or be held.
_MAX_BLOCKS = 20


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalNetwork]:
    """Yield a chain whose contract expects a heartbeat soon, whatever happened."""
    shipped = demo_system.read_report_settings()
    report_settings = replace(
        shipped, period_seconds=PERIOD_SECONDS, heartbeat_seconds=PERIOD_SECONDS
    )
    monkeypatch.setattr(demo_system, "read_report_settings", lambda: report_settings)
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as started:
        yield started


@pytest.fixture
def running(network: LocalNetwork, tmp_path: Path) -> Iterator[Daemon]:
    """Run a daemon that publishes, and reads unproven blocks."""
    settings = network.settings(tmp_path)
    settings["oracle"] |= {
        "period_seconds": PERIOD_SECONDS,
        "heartbeat_seconds": PERIOD_SECONDS,
        "sanity_changed_share": 1,
        "sanity_kick_share": 1,
        "sanity_min_members": 3,
    }
    settings["verify"] = {"head": "pinned", "history": "pinned"}
    path = write_config(settings, tmp_path / "config.toml")
    with run_daemon(path, "--publish", program=SMALL_NETWORK) as started:
        started.wait_until_ready()
        yield started


def send_cheap_logs(network: LocalNetwork) -> None:
    """Let every node add a wei to its stake, a hundred times in total."""
    accounts = [*network.stage.nodes.values()] * 9
    spam = [
        network.stage.build_transaction(account, "TaskNetwork", "addStake", value=1)
        for account in accounts
    ]
    network.stage.chain.mine(network.clock.advance(), spam)


def accepted_round(running: Daemon) -> int:
    """Return the newest round that the daemon has read from the chain."""
    return int(running.get("/v1/operations").json()["round"] or 0)


def held_reports(running: Daemon) -> int:
    return sum(line["event"] == "report_held" for line in running.lines())


def next_period(network: LocalNetwork) -> int:
    """Return the first second of the next period."""
    return (network.clock.now // PERIOD_SECONDS + 1) * PERIOD_SECONDS


def end_period(network: LocalNetwork, running: Daemon) -> None:
    """Advance to the next period, and mine until the report has landed or is held."""
    before = accepted_round(running), held_reports(running)
    clock = network.clock
    clock.now = next_period(network)
    for _ in range(_MAX_BLOCKS):
        clock.now += 1
        network.stage.chain.mine(clock.now)
        running.wait_for_block(network.head())
        if (accepted_round(running), held_reports(running)) != before:
            return
    raise AssertionError(f"nothing was published: {running.log.read_text('utf-8')}")


def test_only_one_report_is_held_after_log_spam_ends(network: LocalNetwork, running: Daemon):
    for is_noisy in [*[True] * 6, False]:
        network.play(1)
        if is_noisy:
            send_cheap_logs(network)
        end_period(network, running)
    busy_round = accepted_round(running)
    # A lack of logs is no reason to hold a report.
    assert held_reports(running) == 0

    # No more tasks are ordered, and a node leaves, which must be reported.
    leaver = next(iter(network.stage.nodes.values()))
    network.stage.chain.mine(
        network.clock.advance(), [network.stage.build_transaction(leaver, "TaskNetwork", "quit")]
    )
    end_period(network, running)
    assert (held_reports(running), accepted_round(running)) == (1, busy_round)

    # The network stays quiet for two periods at a time. The held report waits for an
    # operator, the others land.
    for landed in range(1, 4):
        network.mine(2)
        network.clock.now = next_period(network)
        network.mine(2)
        end_period(network, running)
        assert accepted_round(running) >= busy_round + landed
    assert held_reports(running) == 1
    assert running.stop()[0] == 0
