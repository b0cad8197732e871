"""Fixtures: endpoints that serve a chain from memory, and the reader for its contracts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from tests.pools import source_on
from tests.support.chain.memory_chain import MemoryChain
from tests.support.chain.network_logs import NETWORK, ORACLE, get_task_created_log
from tests.support.chain.server import Served, serve_memory_chain

Serve = Callable[[MemoryChain], Served]
OpenSource = Callable[..., ChainSource]


@pytest.fixture(scope="session")
def reader() -> EventReader:
    return EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that serves a chain; all served chains are stopped after the test."""
    with ExitStack() as until_the_end:
        yield lambda chain: until_the_end.enter_context(serve_memory_chain(chain))


@pytest.fixture
def served(serve: Serve) -> Served:
    """Return an endpoint whose chain has 40 blocks.

    Every block but the first creates two tasks.
    """
    chain = MemoryChain()
    for number in range(1, 41):
        chain.mine([get_task_created_log(2 * number), get_task_created_log(2 * number + 1)])
    return serve(chain)


@pytest.fixture
def open_source(reader: EventReader) -> Iterator[OpenSource]:
    """Return a function that opens a source on served endpoints; all are closed after the test."""
    with ExitStack() as until_the_end:

        def open_memory_source(*endpoints: Served, finality_depth: int = 4) -> ChainSource:
            urls = [endpoint.url for endpoint in endpoints]
            source = source_on(reader, *urls, depth=finality_depth)
            until_the_end.callback(source.close)
            return source

        yield open_memory_source
