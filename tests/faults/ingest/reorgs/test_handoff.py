"""The transition from history to the head, and other ways to the same state."""

from devnet.fakechain.faults.message_faults import build_range_limit_fault
from devnet.fakechain.faults.transport_faults import build_callback_fault
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.loop import IngestResult
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer
from tests.support.traffic import Traffic

# Which endpoint a block was read from, its level, and the forks that were seen meanwhile.
HOW_IT_CAME = {"coverage", "verified_block", "reorg_log", "halt"}


def dump_path_independent_rows(indexer: Indexer) -> list[str]:
    """Return every row of the database that does not depend on the way to the state."""
    return dump_database_rows(indexer.url, orphans=False, without=HOW_IT_CAME)


def test_case_70_backfill_equals_live_indexing_despite_forks(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    live = open_indexer(*fake_chain.urls, reports=False)
    by_turns = open_indexer(*fake_chain.urls, reports=False)
    forks = Traffic(5).random
    for turn in range(12):
        on = fake_chain.back(forks.randrange(6)) if turn % 2 else None
        fake_chain.live(forks.randrange(7, 11), on=on)
        live.index()
        by_turns.restart(by_turns.urls[::-1])
        by_turns.step()
    by_turns.index()
    history = open_indexer(*fake_chain.urls, reports=False)
    history.index()

    assert live.canonical_logs() == fake_chain.logs()
    assert dump_path_independent_rows(live) == dump_path_independent_rows(history)
    assert dump_path_independent_rows(by_turns) == dump_path_independent_rows(history)


def test_case_70_blocks_mined_during_backfill_are_indexed_once(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(200)
    arriving = build_callback_fault(lambda _: fake_chain.live(1), times=40)
    fake_chain.providers[0].faults = [arriving, build_range_limit_fault(10)]
    fake_chain.providers[1].faults = [build_range_limit_fault(10)]
    clock = VirtualClock()
    indexer = open_indexer(*fake_chain.urls, reports=False, clock=clock)

    done: list[IngestResult] = []
    while arriving.hit_count < 40 or indexer.cursor[1] != fake_chain.head.hash:
        # The known head is outdated.
        clock.advance(5)
        done += indexer.index()

    ranges = [step.blocks for step in done if isinstance(step, CommittedWindow)]
    assert len(ranges) > 3
    assert [block_range.first for block_range in ranges] == [
        0,
        *(block_range.last + 1 for block_range in ranges[:-1]),
    ]
    assert indexer.canonical_logs() == fake_chain.logs()
    assert indexer.gaps() == []
