"""The database is the same however history is split, whatever prepares it and whatever dies."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from oracle.chain.segments import segment_queue
from oracle.store.database import Store
from tests.integration.segments.conftest import HISTORY, OpenPrepared, at_request
from tests.integration.segments.failing_workers import get_worker_pids
from tests.integration.segments.test_prepared_segments import CapabilityMemory, staged_in
from tests.support.examples import examples
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer, limit_ranges
from tests.support.txmgr.brittle import Brittle, Died

_NEVER = 1_000_000


class Preparation(NamedTuple):
    """The number of workers, the blocks of a range, and the logs ingested together."""

    workers: int
    blocks: int
    together: int


@dataclass
class World:
    """A chain, and what outlives a writer: its database, its staged segments,
    its learned capabilities.
    """

    chain: FakeChain
    open_prepared: OpenPrepared
    folder: Callable[[str], Path]
    url: str | None = None
    stage: Path = field(init=False)
    kept: CapabilityMemory = field(init=False)

    def begin(self) -> None:
        """Start with an empty database."""
        self.url, self.kept, self.stage = None, CapabilityMemory(), self.folder("a") / "stage"

    def writer(self, writer_options: Preparation, killed_at: list[int]) -> Indexer:
        """Start a writer; at these requests all of its workers are killed."""
        indexer = self.open_prepared(writer_options.workers, writer_options.blocks, self.url)
        self.url = indexer.url
        staged_in(indexer, self.stage, self.kept)
        limit_ranges(indexer, writer_options.blocks)
        self.chain.provider.faults[:] = [
            at_request(nth, "eth_getBlockReceipts", lambda: kill_all_workers(indexer))
            for nth in killed_at
        ]
        return indexer


@pytest.fixture
def world(
    fake_chain: FakeChain, open_prepared: OpenPrepared, tmp_path_factory: pytest.TempPathFactory
) -> World:
    return World(fake_chain, open_prepared, tmp_path_factory.mktemp)


def kill_all_workers(indexer: Indexer) -> None:
    """Kill every running worker, as by `kill -9`."""
    for pid in get_worker_pids(indexer.pool):
        os.kill(pid, signal.SIGKILL)


def is_through(indexer: Indexer, calls: int) -> bool:
    """Index until the writer dies at a call inside a transaction;
    return whether it was finished.
    """
    brittle = cast("Store", Brittle(indexer.store, calls))
    try:
        while indexer.step(brittle) is not None:
            pass
    except Died:
        return False
    finally:
        # Its workers end with it; staged segments are kept.
        indexer.pool.close()
        indexer.store.close()
    return True


@pytest.mark.nightly
@settings(examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    how=st.builds(
        Preparation,
        workers=st.sampled_from([1, 2, 4]),
        blocks=st.integers(3, HISTORY),
        together=st.sampled_from([0, 100, 12_000]),
    ),
    killed_at=st.lists(st.integers(1, 150), max_size=2),
    writer_dies=st.lists(st.integers(0, 150), max_size=2),
)
def test_database_equals_one_written_by_a_single_writer(
    world: World,
    expected: list[str],
    how: Preparation,
    killed_at: list[int],
    writer_dies: list[int],
):
    world.begin()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_queue, "_MAX_JOINED_LOGS", how.together)
        for calls in (*writer_dies, _NEVER):
            if is_through(world.writer(how, killed_at), calls):
                break

    assert world.url is not None
    assert dump_database_rows(world.url) == expected
