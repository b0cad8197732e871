"""Case 67: what is new is read in parts, and read is only what all the parts were read for."""

from dataclasses import dataclass
from typing import Any, cast

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import EventReader, part_of
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import IngestScope
from oracle.indexer.audit.scope_backfill import ScopeBackfill, backfill_next, missing_of
from oracle.indexer.provenance import scope_of
from oracle.indexer.rebuild import RebuildOptions
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.ingest.storage.test_storage import read_for
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import FINALITY


@dataclass(frozen=True)
class OfLength:
    """A chain that gives so many blocks, as one does that has read ahead, whatever is asked."""

    chain: Any
    blocks: int

    def window(self, asked: BlockRange, *, with_headers: bool) -> BlockWindow:
        wanted = BlockRange(asked.first, asked.first + self.blocks - 1)
        return cast("BlockWindow", self.chain.window(wanted, with_headers=with_headers))


def test_case_67_what_one_part_was_read_for_further_than_another_is_not_taken_as_read(
    a_chain: AChain, open_indexer: OpenIndexer
):
    a_chain.quiet(FINALITY)
    indexer = open_indexer(a_chain.urls[0], reports=False)
    now = EventReader.open("reference", {"TaskNetwork": NETWORK}, ORACLE)
    known = IngestScope.of([NETWORK], now.topics[1:])
    read_for(indexer, part_of(now, known)).index()
    read_for(indexer, now)
    parts = missing_of(scope_of(now), known)
    assert len(parts) == 2
    lengths = dict(zip(parts, (5, 20), strict=True))
    scope_backfill = ScopeBackfill()
    for part, blocks in lengths.items():
        scope_backfill._chains[part] = cast(
            "ChainReader", OfLength(indexer.source.narrowed(part), blocks)
        )

    step = backfill_next(
        indexer.source, indexer.store, indexer.folder, scope_backfill, RebuildOptions()
    )

    assert step is not None
    assert step.blocks == BlockRange(0, 4)
    assert indexer.gaps()[0].first == 5
