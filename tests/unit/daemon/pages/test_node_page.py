"""The page of a node that turned away: since when it says so, and where its course ends."""

from collections.abc import Callable

import pytest

from oracle.queries.text.human_numbers import format_time
from tests.support.api import IndexedHistory
from tests.support.histories import History, node_address
from tests.support.txmgr.stores import NewStore

DAYS = 86_400


def asked(new_store: NewStore, history: History, path: str) -> str:
    with new_store() as store:
        answer = IndexedHistory(store).whole(history).client().get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_paused_node_shows_pause_time(new_sqlite_store: NewStore):
    history = History().joins("A").scores("A", 10).pauses("A")
    since = format_time(history.time)
    page = asked(new_sqlite_store, history.after(2 * DAYS), f"/nodes/{node_address('A')}")
    assert f"<h1>Paused by its owner since {since}.</h1>" in page


@pytest.mark.parametrize("leaves", [History.quits, History.is_slashed, History.is_kicked_out])
def test_history_chart_of_departed_node_ends_at_departure(
    new_sqlite_store: NewStore, leaves: Callable[[History, str], History]
):
    history = leaves(History().joins("A").scores("A", 10, 0).after(60), "A")
    left_at = history.time
    history.after(50 * DAYS)
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(history).client()
        for span in ("1h", "6h", "24h", "7d", "30d", "all"):
            page = client.get(f"/nodes/{node_address('A')}?range={span}").text
            assert f"history?first=1000&amp;last={left_at}" in page, span
