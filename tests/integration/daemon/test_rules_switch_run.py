"""A running daemon switches to announced rules, and reports under them without its operator."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.demo.stage import GAS, TIMELOCK_DELAY
from oracle.cli.main import run
from tests.integration.daemon.test_previews_run import FREQUENT
from tests.support.cli.daemon import Daemon, run_daemon
from tests.support.cli.local_network import LocalNetwork, run_local_network, write_config

pytestmark = [pytest.mark.evm, pytest.mark.slow]

_PATIENCE_SECONDS = 120


@pytest.fixture
def network(tmp_path: Path) -> Iterator[LocalNetwork]:
    (tmp_path / "keys").mkdir()
    with run_local_network(tmp_path / "keys") as started:
        started.play(2)
        yield started


@pytest.fixture
def config(network: LocalNetwork, tmp_path: Path) -> Path:
    settings = network.settings(tmp_path)
    settings["oracle"] |= {"timelock": network.stage.timelock, "publish": True}
    settings["rules"] = {"announced_folder": str(tmp_path / "announced")}
    return write_config(settings, tmp_path / "config.toml")


def run_json(capfd: pytest.CaptureFixture[str], config: Path, *arguments: str) -> Any:
    capfd.readouterr()
    assert run([*arguments, "--config", str(config), "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def send(network: LocalNetwork, calldata: str) -> None:
    stage = network.stage
    sender = str(stage.chain.make_request("eth_accounts")[0])
    call = {"from": sender, "to": stage.timelock, "gas": GAS, "data": calldata}
    stage.chain.mine_and_check_receipts(network.clock.advance(), [call])


def mine_until(network: LocalNetwork, running: Daemon, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert running.process.poll() is None, running.log.read_text("utf-8")
        assert time.monotonic() < until, running.log.read_text("utf-8")
        network.mine(1)
        time.sleep(0.3)


def count_signed(running: Daemon) -> int:
    return sum("report signed" in str(line.get("did")) for line in running.lines())


def test_running_daemon_switches_to_new_rules(
    network: LocalNetwork, config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert run(["rules", "show", "crynux", "--set", "tau_seconds=900", "--json"]) == 0
    (tmp_path / "mine.json").write_text(capfd.readouterr().out, "utf-8")
    announced = run_json(
        capfd, config, "rules", "announce", str(tmp_path / "mine.json"), "--reason", "Shorter."
    )
    previews = tmp_path / "announced" / "previews"
    send(network, announced["call"]["schedule"])
    with run_daemon(config, program=FREQUENT) as running:
        mine_until(network, running, lambda: bool(list(previews.glob("*.json"))))
        mine_until(network, running, lambda: count_signed(running) > 0)
        network.clock.now += TIMELOCK_DELAY
        send(network, announced["call"]["execute"])

        switched = running.wait_for("rules_switched", rules=announced["rules_hash"])

        signed = count_signed(running)
        mine_until(network, running, lambda: count_signed(running) > signed)
        assert running.stop()[0] == 0
        assert not [line for line in running.lines() if line["level"] == "error"]
    # The configuration still has the rules before; a rebuild is under those of the database.
    rebuilt = run_json(capfd, config, "resync", "rebuild")
    assert (rebuilt["same_state"], rebuilt["differing_periods"]) == (True, [])
    history = run_json(capfd, config, "rules", "history")
    assert history["in_force"] == announced["rules_hash"]
    assert history["changes"][0]["set_block"] <= switched["block"]
    with run_daemon(config, program=FREQUENT) as running:
        mine_until(network, running, lambda: running.get("/readyz").status_code == 200)
