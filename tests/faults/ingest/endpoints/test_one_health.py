"""One model of health: status, pages, API, readiness and metrics agree about every fault."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import requests

from devnet.fakechain.faults import transport_faults
from oracle.domain.feed_rows import FeedFault
from oracle.indexer.feed_faults import CHANGED
from oracle.store.database import Store
from tests.faults.ingest.endpoints.test_hanging_endpoints import poll_until_value
from tests.support.cli.daemon import PATIENCE_SECONDS, Daemon, run_daemon, start_daemon
from tests.support.cli.local_network import write_config
from tests.support.ingest.daemons import build_daemon_settings
from tests.support.ingest.fake_chain import FakeChain

# An endpoint counts as silent sooner, so that a test need not wait for a minute.
HASTY = """
import oracle.daemon.daemon_health as health
from oracle.cli.main import main
health.READY_WITHIN_SECONDS = 2.0
main()
"""

# The lease cannot be renewed once a file exists, as on a full disk.
FULL_DISK = """
import pathlib
import oracle.daemon.lease_keeper as keeper, oracle.store.lease_repository as leases
from oracle.cli.main import main
from oracle.errors import TransientError
keeper.GIVE_UP_SECONDS, keeper.RENEW_SECONDS = 1.5, 0.2
renew = leases.LeaseRepository.renew
def renew_or_fail(*arguments):
    if pathlib.Path({full!r}).exists():
        raise TransientError("the disk is full")
    return renew(*arguments)
