"""Two daemon processes on one database: one leads, one stands by, and neither sends twice."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from oracle.daemon.lease_keeper import hold_lease
from oracle.store.database import Store
from oracle.store.lease_repository import LeaseState
from oracle.store.outbox.records import Account, JournalEntry
from oracle.telemetry.log_events import LOG_EVENTS
from tests.support.cli.daemon import STOP_SECONDS, Daemon, start_daemon
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config
from tests.support.sending import faults
from tests.support.sending.proxy import SEND, run_proxy

PATIENCE = 120
# The messages of a leader that lost its lease, and of one that stalled for too long.
LOST = ("has taken over the lease", "the lease could not be renewed")


@pytest.fixture(scope="module")
def idle_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    """Yield a network to which no other program sends transactions."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(1)
        yield started


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    """Yield a network of this test on which a report is due."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


def write_daemon_config(network: LocalNetwork, folder: Path, url: str, **chain: Any) -> Path:
    """Return the configuration of a daemon with its own folder and a shared database."""
    folder.mkdir()
    settings = network.settings(folder)
    settings["database"]["url"] = url
    settings["chain"].update(chain)
    return write_config(settings, folder / "config.toml")


def get_lease(url: str) -> LeaseState:
    with Store.open(url) as store, store.read_transaction() as uow:
        return uow.lease.get_state()


def expire_lease(url: str) -> None:
    """Expire the lease, as if half a minute passed on the database's clock."""
    with Store.open(url) as store, store.transaction() as uow:
        uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))


def has_logged(daemon: Daemon, event: str) -> bool:
    assert event in LOG_EVENTS
    return any(line["event"] == event for line in daemon.lines())


