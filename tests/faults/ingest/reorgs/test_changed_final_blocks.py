"""Case 4: a chain that changed below a final block, and how indexing continues afterwards."""

import re
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import InputError, TransientError
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.reorg import rewind_to_block
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

QUIET = 60


def rewind(indexer: Indexer, number: int) -> None:
    rewind_to_block(indexer.source, indexer.store, indexer.folder, number, RebuildOptions())


def test_case_04_rewind_removes_every_block_of_the_old_chain(
    fake_chain: FakeChain, open_indexer: OpenIndexer, database_url: str
):
    indexer = open_indexer(*fake_chain.urls, url=database_url)
    # The indexed fork has no logs from block 30 on; hashes below the final block are not stored
    # there.
    fork = fake_chain.head
    fake_chain.mine_empty(QUIET)
    indexer.index()
    last = fake_chain.live(QUIET + 20, on=fork)
    (halted,) = indexer.index()
    assert isinstance(halted, HaltChanged)

    suggestion = re.search(r"--to-block (\d+)", halted.reason)
    assert suggestion is not None
    with pytest.raises(InputError, match=r"rewind to block \d+") as refused:
        rewind(indexer, int(suggestion.group(1)))
    (named,) = re.findall(r"rewind to block (\d+)", str(refused.value))
    assert int(named) <= fork.number
    rewind(indexer, int(named))
    indexer.index()

    assert indexer.cursor == (last.number, last.hash)
    assert indexer.canonical_logs() == fake_chain.logs(last)
    assert indexer.gaps() == []


def test_case_04_rewind_to_a_block_without_a_stored_hash_succeeds(
    indexer: Indexer, fake_chain: FakeChain
):
    fake_chain.mine_empty(QUIET)
    indexer.index()

    rewind(indexer, 30 + QUIET // 2)
    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize("restarts", [False, True])
def test_chain_far_below_the_stored_final_block_is_reported(
    fake_chain: FakeChain, open_indexer: OpenIndexer, *, restarts: bool
):
    indexer = open_indexer(*fake_chain.urls)
    indexer.index()
    before = indexer.cursor
    fake_chain.show(fake_chain.tree.mine_empty_blocks(3, parent_block=fake_chain.tree.genesis))
    if restarts:
        indexer.restart()

    with pytest.raises(TransientError, match=r"block 3\b.* block 22 "):
        indexer.index()

    assert indexer.cursor == before


def test_stalled_endpoint_on_a_fork_is_reported_until_it_resumes(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    still, moves = fake_chain.providers
    fake_chain.following.remove(still)
    with capture_logs() as log_lines:
        for _ in range(150):
            fake_chain.mine_empty(1, on=fake_chain.back(2) if moves.head is still.head else None)
            with suppress(TransientError):
                indexer.index()
            clock.advance(1.0)

    # Neither side can be proven right: nothing is undone, and a warning is repeated meanwhile.
    assert indexer.cursor == (still.head.number, still.head.hash)
    held = indexer.ingest.fork_watch.get_long_dispute(clock())
    assert held is not None
    assert held.startswith(f"{fake_chain.urls[1]} reported that block 30 left the chain, but ")
    assert sum(line["event"] == "endpoint_outvoted" for line in log_lines) < 10

    still.head = moves.head
    clock.advance(60.0)
    indexer.index()
    assert indexer.cursor == (moves.head.number, moves.head.hash)
    assert indexer.ingest.fork_watch.get_long_dispute(clock()) is None