leases.LeaseRepository.renew = renew_or_fail
main()
"""


@pytest.fixture
def config(fake_chain: FakeChain, tmp_path: Path) -> Path:
    config_values = build_daemon_settings(fake_chain, tmp_path)
    del config_values["oracle"]
    config_values["api"] = {"enabled": True, "port": 0}
    return write_config(config_values, tmp_path / "config.toml")


def run_status_command(config: Path) -> tuple[int, dict[str, Any]]:
    """Run `status` in a separate process; return its exit code and JSON."""
    command = [sys.executable, "-m", "oracle", "status", "--json", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["health"]


def get_response(url: str) -> requests.Response:
    return requests.get(url, timeout=PATIENCE_SECONDS)


def read_alarm_by_interface(running: Daemon, api: str) -> dict[str, bool]:
    """Return which interfaces report that no endpoint responds."""
    ready = running.get("/readyz").json()
    return {
        "readyz": "no_endpoint" in ready["conditions"],
        "metrics": 'oracle_health_condition{condition="no_endpoint"} 1.0'
        in running.get("/metrics").text,
        "api": "no_endpoint" in get_response(f"{api}/v1/status").json()["health"]["conditions"],
        "page": "No endpoint answers" in get_response(api).text,
        "monitor": "no_endpoint" in running.get("/v1/operations").json()["health"]["conditions"],
    }


def test_hanging_endpoints_are_reported_by_every_interface(fake_chain: FakeChain, config: Path):
    with run_daemon(config, program=("-c", HASTY)) as running:
        running.wait_until_ready()
        api = running.wait_for("daemon_started")["api"]
        assert not any(read_alarm_by_interface(running, api).values())
        gate = Event()
        for provider in fake_chain.providers:
            provider.faults.append(transport_faults.build_held_response_fault(gate))

        poll_until_value(lambda: all(read_alarm_by_interface(running, api).values()) or None)
        code, status_report = run_status_command(config)
        gate.set()
        for provider in fake_chain.providers:
            provider.faults.clear()
        poll_until_value(lambda: not any(read_alarm_by_interface(running, api).values()) or None)

    assert (code, status_report["status"]) == (2, "down")
    assert status_report["conditions"][0] == "no_endpoint"


def test_status_reports_damaged_state_rows(fake_chain: FakeChain, config: Path, tmp_path: Path):
    fake_chain.live(30)
    run_once = [sys.executable, "-m", "oracle", "run", "--once", "--config", str(config)]
    subprocess.run(run_once, capture_output=True, check=True)
    with closing(sqlite3.connect(tmp_path / "oracle.sqlite")) as connection, connection:
        assert connection.execute("UPDATE node SET base = base + 7").rowcount
    with run_daemon(config) as running:
        running.wait_until_ready()
        running.wait_for("state_mismatch")
        code, status_report = run_status_command(config)

    assert code == 1
    assert "state_differs" in status_report["conditions"]
    assert any("resync verify --half state" in reason for reason in status_report["reasons"])


def test_status_exits_with_1_until_the_feed_fault_is_accepted(
    fake_chain: FakeChain, config: Path, tmp_path: Path
):
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    with run_daemon(config) as running:
        running.wait_until_ready()
        healthy = run_status_command(config)
        with Store.open(url) as store, store.transaction() as uow:
            uow.feed.record_faults([FeedFault(CHANGED, 1, 7, 1_000, "reason 5 became 1")])
        faulty = run_status_command(config)
        with Store.open(url) as store, store.transaction() as uow:
            uow.feed.accept_faults(2_000)
        accepted = run_status_command(config)

    assert ["feed_fault" in health["conditions"] for _, health in (healthy, faulty, accepted)] == [
        False,
        True,
        False,
    ]
    assert (faulty[0], faulty[1]["status"]) == (1, "attention")
    assert any("reason 5 became 1" in reason for reason in faulty[1]["reasons"])


def test_status_shows_the_last_health_of_a_killed_daemon(fake_chain: FakeChain, config: Path):
    with run_daemon(config) as running:
        running.wait_until_ready()
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()

    code, status_report = run_status_command(config)
    assert (code, status_report["conditions"][:2]) == (1, ["no_leader", "last_exit"])
    assert any("ended without a reason" in reason for reason in status_report["reasons"])


def test_status_shows_no_exit_reason_after_a_clean_stop(fake_chain: FakeChain, config: Path):
    with run_daemon(config) as running:
        running.wait_until_ready()
        running.stop()
    assert "last_exit" not in run_status_command(config)[1]["conditions"]


def test_status_names_a_full_disk_as_the_last_exit_reason(
    fake_chain: FakeChain, config: Path, tmp_path: Path
):
    full = tmp_path / "full"
    with run_daemon(config, program=("-c", FULL_DISK.format(full=str(full)))) as running:
        running.wait_until_ready()
        full.touch()
        assert running.process.wait(PATIENCE_SECONDS) == 1

    status_report = run_status_command(config)[1]
    assert status_report["conditions"][:2] == ["no_leader", "last_exit"]
    assert any("the disk is full" in reason for reason in status_report["reasons"])


def test_daemon_exits_with_2_if_its_database_is_deleted(
    fake_chain: FakeChain, config: Path, tmp_path: Path
):
    with run_daemon(config) as running:
        running.wait_until_ready()
        for name in ("oracle.sqlite", "oracle.sqlite-wal", "oracle.sqlite-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        fake_chain.live(1)
        assert running.process.wait(PATIENCE_SECONDS) == 2
        assert "the file was deleted or replaced while it was" in running.log.read_text("utf-8")


def test_deleted_write_ahead_log_stops_the_daemon_without_data_loss(
    fake_chain: FakeChain, config: Path, tmp_path: Path
):
    """A killed daemon would lose all rows of the log, such as sent transactions."""
    with run_daemon(config) as running:
        running.wait_until_ready()
        folded = running.get("/v1/operations").json()["folded"]["number"]
        (tmp_path / "oracle.sqlite-wal").unlink()
        fake_chain.live(1)
        assert running.process.wait(PATIENCE_SECONDS) == 2
        assert "the write-ahead log was deleted" in running.log.read_text("utf-8")
    with (
        Store.open(f"sqlite:///{tmp_path / 'oracle.sqlite'}") as store,
        store.read_transaction() as uow,
    ):
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.number >= folded


def test_daemon_exits_with_2_if_its_database_is_replaced(
    fake_chain: FakeChain, config: Path, tmp_path: Path
):
    path = tmp_path / "oracle.sqlite"
    copy = tmp_path / "copy.sqlite"
    with run_daemon(config) as running:
        running.wait_until_ready()
        with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
        copy.replace(path)
        fake_chain.live(1)
        assert running.process.wait(PATIENCE_SECONDS) == 2


def test_status_reports_that_startup_waits_for_an_endpoint(fake_chain: FakeChain, config: Path):
    for provider in fake_chain.providers:
        provider.faults.append(transport_faults.build_429_fault(3_600))
    with start_daemon(config) as running:
        running.url = running.wait_for("waiting_for_endpoint")["web"]
        assert "no_endpoint" in running.get("/readyz").json()["conditions"]
