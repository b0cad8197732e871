"""The daemon process: it starts, serves, rejects a second writer, and stops on request."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from oracle import __version__
from oracle.cli.main import run
from oracle.queries.status_models import OperatorStatus
from tests.support.cli.daemon import PATIENCE_SECONDS, STOP_SECONDS, run_daemon, start_daemon
from tests.support.cli.local_network import write_config
from tests.support.cli.switchable_proxy import EndpointMode, run_switchable_proxy

pytestmark = [pytest.mark.evm, pytest.mark.slow]


@pytest.fixture
def moody(network):
    with run_switchable_proxy(network.url) as endpoint:
        yield endpoint


@pytest.fixture
def running(config):
    with run_daemon(config) as started:
        yield started


def test_daemon_catches_up_and_follows_chain(running, network):
    running.wait_until_ready()
    network.mine(2)
    running.wait_for_block(network.head())

    status = running.get("/v1/operations").json()
    assert status["folded"]["number"] == network.head()
    assert status["lease"].startswith("qos-oracle run on ")
    # The keys of `status --json`; the public status has a separate listener.
    assert list(status) == list(OperatorStatus.model_fields)
    assert running.get("/v1/status").status_code == 404


def test_native_module_of_another_version_is_reported_and_not_used(config, tmp_path, monkeypatch):
    (tmp_path / "oracle_native.py").write_text("VERSION = 3\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with run_daemon(config) as running:
        running.wait_for("native_module_ignored", version=3, level="warning")
    version_process = subprocess.run(
        [sys.executable, "-m", "oracle", "--version"], capture_output=True, text=True, check=True
    )
    assert version_process.stdout == f"qos-oracle {__version__}\n"
    assert "version 3" in version_process.stderr


def test_daemon_stops_and_releases_lease_on_sigterm(running, config):
    running.wait_until_ready()

    code, seconds = running.stop()

    assert code == 0
    assert seconds < STOP_SECONDS
    last_line = running.lines()[-1]
    assert (last_line["event"], last_line["by"]) == ("process_stopped", "SIGTERM")
    assert run(["run", "--once", "--config", str(config)]) == 0


@pytest.mark.nightly
def test_daemon_stops_in_time_while_an_endpoint_hangs(moody, settings, tmp_path):
    settings["chain"]["endpoints"] = [moody.url]
    with run_daemon(write_config(settings, tmp_path / "config.toml")) as running:
        running.wait_until_ready()
        moody.mood = EndpointMode.SILENT
        assert moody.request_seen.wait(PATIENCE_SECONDS)
        code, seconds = running.stop()

    assert code == 0
    assert seconds < STOP_SECONDS


@pytest.mark.nightly
def test_daemon_stops_immediately_on_sigterm_during_startup(moody, settings, tmp_path):
    settings["chain"]["endpoints"] = [moody.url]
    moody.mood = EndpointMode.SILENT
    path = write_config(settings, tmp_path / "config.toml")
    with start_daemon(path) as running:
        assert moody.request_seen.wait(PATIENCE_SECONDS)
        code, seconds = running.stop()
    assert code == 128 + signal.SIGTERM
    assert seconds < STOP_SECONDS

    settings["chain"]["endpoints"] = [moody.behind]
    assert run(["run", "--once", "--config", str(write_config(settings, path))]) == 0


def test_second_daemon_on_the_same_database_exits(running, config, capsys):
    assert run(["run", "--once", "--config", str(config)]) == 1

    stderr = capsys.readouterr().err
    assert "another process works on this database: qos-oracle run on " in stderr
    assert f"process {running.process.pid}" in stderr
    assert running.process.poll() is None


def test_second_daemon_reports_running_daemon_not_port_conflict(
    running, settings, tmp_path, capsys
):
    settings["web"]["port"] = int(running.url.rpartition(":")[2])
    path = write_config(settings, tmp_path / "second.toml")
    assert run(["run", "--config", str(path)]) == 1
    assert f"process {running.process.pid}" in capsys.readouterr().err


def test_read_only_commands_work_while_daemon_runs(running, config, capsys):
    running.wait_until_ready()
    assert run(["nodes", "--config", str(config)]) == 0


def test_metrics_export_version_rules_and_dry_run(running):
    running.wait_until_ready()
    build_info = re.search(
        r'oracle_build_info\{dry_run="(\d)",rules="(0x[0-9a-f]{64})",version="([^"]+)"\} 1.0',
        running.get("/metrics").text,
    )
    assert build_info is not None
    assert (build_info[1], build_info[3]) == ("1", __version__)


def test_livez_and_metrics_respond_while_database_is_locked(running, tmp_path):
    running.wait_until_ready()
    lock = sqlite3.connect(tmp_path / "oracle.sqlite", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        assert running.get("/livez").status_code == 200
        assert "oracle_block_number" in running.get("/metrics").text
    finally:
        lock.close()


def test_readyz_fails_while_the_endpoint_is_down(moody, settings, tmp_path):
    settings["chain"]["endpoints"] = [moody.url]
    with run_daemon(write_config(settings, tmp_path / "config.toml")) as running:
        running.wait_until_ready()
        moody.mood = EndpointMode.AWAY
        running.wait_for("step_failed", step="index")
        # Another step may have failed often enough a moment before.
        running.wait_for_text("/readyz", '"STEP-FAILING: index: ')
        body = running.wait_until_not_ready()
        assert body["ready"] is False
        (reason,) = (
            reason for reason in body["reasons"] if reason.startswith("STEP-FAILING: index: ")
        )
        assert "503" in reason
        assert running.get("/livez").status_code == 200

        moody.mood = EndpointMode.GOOD
        running.wait_until_ready()


@pytest.mark.nightly
def test_daemon_becomes_ready_when_its_endpoint_starts(moody, settings, tmp_path):
    settings["chain"]["endpoints"] = [moody.url]
    moody.mood = EndpointMode.AWAY
    with start_daemon(write_config(settings, tmp_path / "config.toml")) as running:
        running.url = running.wait_for("waiting_for_endpoint")["web"]
        running.wait_for("step_failed", step="chain", in_a_row=4)
        reasons = running.wait_until_not_ready()["reasons"]
        assert any("503" in reason for reason in reasons)
        assert running.get("/livez").status_code == 200
        assert not (tmp_path / "oracle.sqlite").exists()

        moody.mood = EndpointMode.GOOD
        running.url = running.wait_for("daemon_started")["web"]
        running.wait_until_ready()
        assert running.stop()[0] == 0


def test_daemon_waiting_for_endpoint_stops_on_sigterm(offline_settings, tmp_path):
    offline_settings["web"] = {"port": 0}
    offline_settings["log"] = {"format": "json"}
    with start_daemon(write_config(offline_settings, tmp_path / "config.toml")) as running:
        running.wait_for("step_failed", step="chain")
        assert running.stop()[0] == 0
        assert any(line.get("by") == "SIGTERM" for line in running.lines())


def test_daemon_exits_if_late_endpoint_has_wrong_chain_id(moody, settings, tmp_path):
    settings["chain"] |= {"endpoints": [moody.url], "id": 1}
    moody.mood = EndpointMode.AWAY
    with start_daemon(write_config(settings, tmp_path / "config.toml")) as running:
        running.wait_for("step_failed", step="chain")
        moody.mood = EndpointMode.GOOD
        assert running.process.wait(PATIENCE_SECONDS) == 2
    assert running.log.read_text("utf-8").splitlines()[-1].startswith("qos-oracle: ")


@pytest.mark.skipif(
    shutil.which("promtool") is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ,
    reason="promtool is not installed; CI has it",
)
def test_promtool_reports_no_problem_with_metrics(running):
    running.wait_until_ready()
    running.wait_for("step_completed", step="index")
    text = running.get("/metrics").content

    checked = subprocess.run(
        [shutil.which("promtool") or "promtool", "check", "metrics"],
        input=text,
        capture_output=True,
        check=False,
    )

    assert checked.stdout + checked.stderr == b""
    assert checked.returncode == 0


@pytest.mark.postgres
def test_postgresql_and_sqlite_produce_same_nodes(
    empty_postgresql_url, settings, indexed_config, tmp_path, capsys
):
    settings["database"]["url"] = empty_postgresql_url
    path = write_config(settings, tmp_path / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    # The chain may have grown since the other database was indexed.
    assert run(["run", "--once", "--config", str(indexed_config)]) == 0
    capsys.readouterr()

    assert run(["nodes", "--json", "--config", str(path)]) == 0
    on_postgresql = json.loads(capsys.readouterr().out)
    assert run(["nodes", "--json", "--config", str(indexed_config)]) == 0
    on_sqlite = json.loads(capsys.readouterr().out)
    assert on_sqlite["nodes"] == on_postgresql["nodes"]
    assert on_sqlite["as_of"]["hash"] == on_postgresql["as_of"]["hash"]
