"""Fixtures: a chain with a history, and indexers whose history real worker processes prepare.

`dump` is the complete database, which must not depend on the process that prepared it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devnet.fakechain.fault import InjectedFault
from oracle.telemetry.indexer_metrics import SEGMENTS
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer, limit_ranges
from tests.support.ingest.skipping import Skipping

HISTORY = 240
# With small ranges, a short history has many.
RANGE = 20
OpenPrepared = Callable[..., Indexer]


@pytest.fixture
def fake_chain() -> Iterator[FakeChain]:
    with ExitStack() as until_the_end:
        chain = FakeChain(until_the_end)
        chain.serve()
        chain.live(HISTORY)
        yield chain


@pytest.fixture
def open_prepared(
    fake_chain: FakeChain, tmp_path: Path, sqlite_template: Path
) -> Iterator[OpenPrepared]:
    """Return a function that opens indexers with this number of workers and this maximum range."""
    opened: list[Indexer] = []

    def open_one(workers: int, blocks: int = RANGE, url: str | None = None) -> Indexer:
        if url is None:
            fresh = tmp_path / f"{len(opened)}.sqlite"
            shutil.copyfile(sqlite_template, fresh)
            url = f"sqlite:///{fresh}"
        indexer = Indexer(fake_chain.urls, url, reports=False, workers=workers)
        opened.append(indexer)
        return limit_ranges(indexer, blocks)

    yield open_one
    for indexer in opened:
        indexer.close()


@pytest.fixture
def database(tmp_path: Path, sqlite_template: Path) -> Callable[[], str]:
    """Return a new database at each call."""

    def fresh() -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.sqlite"
        path.write_bytes(sqlite_template.read_bytes())
        return f"sqlite:///{path}"

    return fresh


@pytest.fixture
def skipping(database: Callable[[], str]) -> Iterator[Callable[[int], Skipping]]:
    """Return a function that starts a chain with this number of endpoints."""
    with ExitStack() as until_the_end:

        def begin(endpoints: int) -> Skipping:
            begun = Skipping(until_the_end, database)
            for _ in range(endpoints):
                begun.chain.serve()
            return begun

        yield begin


@pytest.fixture
def expected(open_prepared: OpenPrepared) -> list[str]:
    """Return the database of a writer without workers."""
    indexer = open_prepared(0)
    indexer.index()
    return dump_database_rows(indexer.url)


def outcomes(outcome: str) -> float:
    """Return how many ranges have had this outcome so far, in this process."""
    return next(
        sample.value
        for metric in SEGMENTS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["outcome"] == outcome
    )


def at_request(nth: int, method: str, deed: Callable[[], object]) -> InjectedFault:
    """Run an action at the n-th request of this kind; the responses are not changed."""
    left = [nth]

    def change(_request: object, answer: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            deed()
        return answer

    return InjectedFault("deed", change, limits={"methods": method}, counts_unchanged=True)
