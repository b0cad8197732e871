"""Viewers and other reporters get responses while the database stalls."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import pytest
import requests

from oracle.daemon.config.listener_section import StatementsSection, WebSection
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import JobLiveness
from oracle.daemon.web.health_app import create_health_app
from oracle.daemon.web.http_server import serve_app
from oracle.daemon.web.statements_app import create_statements_app
from oracle.quorum.wire_format import Board, ReportMessage, decode_statements
from oracle.store.database import Store

ADDRESS = "0x" + 40 * "1"
HASH = "0x" + 64 * "2"
REPORT = ReportMessage(
    chain_id=1,
    contract=ADDRESS,
    config=HASH,
    round=7,
    prev=HASH,
    as_of=9,
    as_of_hash=HASH,
    deadline=600,
    root=HASH,
    period=0,
    digest=HASH,
    signer=ADDRESS,
    signature="0x" + 130 * "3",
)
# More than the server has threads.
CROWD = 60


# The maximum time to reject a crowd; waiting for the lock would take longer.
PATIENCE = 60


@dataclass(frozen=True)
class CrowdedServers:
    url: str
    statements_url: str
    responses: list[Future[requests.Response]]

    def rejects_crowd(self) -> bool:
        """Return whether most of the crowd is rejected while the database stalls."""
        until = time.monotonic() + PATIENCE
        while sum(future.done() for future in self.responses) < CROWD - 8:
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        # Rejected at once, not after a timeout.
        texts = [future.result().text for future in self.responses if future.done()]
        return all("too many requests are waiting" in text for text in texts)


@pytest.fixture
def crowded_servers(postgresql_url: str) -> Iterator[CrowdedServers]:
    """Yield a server whose database blocks reads of the cursor, with a crowd of clients."""
    board = Board()
    board.publish(REPORT)
    native = postgresql_url.replace("postgresql+psycopg://", "postgresql://")
    watched = WebSection(response_timeout_seconds=300.0)
    with (
        Store.open(postgresql_url) as store,
        serve_app(
            create_health_app(DaemonHealth(JobLiveness(lambda: 0.0)), lambda: store), watched, 0
        ) as url,
        serve_app(create_statements_app(board), StatementsSection(), 0) as statements_url,
        psycopg.connect(native) as holder,
        ThreadPoolExecutor(CROWD) as crowd,
    ):
        holder.execute('LOCK TABLE "cursor" IN ACCESS EXCLUSIVE MODE')
        futures = [crowd.submit(requests.get, f"{url}/readyz", timeout=300) for _ in range(CROWD)]
        try:
            yield CrowdedServers(url, statements_url, futures)
        finally:
            holder.rollback()


@pytest.mark.postgres
@pytest.mark.parametrize("path", ["/livez", "/metrics"])
def test_case_f73_requests_are_served_while_the_database_blocks(
    crowded_servers: CrowdedServers, path: str
):
    assert crowded_servers.rejects_crowd()
    assert requests.get(crowded_servers.url + path, timeout=PATIENCE).status_code == 200
    # These requests did not wait for the lock; the crowd still does.
    assert not all(future.done() for future in crowded_servers.responses)


def test_statement_board_returns_404_for_a_missing_report(crowded_servers: CrowdedServers):
    assert crowded_servers.rejects_crowd()
    body = requests.get(f"{crowded_servers.statements_url}/v1/report/7", timeout=PATIENCE).content

    assert decode_statements(body) == [REPORT]
    assert (
        requests.get(f"{crowded_servers.statements_url}/v1/report/8", timeout=PATIENCE).status_code
        == 404
    )
