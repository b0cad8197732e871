"""`/v1/events` over real sockets: commits wake it, the limits of clients,
and the end of streams.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

import psycopg
import pytest
import requests

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api import event_stream
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.store import commit_watch
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History
from tests.support.txmgr.stores import new_sqlite_store

__all__ = ["new_sqlite_store"]

PATIENCE_SECONDS = 60
# Added to a documented interval, for a busy machine.
SLACK_SECONDS = 5.0


@pytest.fixture
def indexed(new_sqlite_store) -> Iterator[IndexedHistory]:
    with new_sqlite_store() as store:
        yield IndexedHistory(store).whole(History().joins("A").scores("A", 10))


@contextmanager
def serve_api(indexed: IndexedHistory, api: ApiSection) -> Iterator[str]:
    web = create_read_api(indexed.source, streams=api)
    section = api.model_copy(update={"requests_per_second": 1000.0})
    with serve_app(web, section, 0) as url:
        yield url


def open_stream(url: str, client: str) -> requests.Response:
    # A proxy on this machine passes the client's address.
    headers = {"X-Forwarded-For": client}
    return requests.get(f"{url}/v1/events", headers=headers, stream=True, timeout=PATIENCE_SECONDS)


def test_commit_by_another_process_is_streamed_immediately(database_url, monkeypatch):
    monkeypatch.setattr(event_stream, "_CHECK_SECONDS", 10.0 * PATIENCE_SECONDS)
    with (
        Store.open(database_url) as store,
        Store.open(database_url) as writer,
        serve_api(IndexedHistory(store).whole(History().joins("A")), ApiSection()) as url,
        open_stream(url, "192.0.2.1") as answer,
    ):
        lines = answer.iter_lines(decode_unicode=True)
        assert next(line for line in lines if line.startswith("id: "))
        with writer.transaction() as uow:
            uow.halts.open_halt("finality_violation", "block 9", since_block=9, since_time=1)
        assert next(line for line in lines if line.startswith("event: ")) == "event: halted"


def wait_for_listener(url: str) -> None:
    listening = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(listening).fetchone() == (0,):
            pass


def terminate_listeners(url: str) -> None:
    """End the sessions that listen for commits, as a restart or a firewall does."""
    terminate = (
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(terminate).fetchall() == [(True,)]


@pytest.mark.postgres
@pytest.mark.parametrize("is_terminated", [True, False], ids=["terminated", "not_delivered"])
def test_stream_without_notifications_sees_new_rows_at_the_check_interval(
    postgresql_url, monkeypatch, *, is_terminated
):
    if not is_terminated:
        # As behind a pooler, where LISTEN succeeds in another session than the later ones.
        monkeypatch.setattr(commit_watch, "COMMIT_CHANNEL", "channel_without_messages")
    with (
        Store.open(postgresql_url) as store,
        Store.open(postgresql_url) as writer,
        serve_api(IndexedHistory(store).whole(History().joins("A")), ApiSection()) as url,
        open_stream(url, "192.0.2.1") as answer,
    ):
        lines = answer.iter_lines(decode_unicode=True)
        assert next(line for line in lines if line.startswith("id: "))
        if is_terminated:
            wait_for_listener(postgresql_url)
            terminate_listeners(postgresql_url)
        for name in ("finality_violation", "chain_reset"):
            committed_at = monotonic()
            with writer.transaction() as uow:
                uow.halts.open_halt(name, "block 9", since_block=9, since_time=1)
            assert next(line for line in lines if line.startswith("event: ")) == "event: halted"
            assert monotonic() - committed_at < event_stream._CHECK_SECONDS + SLACK_SECONDS


def test_stream_limit_rejects_only_the_client_that_reached_it(indexed):
    with (
        ExitStack() as held,
        serve_api(indexed, ApiSection(max_streams=8, max_streams_per_address=3)) as url,
    ):
        for address in ("192.0.2.1", "2001:db8::1", "2001:db8::2"):
            assert held.enter_context(open_stream(url, address)).status_code == 200
        # An IPv6 /64 network is one client.
        assert held.enter_context(open_stream(url, "2001:db8::3")).status_code == 200
        refused = held.enter_context(open_stream(url, "2001:db8::4"))
        assert (refused.status_code, refused.json()["title"]) == (429, "Too Many Requests")
        statuses = [
            held.enter_context(open_stream(url, f"192.0.2.{host}")).status_code
            for host in range(2, 7)
        ]
        assert statuses == [200, 200, 200, 200, 503]


def test_disconnected_client_releases_its_stream_slot(indexed):
    with serve_api(indexed, ApiSection(max_streams=8, max_streams_per_address=1)) as url:
        open_stream(url, "192.0.2.1").close()
        for _ in range(200):
            with open_stream(url, "192.0.2.1") as answer:
                if answer.status_code == 200:
                    return
        pytest.fail("the place of a closed stream was never free")


def test_stream_ended_by_its_time_limit_resumes_without_a_gap(indexed):
    with serve_api(indexed, ApiSection(stream_seconds=0.5)) as url:
        with open_stream(url, "192.0.2.1") as answer:
            lines = list(answer.iter_lines(decode_unicode=True))
        place = next(line.removeprefix("id: ") for line in lines if line.startswith("id: "))
        with requests.get(
            f"{url}/v1/events",
            headers={"Last-Event-ID": place},
            stream=True,
            timeout=PATIENCE_SECONDS,
        ) as resumed:
            assert f"id: {place}" in list(resumed.iter_lines(decode_unicode=True))


def test_head_request_to_event_stream_returns_immediately(indexed):
    with serve_api(indexed, ApiSection()) as url:
        answer = requests.head(f"{url}/v1/events", timeout=PATIENCE_SECONDS)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
