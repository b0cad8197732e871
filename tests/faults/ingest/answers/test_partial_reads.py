"""Case 67: new data is read in parts, and counts as read only once all parts are read."""

from dataclasses import dataclass
from typing import Any, cast

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import EventReader, restrict_reader_to_scope
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import IngestScope
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.audit.scope_backfill import (
    ScopeBackfill,
    backfill_next_gap,
    find_missing_scopes,
)
from oracle.indexer.provenance import build_ingest_scope
from oracle.indexer.rebuild import RebuildOptions
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.ingest.storage.test_storage import restart_with_reader
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY


@dataclass(frozen=True)
class OfLength:
    """A chain that returns windows of a fixed length, like one that has read ahead."""

    chain: Any
    blocks: int

    def fetch_window(self, blocks: BlockRange, *, with_headers: bool) -> BlockWindow:
        prefix = BlockRange(blocks.first, blocks.first + self.blocks - 1)
        return cast("BlockWindow", self.chain.fetch_window(prefix, with_headers=with_headers))


def test_case_67_blocks_read_for_only_some_topics_remain_a_gap(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.mine_empty(FINALITY)
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    now = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, ORACLE)
    old_scope = IngestScope.create([NETWORK], now.topics[1:])
    restart_with_reader(indexer, restrict_reader_to_scope(now, old_scope)).index()
    restart_with_reader(indexer, now)
    parts = find_missing_scopes(build_ingest_scope(now), old_scope)
    assert len(parts) == 2
    lengths = dict(zip(parts, (5, 20), strict=True))
    scope_backfill = ScopeBackfill()
    for part, blocks in lengths.items():
        scope_backfill._chain_by_scope[part] = cast(
            "ChainSource", OfLength(indexer.source.restrict_to_scope(part), blocks)
        )

    step = backfill_next_gap(
        RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions()),
        scope_backfill,
    )

    assert step is not None
    assert step.blocks == BlockRange(0, 4)
    assert indexer.gaps()[0].first == 5
