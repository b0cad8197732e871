"""`qos-oracle serve` on a streaming replica of the daemon's PostgreSQL reports its lag."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle.daemon.wall_clock import unix_seconds
from oracle.store.database import Store
from tests.support.api import IDENTITY_SETTINGS, IndexedHistory
from tests.support.cli.daemon import Daemon
from tests.support.cli.local_network import write_config
from tests.support.histories import History
from tests.support.postgresql import Replica

pytestmark = pytest.mark.postgres


@pytest.fixture
def history() -> History:
    history = History()
    # At the head, because during backfill a response is cached for a while.
    history.time = int(unix_seconds())
    return history.joins("A", "B").scores("A", 10, 0, 0).scores("B", 5)


@pytest.fixture
def indexed(postgresql_url: str, history: History) -> Iterator[IndexedHistory]:
    with Store.open(postgresql_url) as store:
        yield IndexedHistory(store).whole(history)


@pytest.fixture
def copied_url(indexed: IndexedHistory, postgresql_url: str, postgresql_replica: Replica) -> str:
    name = postgresql_url.removeprefix("postgresql://tests@/").partition("?")[0]
    return postgresql_replica.url(name)


@pytest.fixture
def server(copied_url: str, tmp_path: Path) -> Iterator[Daemon]:
    settings = IDENTITY_SETTINGS | {
        "database": {"url": copied_url},
        "api": {"port": 0},
        "log": {"format": "json"},
    }
    config = write_config(settings, tmp_path / "config.toml")
    log = tmp_path / "serve.log"
    command = [sys.executable, "-m", "oracle", "serve", "--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            running = Daemon(process, log)
            running.url = running.wait_for("read_api_started")["api"]
            yield running
        finally:
            process.kill()


def as_of(server: Daemon, path: str = "/v1/status") -> Any:
    answer = server.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()["as_of"]


def age_of(replica: Store) -> float:
    with replica.read_transaction() as uow:
        age = uow.measure_replica_lag_seconds()
    assert age is not None
    return age


def test_every_replica_response_contains_its_lag(server: Daemon):
    for path in ("/v1/status", "/v1/nodes", "/v1/rules"):
        assert as_of(server, path)["replica_lag_seconds"] >= 0


def test_replica_serves_rows_written_by_the_daemon(
    server: Daemon, indexed: IndexedHistory, history: History, postgresql_replica: Replica
):
    before = as_of(server)
    postgresql_replica.pause()
    done = len(history.events)
    history.after(30).starts("late", "B")
    indexed.index(history.events[done:], history.block, history.time)
    held = as_of(server)

    postgresql_replica.resume()
    while (after := as_of(server))["block"] == before["block"]:
        pass

    assert held["block"] == before["block"]
    assert after["block"] == history.block


def test_reported_lag_grows_while_the_replica_is_paused(
    copied_url: str, postgresql_replica: Replica
):
    postgresql_replica.pause()
    with Store.open(copied_url) as store:
        first = age_of(store)
        later = age_of(store)

    assert 0 <= first < later


def test_server_on_the_primary_reports_no_replica_lag(indexed: IndexedHistory):
    with indexed.store.read_transaction() as uow:
        assert uow.measure_replica_lag_seconds() is None


def test_commit_watch_without_notifications_times_out(copied_url: str, indexed: IndexedHistory):
    with Store.open(copied_url) as store:
        watch = store.watch_commits()
        indexed.index([], 100, 100)
        assert [watch.wait(0.01) for _ in range(3)] == [False] * 3
