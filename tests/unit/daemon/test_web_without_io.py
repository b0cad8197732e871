"""`/livez` and `/metrics` are served from memory, so monitoring never waits for the database."""

from typing import NoReturn, cast

import pytest
from fastapi.testclient import TestClient

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web.health_app import create_health_app
from oracle.store.database import Store


class OutOfReach:
    """A database that fails on any access."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"the database was asked for its {name}")


@pytest.fixture
def client() -> TestClient:
    return TestClient(
        create_health_app(
            DaemonHealth(JobLiveness(lambda: 0.0)), lambda: cast("Store", OutOfReach())
        )
    )


@pytest.mark.parametrize("path", ["/livez", "/metrics"])
def test_livez_and_metrics_need_no_database(client: TestClient, path: str):
    assert client.get(path).status_code == 200


def test_readyz_reads_database(client: TestClient):
    with pytest.raises(AssertionError, match="asked for its read_transaction"):
        client.get("/readyz")
