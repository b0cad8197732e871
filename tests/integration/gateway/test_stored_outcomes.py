"""Outcomes acknowledged with 200 are stored, whatever happens to a COMMIT or the process.

Real PostgreSQL, behind a proxy that breaks connections around a COMMIT.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import requests

from tests.integration.gateway.test_gateway_process import (
    TOKEN,
    gateway,
    now,
    send_request,
    starting,
)
from tests.support.cli.daemon import PATIENCE_SECONDS, Daemon
from tests.support.lossy_postgresql import CommitLoss, LossyProxy, run_lossy_proxy

pytestmark = pytest.mark.slow
CHAIN = "0021"


@pytest.fixture
def proxied(postgresql_url: str) -> Iterator[tuple[LossyProxy, str]]:
    with run_lossy_proxy(postgresql_url) as opened:
        yield opened


@pytest.fixture
def config(tmp_path: Path, proxied: tuple[LossyProxy, str]) -> Path:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    path = tmp_path / "gateway.toml"
    path.write_text(f"""
[gateway]
port = 0
token_file = "{token}"
[database]
url = "{proxied[1]}"
[policy]
ranking_ms = 0
[log]
format = "json"
""")
    return path


def batch(number: int, rows: int) -> dict[str, object]:
    """Return outcomes whose ids name their batch."""
    row = {"node": "well", "chain": CHAIN, "t_ms": now(), "ok": True, "latency_ms": 61.2}
    return {"outcomes": [{**row, "id": f"{number}-{n}"} for n in range(rows)]}


def stored_ids(url: str) -> list[str]:
    with psycopg.connect(url) as database:
        rows = database.execute("SELECT outcome_id FROM relay_outcome ORDER BY number").fetchall()
    return [outcome_id for (outcome_id,) in rows]


def ids_of(body: dict[str, object]) -> set[str]:
    rows = body["outcomes"]
    assert isinstance(rows, list)
    return {row["id"] for row in rows}


@pytest.mark.parametrize("loss", list(CommitLoss), ids=lambda outcome: outcome.name.lower())
# Few rows are inserted, many are copied.
@pytest.mark.parametrize("rows", [3, 200])
def test_every_acknowledged_outcome_is_stored_once(
    config: Path, proxied: tuple[LossyProxy, str], postgresql_url: str, loss: CommitLoss, rows: int
):
    proxy, _ = proxied
    answered: set[str] = set()
    with gateway(config, "first") as running:
        for number in range(6):
            body = batch(number, rows)
            if number in (1, 3):
                proxy.lose(loss)
            response = send_request(running, "/v1/outcomes", body)
            if response.status_code == 200:
                answered |= ids_of(body)
                assert ids_of(body) <= set(stored_ids(postgresql_url))
            else:
                assert (response.status_code, response.json()["stored"]) == (202, False)
                # The repeated batch counts once, and its response shows when it
                # is stored.
                assert repeated_when_stored(running, body) == rows
                answered |= ids_of(body)
        assert running.process.poll() is None
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(PATIENCE_SECONDS)

    stored = stored_ids(postgresql_url)
    assert answered == set(stored)
    assert len(stored) == len(set(stored)) == 6 * rows


def repeated_when_stored(running: Daemon, body: dict[str, object]) -> int:
    """Send a batch again until the response is 200; return how many rows it had before."""
    answers: list[int] = []

    def is_stored() -> bool:
        response: requests.Response = send_request(running, "/v1/outcomes", body)
        answers.append(response.json()["repeated"])
        return response.status_code == 200

    running._until(is_stored)
    return answers[-1]


def test_outcomes_return_202_while_database_is_unavailable(
    config: Path, proxied: tuple[LossyProxy, str], postgresql_url: str
):
    body = batch(0, 3)
    with (
        gateway(config, "first") as running,
        psycopg.connect(postgresql_url) as locking_connection,
    ):
        locking_connection.execute("LOCK TABLE relay_outcome")
        response = send_request(running, "/v1/outcomes", body)
        assert (response.status_code, response.json()) == (
            202,
            {"taken": 3, "repeated": 0, "late": 0, "stored": False},
        )
        # It counts nevertheless.
        assert send_request(running, "/v1/nodes/well").json()[CHAIN]["attempts"] == 3
        locking_connection.rollback()
        assert repeated_when_stored(running, body) == 3


def test_gateway_that_can_no_longer_write_exits_with_an_error(config: Path, postgresql_url: str):
    with starting(config, "first") as running:
        running.url = running.wait_for("gateway_started")["address"]
        with psycopg.connect(postgresql_url) as database:
            database.execute("DROP TABLE relay_outcome")
        response = send_request(running, "/v1/outcomes", batch(0, 3))
        assert (response.status_code, response.json()["stored"]) == (202, False)
        assert running.process.wait(PATIENCE_SECONDS) == 1
        assert "database writes have stopped" in running.log.read_text()
