"""A daemon keeps the previews of other rules up to date in a separate process."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.cli.daemon import STOP_SECONDS, Daemon, run_daemon
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]

FREQUENT = (
    "-c",
    """
from oracle.cli import main
from oracle.daemon import rules_previews
rules_previews.PREVIEW_SECONDS = 0.2
main.main()
""",
)
_PATIENCE_SECONDS = 90


@pytest.fixture
def network(tmp_path: Path) -> Iterator[LocalNetwork]:
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as started:
        started.play(2)
        started.mine(6)
        yield started


@pytest.fixture
def config(network: LocalNetwork, tmp_path: Path) -> Path:
    settings = network.settings(tmp_path)
    settings["rules"] = {"announced_folder": str(tmp_path / "announced")}
    settings["api"] = {"enabled": True, "port": 0}
    path = write_config(settings, tmp_path / "config.toml")
    (tmp_path / "mine.json").write_text(replace(CRYNUX, tau_seconds=900).to_json(), "utf-8")
    shadow_set = '[[shadow]]\nname = "short-memory"\nrules = "mine.json"\n'
    path.write_text(path.read_text("utf-8") + shadow_set, "utf-8")
    return path


def wait_for_preview(network: LocalNetwork, running: Daemon, min_block: int = 0) -> dict[str, Any]:
    """Return the preview once it is as of `min_block` or later.

    Answers are cached until the next block, so blocks are mined meanwhile.
    """
    url = running.wait_for("daemon_started")["api"]
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        response = requests.get(f"{url}/v1/rules/previews", timeout=_PATIENCE_SECONDS)
        previews = response.json().get("previews")
        if previews and previews[0]["block"] >= min_block:
            return dict[str, Any](previews[0])
        network.mine(1)
        time.sleep(0.5)
    raise AssertionError(f"no preview: {running.log.read_text('utf-8')}")


def list_children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child)
        for path in tasks.glob("*/children")
        for child in path.read_text("utf-8").split()
    ]


def test_previews_follow_final_blocks_and_survive_restart(network: LocalNetwork, config: Path):
    with run_daemon(config, program=FREQUENT) as running:
        first = wait_for_preview(network, running)
        network.play(1)
        network.mine(6)
        later = wait_for_preview(network, running, first["block"] + 1)
        assert running.stop()[0] == 0
    with run_daemon(config, program=FREQUENT) as running:
        assert wait_for_preview(network, running, later["block"])["rules"] == "short-memory"


def test_preview_worker_ends_with_the_daemon(network: LocalNetwork, config: Path):
    with run_daemon(config, program=FREQUENT) as running:
        wait_for_preview(network, running)
        until = time.monotonic() + _PATIENCE_SECONDS
        while not (workers := list_children(running.process.pid)) and time.monotonic() < until:
            time.sleep(0.01)
        assert workers
        exit_code, seconds = running.stop()
        assert exit_code == 0
        assert seconds < STOP_SECONDS
    until = time.monotonic() + STOP_SECONDS
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < until, workers
        time.sleep(0.05)
