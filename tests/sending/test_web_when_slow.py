"""Who watches, and the other reporters, are answered while the database stands still."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import requests

from oracle.entrypoints.watch import Watch
from oracle.entrypoints.web import build, serving
from oracle.publisher.board import Board
from oracle.publisher.statement_wire import ToldReport, read
from oracle.scheduler import Beats
from oracle.store.store import Store

ADDRESS, HASH = "0x" + 40 * "1", "0x" + 64 * "2"
TOLD = ToldReport(
    chain_id=1,
    contract=ADDRESS,
    round=7,
    rules=1,
    rules_hash=HASH,
    prev=HASH,
    as_of=9,
    as_of_hash=HASH,
    deadline=600,
    data_hash=HASH,
    period=0,
    digest=HASH,
    signer=ADDRESS,
    signature="0x" + 130 * "3",
)
# More than the server has threads.
CROWD = 60


@pytest.fixture
def locked_door(postgresql_url: str) -> Iterator[str]:
    """A door to a database whose cursor nobody may read, with a crowd in front of it."""
    board = Board()
    board.put(TOLD)
    native = postgresql_url.replace("postgresql+psycopg://", "postgresql://")
    with (
        Store.open(postgresql_url) as store,
        serving(build(Watch(Beats(lambda: 0.0)), lambda: store, board), "127.0.0.1", 0) as url,
        psycopg.connect(native) as holder,
        ThreadPoolExecutor(CROWD) as crowd,
    ):
        holder.execute('LOCK TABLE "cursor" IN ACCESS EXCLUSIVE MODE')
        asked = [crowd.submit(requests.get, f"{url}/readyz", timeout=60) for _ in range(CROWD)]
        try:
            # Some wait for the lock, and the others have been turned away.
            while sum(one.done() for one in asked) < CROWD - 8:
                time.sleep(0.01)
            # Turned away at once, not when they had waited long enough.
            told = [one.result().text for one in asked if one.done()]
            assert all("too many wait for it" in text for text in told)
            yield url
            assert not all(one.done() for one in asked)
        finally:
            holder.rollback()


@pytest.mark.postgres
@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", ["/livez", "/metrics", "/v1/report/7"])
def test_case_f73_watchers_and_peers_are_answered_while_the_database_stands_still(
    locked_door: str, path: str
):
    # That it does not wait is what the fixture shows: at its end the crowd still does.
    assert requests.get(locked_door + path, timeout=5).status_code == 200


def test_what_is_shown_is_what_was_put_there(locked_door: str):
    body = requests.get(f"{locked_door}/v1/report/7", timeout=5).content

    assert read(body) == [TOLD]
    assert requests.get(f"{locked_door}/v1/report/8", timeout=5).status_code == 404
