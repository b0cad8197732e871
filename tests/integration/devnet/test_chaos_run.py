"""A daemon on a devnet whose endpoints lie at times ends with the state of the chain."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests

from oracle.daemon.config.listener_section import ApiSection, WebSection
from oracle.daemon.config.loader import read_config
from tests.support.cli.daemon import Daemon, start_daemon

pytestmark = [pytest.mark.evm, pytest.mark.slow, pytest.mark.timeout(900)]

BLOCKS = 120
_PATIENCE_SECONDS = 300
_PROGRAM = (sys.executable, "-m", "oracle")


@dataclass
class Devnet:
    """A running devnet; `chain` is the honest address, `config` the daemon's configuration."""

    chain: str
    config: Path


@contextmanager
def devnet(folder: Path, *options: str) -> Iterator[Devnet]:
    command = [*_PROGRAM, "devnet", "--folder", str(folder), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        lines: list[str] = []
        reading = Thread(target=lines.extend, args=(running.stderr,), daemon=True)
        try:
            while not (lines and "Ctrl-C" in lines[-1]):
                lines.append(running.stderr.readline())
                assert lines[-1], lines
            # The pipe must not fill up, because each fault is printed.
            reading.start()
            chain = next(line for line in lines if line.startswith("chain ")).split()[3]
            yield Devnet(chain.rstrip(","), folder / "devnet.toml")
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(_PATIENCE_SECONDS)
            # The pipe is closed only after its reader has ended.
            if reading.ident is not None:
                reading.join(_PATIENCE_SECONDS)


def follow(config: Path, blocks: int, *options: str) -> None:
    """Run the daemon until it has indexed this block."""
    with start_daemon(config, *options) as running:
        until = time.monotonic() + _PATIENCE_SECONDS
        while read_indexed_block(running) < blocks:
            assert running.process.poll() is None, running.log.read_text("utf-8")
            assert time.monotonic() < until, running.log.read_text("utf-8")
            time.sleep(0.2)
        code, _ = running.stop()
        assert code == 0


def read_indexed_block(running: Daemon) -> int:
    """Return the newest indexed block; -1 before the first."""
    told_where = (line["web"] for line in running.lines() if line["event"] == "daemon_started")
    running.url = next(told_where, "")
    return (running.get("/readyz").json()["folded"] or 0) if running.url else -1


def test_interrupted_devnet_stops_its_chain_and_names_its_folder(tmp_path):
    folder = tmp_path / "devnet"
    command = [*_PROGRAM, "devnet", "--folder", str(folder), "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        chain = json.loads(running.stdout.readline())["endpoints"][0]
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=_PATIENCE_SECONDS)
    left = f"the chain is stopped; the folder with its keys remains: {folder}"
    assert stderr.splitlines()[-1] == f"stopped by SIGINT: {left}"
    assert (folder / "devnet.toml").exists()
    with pytest.raises(requests.ConnectionError):
        requests.post(chain, json={}, timeout=10)


def run_program(*arguments: str) -> str:
    done = subprocess.run([*_PROGRAM, *arguments], capture_output=True, text=True, check=False)
    # The exit code of `status` is the health.
    assert done.returncode == 0 or arguments[0] == "status", done.stderr
    return done.stdout


def run_json(*arguments: str) -> Any:
    return json.loads(run_program(*arguments, "--json"))


def nodes_of(config: Path) -> Any:
    """Return every node as `nodes` lists it."""
    return run_json("nodes", "--config", str(config))["nodes"]


def clean_copy(config: Path, chain: str) -> Path:
    """Return the same configuration with a separate database, on the honest chain."""
    lines = config.read_text("utf-8").splitlines()
    fresh = config.with_name("clean.toml")
    changed = [
        f'endpoints = ["{chain}"]'
        if line.startswith("endpoints = ")
        else line.replace("oracle.sqlite", "clean.sqlite")
        for line in lines
    ]
    fresh.write_text("\n".join(changed), "utf-8")
    return fresh


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [7])
def test_daemon_with_lying_endpoints_reaches_the_correct_state(tmp_path, seed):
    with devnet(tmp_path / "devnet", "--block-seconds", "0.2", "--chaos", str(seed)) as network:
        config = network.config
        follow(config, BLOCKS, "--publish", "--dispatch")
        clean = clean_copy(config, network.chain)
        last = str(run_json("status", "--config", str(config))["folded"]["number"])
        # Not `--once`: the chain grows faster than a slow machine is done with it.
        follow(clean, int(last))
        run_program("resync", "rewind", "--to-block", last, "--config", str(clean))

    daemon_export, chain_export = (
        run_program("export", "--config", str(config_path), "--to", last)
        for config_path in (config, clean)
    )
    assert daemon_export == chain_export
    # Twelve nodes join and run tasks; the number of tasks depends on the machine's speed.
    assert len(daemon_export.splitlines()) > 20
    assert nodes_of(config) == nodes_of(clean)


def test_configuration_uses_free_ports(tmp_path):
    """The usual ports may be used by another daemon."""
    with devnet(tmp_path / "devnet") as network:
        config = read_config(network.config)
    usual = {WebSection().port, ApiSection().port}
    ports = {config.web.port, config.api.port}
    assert len(ports) == 2
    assert not ports & {*usual, 0}
