"""The stored bytes do not depend on the process that prepared them, or on the size of ranges."""

import pytest

from tests.integration.segments.conftest import HISTORY, OpenPrepared, outcomes
from tests.integration.segments.failing_workers import get_worker_pids
from tests.support.ingest.dumping import dump_database_rows


@pytest.mark.parametrize(("workers", "blocks"), [(1, 20), (2, 20), (2, 7), (2, HISTORY)])
def test_database_does_not_depend_on_workers_or_segment_size(
    expected: list[str], open_prepared: OpenPrepared, workers: int, blocks: int
):
    before = outcomes("taken")
    indexer = open_prepared(workers, blocks)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected
    assert outcomes("taken") > before


def test_database_is_identical_on_postgresql(
    expected: list[str], open_prepared: OpenPrepared, postgresql_url: str
):
    indexer = open_prepared(2, url=postgresql_url)

    indexer.index()

    assert dump_database_rows(indexer.url) == expected


def test_workers_stop_with_the_writer(open_prepared: OpenPrepared):
    indexer = open_prepared(2)
    indexer.index()
    assert get_worker_pids(indexer.pool)

    indexer.close()

    assert get_worker_pids(indexer.pool) == []
