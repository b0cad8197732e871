"""A daemon that starts after another one was killed finds a lease without a holder."""

from pathlib import Path

import pytest

from oracle.daemon.lease_keeper import LEASE_SECONDS, renew_held_lease
from oracle.store.database import Store
from oracle.store.lease_repository import LeaseState
from tests.faults.sending.processes.test_leader_and_standby import (
    PATIENCE,
    expire_lease,
    get_lease,
    has_logged,
    idle_network,
    wait_until,
    write_daemon_config,
)
from tests.support.cli.daemon import start_daemon
from tests.support.cli.local_network import LocalNetwork

__all__ = ["idle_network"]

ELSEWHERE = "qos-oracle run on elsewhere, process 7"
HOUR = 3600


@pytest.mark.parametrize("options", [[], ["--once"], ["--standby"]])
def test_killed_leader_is_replaced_immediately(
    idle_network: LocalNetwork, empty_database_url: str, tmp_path: Path, options: list[str]
):
    url = empty_database_url
    path = write_daemon_config(idle_network, tmp_path / "one", url)
    with start_daemon(path) as killed:
        killed.wait_for("daemon_started")
        killed.process.kill()
        killed.process.wait()
    # Longer than any machine takes to start another daemon.
    held = _hold_lease_for_an_hour(url)
    with start_daemon(path, *options) as following:
        assert following.wait_for("stale_lease_taken_over")["holder"] == held.holder
        if options == ["--once"]:
            assert following.process.wait(PATIENCE) == 0
        else:
            assert following.wait_for("daemon_started")["epoch"] == held.epoch + 1
            assert not has_logged(following, "waiting_for_lease_expiry")


def test_daemon_waits_for_lease_expiry_if_the_leader_may_be_alive(
    idle_network: LocalNetwork, empty_database_url: str, tmp_path: Path
):
    url = empty_database_url
    path = write_daemon_config(idle_network, tmp_path / "one", url)
    _acquire_lease_elsewhere(url)
    with start_daemon(path) as waiting:
        waiting.url = waiting.wait_for("waiting_for_lease_expiry")["web"]
        waiting.wait_for_text("/readyz", f"LEASE-WAIT: waiting for the lease of {ELSEWHERE}")
        assert waiting.wait_until_not_ready()["standby"] is False
        assert waiting.get("/livez").status_code == 200
        expire_lease(url)
        assert waiting.wait_for("daemon_started")["epoch"] == 2


def test_second_daemon_exits_while_the_lease_is_renewed(
    idle_network: LocalNetwork, empty_database_url: str, tmp_path: Path
):
    url = empty_database_url
    path = write_daemon_config(idle_network, tmp_path / "one", url)
    _acquire_lease_elsewhere(url)
    with start_daemon(path) as refused:
        refused.wait_for("waiting_for_lease_expiry")
        with Store.open(url) as store:
            wait_until(lambda: renew_and_check_lease(store) and refused.process.poll() is not None)
        assert refused.process.returncode == 1
        assert f"works on this database: {ELSEWHERE}" in refused.log.read_text("utf-8")
    assert get_lease(url).holder == ELSEWHERE


def test_daemon_that_waits_for_the_lease_stops_on_request(
    idle_network: LocalNetwork, empty_sqlite_url: str, tmp_path: Path
):
    path = write_daemon_config(idle_network, tmp_path / "one", empty_sqlite_url)
    _acquire_lease_elsewhere(empty_sqlite_url)
    with start_daemon(path) as waiting:
        waiting.wait_for("waiting_for_lease_expiry")
        assert waiting.stop()[0] == 0
    assert get_lease(empty_sqlite_url).holder == ELSEWHERE


def _acquire_lease_elsewhere(url: str) -> None:
    with Store.open(url, create=True) as store, store.transaction() as uow:
        assert uow.lease.acquire(ELSEWHERE, HOUR) == 1


def _hold_lease_for_an_hour(url: str) -> LeaseState:
    with Store.open(url) as store:
        held = get_lease(url)
        with store.transaction() as uow:
            assert uow.lease.renew(held.epoch, HOUR)
    return held


def renew_and_check_lease(store: Store) -> bool:
    renew_held_lease(store, 1)
    with store.read_transaction() as uow:
        return uow.lease.get_state().seconds_left > LEASE_SECONDS / 2
