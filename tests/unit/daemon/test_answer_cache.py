"""Cached responses: valid until the cursor moves, and for some seconds during backfill."""

import pytest
from starlette.requests import Request
from starlette.responses import Response

from oracle.daemon.web.answer_cache import AnswerCache, AnswerFlights, CachedResponse
from oracle.daemon.web.demo_phase import DemoPhase
from oracle.queries.api.source import open_snapshot
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History

HISTORY_LAG_SECONDS = 61


class CacheClient:
    """A cache over a history; each response contains the number of responses made before it."""

    def __init__(self, indexed: IndexedHistory, most_bytes: int = 10_000) -> None:
        self.indexed = indexed
        self.made = 0
        self.time = 100.0
        self.phase: DemoPhase | None = None
        self.status = 200
        source = indexed.source
        self.cache = AnswerCache(source, most_bytes, lambda: self.phase, lambda: self.time)

    def get(self, path: str = "/", tag: str = "") -> Response:
        response = self.get_response(path, tag, AnswerFlights(1))
        assert response is not None
        return response

    def get_response(self, path: str, tag: str, flights: AnswerFlights) -> Response | None:
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
        headers = [(b"if-none-match", tag.encode()), (b"accept-encoding", b"gzip")]
        request = Request({**scope, "headers": headers, "server": ("here", 80)})
        return self.cache.get_or_make_response(request, self._make, flights)

    def get_text(self, path: str = "/") -> str:
        return bytes(self.get(path).body).decode()

    def _make(self) -> CachedResponse:
        self.made += 1
        with open_snapshot(self.indexed.source) as snapshot:
            return CachedResponse(
                Response(f"{self.made}", self.status), snapshot.as_of, self.phase
            )

    def moves(self) -> None:
        """Move the cursor by one block, without time."""
        now, cursor = self.indexed.now, self.indexed.fold.last
        number = 1 if cursor is None else cursor.at.block
        self.indexed.index([], number + self.made + 1, now - 4)
        self.indexed.now = now


@pytest.fixture
def indexed(sqlite_url):
    with Store.open(sqlite_url) as store:
        yield IndexedHistory(store).whole(History().joins("A").after(10))


@pytest.fixture
def client(indexed) -> CacheClient:
    return CacheClient(indexed)


def test_response_is_cached_while_index_is_unchanged(client: CacheClient):
    assert [
        client.get_text(),
        client.get_text(),
        client.get_text("/nodes"),
        client.get_text(),
    ] == [
        "1",
        "1",
        "2",
        "1",
    ]


def test_new_block_at_head_invalidates_cached_response(client: CacheClient):
    before = client.get()
    client.moves()
    after = client.get(tag=before.headers["etag"])
    assert (before.body, after.body, after.status_code) == (b"1", b"2", 200)


def test_halt_or_new_demo_act_invalidates_cached_response(client: CacheClient):
    client.get_text()
    with client.indexed.store.transaction() as uow:
        uow.halts.open_halt(
            "finality_violation", "block 9 changed", since_block=9, since_time=1_000
        )
    assert client.get_text() == "2"
    client.phase = DemoPhase("Phase 2", "A node fails.")
    assert [client.get_text(), client.get_text()] == ["3", "3"]


def test_response_is_cached_for_ten_seconds_during_backfill(client: CacheClient):
    client.indexed.now += HISTORY_LAG_SECONDS
    first = client.get()
    client.moves()
    client.time += 9.999
    assert client.get_text() == "1"
    assert client.get(tag=first.headers["etag"]).status_code == 304
    client.time += 0.001
    assert client.get(tag=first.headers["etag"]).body == b"2"


def test_response_cached_during_backfill_expires_at_head(client: CacheClient):
    now = client.indexed.now
    client.indexed.now += HISTORY_LAG_SECONDS
    client.get_text()
    client.indexed.now = now
    client.time += 10
    assert client.get_text() == "2"


def test_cached_response_is_reused_without_a_check_only_during_backfill(client: CacheClient):
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    client.get_text()
    assert client.cache.get_fresh_response(scope) is None
    client.indexed.now += HISTORY_LAG_SECONDS
    client.get_text()
    fresh = client.cache.get_fresh_response(scope)
    assert fresh is not None
    assert fresh.body == client.get().body
    assert client.cache.get_fresh_response({**scope, "query_string": b"page=2"}) is None
    client.time += 10
    assert client.cache.get_fresh_response(scope) is None


def test_non_200_response_is_not_cached(client: CacheClient):
    client.status = 300
    assert [client.get_text(), client.get_text()] == ["1", "2"]


def test_cached_response_is_served_even_if_no_slot_is_free(client: CacheClient):
    assert client.get_text() == "1"
    full = AnswerFlights(0)
    assert client.get_response("/nodes", "", full) is None
    assert client.get_response("/", "", full) is not None


def test_least_recently_used_response_is_evicted(indexed):
    # Each entry takes three bytes for its request and one for its response.
    cached_client = CacheClient(indexed, most_bytes=12)
    for path in ("/a", "/b", "/c", "/a", "/d"):
        cached_client.get_text(path)
    assert [cached_client.get_text(path) for path in ("/c", "/a", "/d", "/b")] == [
        "3",
        "1",
        "4",
        "5",
    ]


def test_only_long_responses_are_gzipped(client: CacheClient):
    assert "content-encoding" not in client.get().headers
    client.made = 10**1_200
    assert client.get("/nodes").headers["content-encoding"] == "gzip"
