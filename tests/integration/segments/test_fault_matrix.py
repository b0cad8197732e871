"""The fault cases of ingest, each with and without workers, always end with the honest digest.

tests/faults/ingest/cases.toml describes the cases; those that are not played have a reason here.
"""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.catalogue import INGEST, list_cases
from tests.integration.segments.chain_scenarios import CHAINS
from tests.integration.segments.conftest import outcomes
from tests.integration.segments.faulty_worlds import World
from tests.integration.segments.response_scenarios import ANSWERS
from tests.integration.segments.writer_scenarios import WRITERS
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer, limit_ranges

HISTORY = 90
CASES = CHAINS | ANSWERS | WRITERS
SCENARIOS = {
    f"{case} {words}".strip(): scenario
    for case in CASES
    for words, scenario in CASES[case].items()
}
# Cases that do not apply to reading history, with the reason.
NOT_OF_HISTORY = {
    "20": "the chain adds no blocks, so none are read; the case is about timers and kickouts",
    "55": "a WebSocket only announces new heads; no response comes over it",
    "67": "new blocks are requested from a restricted source, which has no workers",
    "73": "a migration reads no blocks from the chain",
    "74": "folding again reads no blocks from the chain",
    "75": "transactions that we send are at the head; workers read only final blocks",
    "76": "a queued kickout is at the head; workers read only final blocks",
}
# CI runs these scenarios, and the nightly run all of them.
IN_CI = {"05", "15", "28", "49 one", "58", "62", "65", "70"}
ON_POSTGRESQL = {"01", "07", "28", "45 a log twice", "58", "65"}
# No block is final on such a chain, so the writer reads it without workers.
NEVER_ORDERED: set[str] = set()

OpenWorld = Callable[..., World]


@pytest.fixture
def open_world(tmp_path: Path, sqlite_template: Path) -> Iterator[OpenWorld]:
    """Return a function that opens a world with this number of workers and maximum window."""
    with ExitStack() as until_the_end:

        def fresh() -> str:
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
            shutil.copyfile(sqlite_template, path)
            return f"sqlite:///{path}"

        def open_one(workers: int, blocks: int, database: str | None = None) -> World:
            chain = FakeChain(until_the_end)
            chain.serve()
            chain.serve()
            chain.live(HISTORY)

            def opened(urls: list[str], url: str | None = database, **options: Any) -> Indexer:
                options = {"reports": False, "workers": workers} | options
                indexer = Indexer(list(urls), url or fresh(), **options)
                until_the_end.callback(indexer.close)
                return limit_ranges(indexer, blocks)

            def resumed(indexer: Indexer) -> Indexer:
                indexer.restart()
                return limit_ranges(indexer, blocks)

            return World(chain, opened, resumed)

        yield open_one


def state(indexer: Indexer) -> tuple[object, ...]:
    return indexer.digest(), indexer.canonical_logs(), indexer.gaps()


def honest_state(world: World, played: Indexer, url: str) -> tuple[object, ...]:
    """Read the expected chain from a healthy endpoint, without workers."""
    head = world.expected or world.chain.head
    world.chain.serve(follows=False).head = head
    start = played.start_block
    indexer = Indexer(world.chain.urls[-1:], url, start_block=start, reports=False)
    indexer.index()
    try:
        return state(indexer)
    finally:
        indexer.close()


def nightly_but(names: Collection[str], chosen: Collection[str]) -> list[Any]:
    return [
        pytest.param(name, marks=() if name in chosen else pytest.mark.nightly)
        for name in sorted(names)
    ]


@pytest.mark.parametrize("blocks", [20, pytest.param(7, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", nightly_but(SCENARIOS, IN_CI))
def test_index_built_despite_faults_has_the_same_digest_as_an_honest_one(
    open_world: OpenWorld, sqlite_url: str, name: str, workers: int, blocks: int
):
    world = open_world(workers, blocks)
    before = outcomes("taken") + outcomes("refused")

    played = SCENARIOS[name](world)

    assert state(played) == honest_state(world, played, sqlite_url)
    is_ordered = outcomes("taken") + outcomes("refused") > before
    assert is_ordered == (workers > 0 and name not in NEVER_ORDERED)
    assert not world.faults or any(fault.hit_count for fault in world.faults)


@pytest.mark.postgres
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", nightly_but(ON_POSTGRESQL, {"28"}))
def test_index_built_despite_faults_has_the_same_digest_on_postgresql(
    open_world: OpenWorld, sqlite_url: str, postgresql_url: str, name: str, workers: int
):
    world = open_world(workers, 20, postgresql_url)

    played = SCENARIOS[name](world)

    assert state(played) == honest_state(world, played, sqlite_url)


def test_every_ingest_case_is_either_tested_or_excluded():
    numbers = {case.number for case in list_cases(INGEST)}

    assert set(CASES) | set(NOT_OF_HISTORY) == numbers
    assert not set(CASES) & set(NOT_OF_HISTORY)
    assert set(SCENARIOS) >= IN_CI | ON_POSTGRESQL | NEVER_ORDERED
