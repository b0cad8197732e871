"""`qos-oracle gateway` as a process: it receives outcomes, is stopped, and is started again."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.integration.gateway.json_rpc_node import RpcNode, answering
from tests.support.cli.daemon import PATIENCE_SECONDS, Daemon

TOKEN = "a-token-of-a-gateway"  # noqa: S105  made for this test
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CHAIN = "0021"

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    path = tmp_path / "gateway.toml"
    well = RpcNode()
    other_node = RpcNode(chain_id=2)
    path.write_text(f"""
[gateway]
port = 0
token_file = "{token}"
[database]
url = "sqlite:///{tmp_path / "gateway.sqlite"}"
[policy]
ranking_ms = 0
[log]
format = "json"
[checks.{CHAIN}]
chain_id = 1
urls = {{ well = "{well.url}", other = "{other_node.url}" }}
""")
    with answering(well, other_node):
        yield path


@contextmanager
def starting(config: Path, name: str) -> Iterator[Daemon]:
    log = config.with_name(f"{name}.log")
    command = [sys.executable, "-m", "oracle", "gateway", "--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield Daemon(process, log)
        finally:
            process.kill()


@contextmanager
def gateway(config: Path, name: str) -> Iterator[Daemon]:
    with starting(config, name) as running:
        running.url = running.wait_for("gateway_started")["address"]
        yield running


def send_request(running: Daemon, path: str, body: object | None = None) -> requests.Response:
    method = "GET" if body is None else "POST"
    return requests.request(
        method, f"{running.url}{path}", headers=HEADERS, json=body, timeout=PATIENCE_SECONDS
    )


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 10**6


SELECT = {"chain": CHAIN, "session": "s", "candidates": ["well", "other", "third"]}


def test_outcomes_survive_a_restart_of_the_gateway(config: Path):
    with gateway(config, "first") as running:
        row = {"node": "well", "chain": CHAIN, "t_ms": now(), "ok": True, "latency_ms": 61.2}
        fast = {"outcomes": [{**row, "id": f"x{n}"} for n in range(30)]}
        assert send_request(running, "/v1/outcomes", fast).json() == {
            "taken": 30, "repeated": 0, "late": 0, "stored": True,
        }  # fmt: skip
        running._until(lambda: send_request(running, "/v1/checks").json()[CHAIN]["other"]["at_ms"])
        body = send_request(
            running, "/v1/select", {**SELECT, "prove": True, "explain": True}
        ).json()
        assert body["left_out"] == {"other": "wrong_chain"}
        proof = body["proof"]
        code, _ = running.stop()
        assert code == 0
    with gateway(config, "second") as running:
        body = send_request(running, "/v1/nodes/well").json()
        assert (body[CHAIN]["attempts"], body[CHAIN]["median_ms"]) == (30, 61.2)
        assert send_request(running, "/v1/outcomes", fast).json()["repeated"] == 30
        left_out = send_request(running, "/v1/select", {**SELECT, "explain": True}).json()[
            "left_out"
        ]
        assert left_out == {"other": "wrong_chain"}
        epochs = send_request(running, "/v1/epochs").json()["epochs"]
        seed_by_commitment = {epoch["commitment"]: epoch.get("seed") for epoch in epochs}
        # The epoch ended with the process, so clients can now verify where its seed came
        # from.
        assert seed_by_commitment[proof["commitment"]] is not None
        logs = (
            config.with_name("first.log").read_text() + config.with_name("second.log").read_text()
        )
    assert TOKEN not in logs


def test_second_gateway_on_same_database_is_refused(config: Path):
    with gateway(config, "first"), starting(config, "second") as second_gateway:
        assert second_gateway.process.wait(PATIENCE_SECONDS) == 1
        assert "another process works on this database" in second_gateway.log.read_text()


def test_written_outcomes_survive_a_kill_of_the_gateway(config: Path):
    with gateway(config, "first") as running:
        row = {"node": "well", "chain": CHAIN, "t_ms": now(), "ok": True, "latency_ms": 61.2}
        send_request(running, "/v1/outcomes", {"outcomes": [row]})
        text = "oracle_gateway_buffered_outcomes 0.0"
        running._until(lambda: text in send_request(running, "/metrics").text)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(PATIENCE_SECONDS)
    with gateway(config, "second") as running:
        assert send_request(running, "/v1/nodes/well").json()[CHAIN]["attempts"] == 1


def test_missing_token_prevents_startup_of_the_gateway(config: Path):
    config.with_name("token").write_text("")
    with starting(config, "first") as running:
        assert running.process.wait(PATIENCE_SECONDS) == 2
        assert "the token is invalid" in running.log.read_text()
