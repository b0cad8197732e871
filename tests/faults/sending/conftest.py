"""Fixtures of the slow sending tests: real services, transactions on Anvil, and real HTTP.

`harness` connects to Anvil directly, and `proxied_harness` through `proxies`, two endpoints with
the faults that a test sets. `store` runs a test on both engines. Each test's changes to the chain
are undone.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.evm.fixtures import chain
from tests.support.harness import Harness, OracleTestbed
from tests.support.sending.fuses import Deaths
from tests.support.sending.proxy import Proxy, run_proxy
from tests.support.sending.reporters import ReporterGroup, run_reporter_group
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    harness,
    sqlite_harness,
    testbed,
)
from tests.support.txmgr.stores import (
    NewStore,
    new_postgresql_store,
    new_sqlite_store,
    new_store,
    store,
)

__all__ = [
    "chain",
    "fresh_chain",
    "fresh_testbed",
    "harness",
    "new_postgresql_store",
    "new_sqlite_store",
    "new_store",
    "sqlite_harness",
    "store",
    "testbed",
]

OpenProxy = Callable[[], Proxy]


@pytest.fixture
def death_points(request: pytest.FixtureRequest, *, bounded: bool) -> Deaths:
    """Return the points to die at, for the engine of `new_store`."""
    is_sqlite = request.node.callspec.params["new_store"] == "sqlite"
    return Deaths(is_everywhere=is_sqlite and not bounded)


@pytest.fixture
def open_proxy(testbed: OracleTestbed) -> Iterator[OpenProxy]:
    """Return a function that opens proxies of the chain."""
    with ExitStack() as until_the_end:
        yield lambda: until_the_end.enter_context(run_proxy(testbed.chain.url))


@pytest.fixture
def proxies(open_proxy: OpenProxy) -> tuple[Proxy, Proxy]:
    """Return two endpoints of one chain; every send goes to both."""
    return open_proxy(), open_proxy()


@pytest.fixture
def proxied_harness(sqlite_harness: Harness, proxies: tuple[Proxy, Proxy]) -> Harness:
    """Return a harness on SQLite that reaches the chain only through both proxies."""
    sqlite_harness.restart(urls=[endpoint_proxy.url for endpoint_proxy in proxies])
    for endpoint_proxy in proxies:
        endpoint_proxy.forget()
    return sqlite_harness


@pytest.fixture
def reporter_trio(
    testbed: OracleTestbed,
    new_sqlite_store: NewStore,
    new_postgresql_store: NewStore,
    tmp_path: Path,
) -> Iterator[ReporterGroup]:
    """Yield two reporters on SQLite and one on PostgreSQL; windows have 1, 3 and 1000 blocks."""
    with (
        new_sqlite_store() as first_store,
        new_postgresql_store() as second_store,
        new_sqlite_store() as third_store,
        run_reporter_group(testbed, [first_store, second_store, third_store], tmp_path) as opened,
    ):
        for reporter, window in zip(opened.reporters, (1_000, 1, 3), strict=True):
            reporter.window = window
        yield opened
