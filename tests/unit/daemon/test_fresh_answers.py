"""During backfill, a fresh response is returned from the cache before a route is matched."""

import pytest

from oracle.daemon.web.answer_cache import AnswerCache
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History

HISTORY_LAG_SECONDS = 61
ORIGIN = "https://example.org"


@pytest.fixture
def indexed(sqlite_url):
    with Store.open(sqlite_url) as store:
        read = IndexedHistory(store).whole(History().joins("A").after(10))
        read.now += HISTORY_LAG_SECONDS
        yield read


@pytest.fixture
def forbid_new_responses(monkeypatch):
    """From now on, fail any route whose response is cached."""

    def begin() -> None:
        monkeypatch.setattr(
            AnswerCache, "get_or_make_response", lambda *_: pytest.fail("a route was asked")
        )

    return begin


@pytest.mark.parametrize("origin", [{}, {"origin": ORIGIN}], ids=["browser", "other origin"])
@pytest.mark.parametrize("path", ["/", "/nodes?sort=qos", "/v1/network", "/v1/nodes?limit=1"])
def test_fresh_response_equals_original_including_headers(
    indexed, forbid_new_responses, path, origin
):
    client = indexed.client(cors=(ORIGIN,))
    original = client.get(path, headers=origin)
    forbid_new_responses()
    fresh = client.get(path, headers=origin)
    assert (fresh.status_code, fresh.content) == (200, original.content)
    assert sorted(fresh.headers.multi_items()) == sorted(original.headers.multi_items())


def test_fresh_response_with_matching_etag_returns_304(indexed, forbid_new_responses):
    client = indexed.client()
    tag = client.get("/v1/network").headers["etag"]
    forbid_new_responses()
    assert client.get("/v1/network", headers={"if-none-match": tag}).status_code == 304


def test_fresh_response_is_not_used_for_a_different_request(indexed):
    client = indexed.client()
    client.get("/v1/network")
    assert client.delete("/v1/network").status_code == 405
    assert client.get("/v1/network?page=2").status_code == 422
    assert client.get("/v1/openapi.json").status_code == 200
