"""Fixtures of the slow ingest tests: real HTTP requests, transactions and files.

`fake_chain` has two endpoints, and 30 blocks with the traffic of a network. `indexer` follows the
chain into its own database. A test that needs another number of endpoints calls
`fake_chain.serve()`, or opens its own `Indexer(fake_chain.urls[:1], sqlite_url)`.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

OpenIndexer = Callable[..., Indexer]


@pytest.fixture
def fake_chain() -> Iterator[FakeChain]:
    with ExitStack() as until_the_end:
        chain = FakeChain(until_the_end)
        chain.serve()
        chain.serve()
        chain.live(30)
        yield chain


@pytest.fixture
def open_indexer(tmp_path: Path, sqlite_template: Path) -> Iterator[OpenIndexer]:
    """Return a function that opens indexers with new databases; all are closed at the end."""
    opened: list[Indexer] = []

    def open_one(*urls: str, url: str | None = None, **settings: Any) -> Indexer:
        fresh = tmp_path / f"indexer-{len(opened)}.sqlite"
        if url is None:
            shutil.copyfile(sqlite_template, fresh)
        opened.append(Indexer(urls, url or f"sqlite:///{fresh}", **settings))
        return opened[-1]

    yield open_one
    for indexer in opened:
        indexer.close()


@pytest.fixture
def indexer(fake_chain: FakeChain, open_indexer: OpenIndexer) -> Indexer:
    """Return an indexer that has read nothing yet; `indexer.index()` reads the complete chain."""
    return open_indexer(*fake_chain.urls)