def wait_until(is_so: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def list_journal(url: str) -> list[JournalEntry]:
    """Return the journal entries of all intents, in the order of writing."""
    with Store.open(url) as store, store.read_transaction() as uow:
        return [
            entry
            for intent in reversed(uow.outbox.intents.list_newest(100))
            for entry in uow.outbox.journal.list_for_intent(intent.id)
        ]


def count_mined_transactions(network: LocalNetwork, sender: str) -> int:
    return int(network.stage.chain.make_request("eth_getTransactionCount", sender, "latest"), 16)


def get_sender(url: str) -> Account:
    with Store.open(url) as store, store.read_transaction() as uow:
        return uow.outbox.intents.list_newest(1)[0].request.account


def test_case_f40_simultaneous_starts_elect_one_leader(
    idle_network: LocalNetwork, empty_database_url: str, tmp_path: Path
):
    url = empty_database_url
    paths = [write_daemon_config(idle_network, tmp_path / name, url) for name in ("one", "two")]
    with ExitStack() as running:
        both = [running.enter_context(start_daemon(path, "--standby")) for path in paths]
        wait_until(lambda: any(has_logged(instance, "daemon_started") for instance in both))
        leader, standby = sorted(
            both, key=lambda instance: not has_logged(instance, "daemon_started")
        )
        waiting = standby.wait_for("waiting_for_lease")
        assert waiting["leader"].startswith("qos-oracle run on ")
        assert not has_logged(standby, "daemon_started")

        standby.url = standby.wait_for("standby_started")["web"]
        ready = standby.get("/readyz")
        assert (ready.status_code, ready.json()["standby"]) == (200, True)
        leader.url = leader.wait_for("daemon_started")["web"]
        leader.wait_until_ready()
        assert leader.get("/readyz").json()["standby"] is False
        assert "oracle_lease_held 1.0" in leader.get("/metrics").text
        assert "oracle_lease_held 0.0" in standby.get("/metrics").text
        assert "oracle_lease_epoch 1.0" in leader.get("/metrics").text

        first = get_lease(url)
        leader.process.kill()
        leader.process.wait()
        # A standby does not wait for the lease of a process that is known to be gone.
        started_event = standby.wait_for("daemon_started")
        assert started_event["epoch"] == first.epoch + 1
        standby.url = started_event["web"]
        standby.wait_until_ready()


def test_case_f40_second_daemon_without_standby_exits(
    idle_network: LocalNetwork, empty_database_url: str, tmp_path: Path
):
    url = empty_database_url
    first_config, second_config = (
        write_daemon_config(idle_network, tmp_path / name, url) for name in ("one", "two")
    )
    with start_daemon(first_config) as leader:
        leader.wait_for("daemon_started")
        with start_daemon(second_config) as second:
            assert second.process.wait(PATIENCE) == 1
            assert f"process {leader.process.pid}" in second.log.read_text("utf-8")
        assert get_lease(url).holder is not None


def test_case_f41_leader_that_stalls_in_a_send_sends_no_duplicate(
    network: LocalNetwork, empty_database_url: str, tmp_path: Path
):
    url = empty_database_url
    gate = faults.Gate()
    with run_proxy(network.url) as endpoint_proxy, ExitStack() as running:
        endpoint_proxy.rule(SEND, faults.hold_request(gate))
        first_config = write_daemon_config(
            network, tmp_path / "one", url, endpoints=[endpoint_proxy.url]
        )
        second_config = write_daemon_config(network, tmp_path / "two", url)
        leader = running.enter_context(start_daemon(first_config, "--publish", "--standby"))
        wait_until(gate.reached.is_set)
        leader.process.send_signal(signal.SIGSTOP)
        old = get_lease(url).epoch
        expire_lease(url)

        standby = running.enter_context(start_daemon(second_config, "--publish", "--standby"))
        standby.wait_for("step_completed", step="publish", did="sent")
        network.mine(1)
        standby.wait_for("step_completed", step="confirm", did="mined")
        gate.release()
        leader.process.send_signal(signal.SIGCONT)

        assert leader.process.wait(PATIENCE) == 1
        assert any(message in leader.log.read_text("utf-8") for message in LOST)
        sender = get_sender(url)
        network.mine(2)
        assert len(set(endpoint_proxy.sent)) == 1
        assert count_mined_transactions(network, sender.address) == 1
        epochs = [entry.epoch for entry in list_journal(url) if entry.event != "planned"]
        assert epochs == sorted(epochs, key=lambda epoch: epoch != old)
        with Store.open(url) as store, store.read_transaction() as uow:
            slot = uow.outbox.slots.find_slot(sender, 0)
            assert slot is not None
            assert len(uow.outbox.slots.list_attempts(slot)) == 1


@pytest.mark.parametrize("state", ["waiting", "standing by", "leading", "sending"])
def test_case_f47_sigterm_stops_daemon_and_releases_lease(
    network: LocalNetwork, tmp_path: Path, state: str
):
    url = f"sqlite:///{tmp_path / 'oracle.sqlite'}"
    gate = faults.Gate()
    with run_proxy(network.url) as endpoint_proxy, ExitStack() as running:
        path = write_daemon_config(network, tmp_path / "one", url, endpoints=[endpoint_proxy.url])
        if state == "waiting":
            endpoint_proxy.rule("*", faults.return_status(503))
        if state == "sending":
            endpoint_proxy.rule(SEND, faults.hold_request(gate))
        if state == "standing by":
            leading = write_daemon_config(network, tmp_path / "leader", url)
            running.enter_context(start_daemon(leading)).wait_for("daemon_started")
        stopped = running.enter_context(start_daemon(path, "--publish", "--standby"))
        _wait_for_state(stopped, state, gate)

        code, seconds = stopped.stop()

        gate.release()
        assert (code, seconds < STOP_SECONDS) == (0, True)
        # An abandoned step may still log one line.
        assert any(
            line["event"] == "process_stopped" and line["by"] == "SIGTERM"
            for line in stopped.lines()
        )
        if state in {"leading", "sending"}:
            assert get_lease(url).holder is None
        if state == "standing by":
            assert get_lease(url).holder is not None


def _wait_for_state(daemon: Daemon, state: str, gate: faults.Gate) -> None:
    if state == "sending":
        wait_until(gate.reached.is_set)
        return
    events = {
        "waiting": "waiting_for_endpoint",
        "standing by": "waiting_for_lease",
        "leading": "daemon_started",
    }
    daemon.wait_for(events[state])


def test_idle_leader_exits_when_its_lease_is_taken_over(
    idle_network: LocalNetwork, empty_sqlite_url: str, tmp_path: Path
):
    url = empty_sqlite_url
    with start_daemon(write_daemon_config(idle_network, tmp_path / "one", url)) as leader:
        leader.wait_for("daemon_started")
        with Store.open(url) as store, store.transaction() as uow:
            # Immediately, because the leader may renew the lease at any moment.
            uow.lease._connection.execute(text("UPDATE lease SET until_ms = 0"))
            assert uow.lease.acquire("somebody", 3600) is not None
        assert leader.process.wait(PATIENCE) == 1
        assert "taken over the lease" in leader.log.read_text("utf-8")
    assert get_lease(url).holder == "somebody"


def test_standby_does_not_take_over_a_newer_database(
    idle_network: LocalNetwork, sqlite_url: str, tmp_path: Path
):
    with Store.open(sqlite_url) as store, ExitStack() as running:
        with hold_lease(store, "the newer version"):
            path = write_daemon_config(idle_network, tmp_path / "one", sqlite_url)
            standby = running.enter_context(start_daemon(path, "--standby"))
            standby.wait_for("standby_started")
            with store.transaction() as uow:
                uow.lease._connection.execute(
                    text("UPDATE alembic_version SET version_num = '9999_later'")
                )
        assert standby.process.wait(PATIENCE) == 2
        assert "is newer than the program" in standby.log.read_text("utf-8")
        assert not has_logged(standby, "daemon_started")


def test_standby_and_once_options_are_mutually_exclusive(
    idle_network: LocalNetwork, empty_sqlite_url: str, tmp_path: Path
):
    path = write_daemon_config(idle_network, tmp_path / "one", empty_sqlite_url)
    with start_daemon(path, "--once", "--standby") as refused:
        assert refused.process.wait(PATIENCE) == 2
        assert "give one" in refused.log.read_text("utf-8")
