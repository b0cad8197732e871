"""The indexing half of a daemon, with one database and the endpoints of a test."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.segments.process_pool import ProcessPool
from oracle.chain.segments.segment_request import SegmentPlan
from oracle.chain.source import ChainSource
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import IngestResult, IngestState, ingest_next_window
from oracle.reporting.report_cutter import ReportCutter
from oracle.rpc.client import MAX_RESPONSE_BYTES
from oracle.rpc.endpoints.learned_limits import LearnedLimits, RangeSizer
from oracle.rpc.pool import EndpointPool
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.chain.network_logs import NETWORK, ORACLE

CHAIN_ID = 31337
CONTRACTS = {"TaskNetwork": NETWORK}
# The finality depth if no tag gives the final block.
FINALITY = 8
ANCHOR_WINDOW = 24
SETTINGS = ReportSettings(period_seconds=60, heartbeat_seconds=600, ttl_seconds=300)
# Only L0 and L1, the minimum that is always checked.
MINIMAL_POLICY = VerificationPolicy(
    head=VerificationLevel.SEAMED, history=VerificationLevel.SEAMED, receipts=False
)


def build_segment_plan(reader: EventReader) -> SegmentPlan:
    """Return the plan by which workers read the chain of an `Indexer`."""
    return SegmentPlan(
        chain_id=CHAIN_ID,
        profile="reference",
        contracts=dict(CONTRACTS),
        oracle=ORACLE,
        options={},
        identity=reader.identity,
        history=int(VerificationLevel.PROVEN),
        receipts=True,
        every_header=False,
        most_bytes=MAX_RESPONSE_BYTES,
    )


@dataclass
class Indexer:
    """Follows the chain behind `urls` into the database at `url`, with `rules`.

    `restart` resets everything in memory; the database stays. `clock` counts the seconds of rests,
    waits and polls. Without `reports`, no reports are cut, and only blocks that are not final are
    read with all headers. `workers` prepare the history, however short it is.
    """

    urls: Sequence[str]
    url: str
    start_block: int = 0
    finality: int = FINALITY
    clock: Callable[[], float] = time.monotonic
    reports: bool = True
    workers: int = 0
    rules: Rules = CRYNUX
    store: Store = field(init=False)
    source: ChainSource = field(init=False)
    folder: EventFolder = field(init=False)
    ingest: IngestState = field(init=False)
    pool: ProcessPool = field(init=False)

    def __post_init__(self) -> None:
        self._open()
        with self.store.read_transaction() as uow:
            is_new = uow.identity.get() is None
        if is_new:
            genesis = self.source.fetch_genesis_hash()
            identity = Identity(CHAIN_ID, genesis, dict(CONTRACTS), ORACLE, self.start_block)
            with self.store.transaction() as uow:
                uow.identity.ensure_stored_identity(identity)

    def _open(self) -> None:
        reader = EventReader.from_profile("reference", CONTRACTS, ORACLE)
        cutter = ReportCutter(
            reader, self.rules, SETTINGS, Domain(CHAIN_ID, ORACLE), anchor_window=ANCHOR_WINDOW
        )
        self.store = Store.open(self.url, create=True)
        endpoints = EndpointPool.from_urls(self.urls, CHAIN_ID, self.clock)
        self.source = ChainSource(endpoints, reader, self.finality, clock=self.clock)
        if self.workers:
            self.pool = ProcessPool(build_segment_plan(reader), self.urls, self.workers)
            self.source.use_workers(self.pool, min_worker_blocks=1)
        self.folder = EventFolder(self.rules, reader, [cutter] if self.reports else [])
        self.ingest = IngestState(clock=self.clock)

    def step(self, store: Store | None = None) -> IngestResult | None:
        """Run one step of the loop.

        `store` may wrap the database, for example to die in the middle.
        """
        return ingest_next_window(self.source, store or self.store, self.folder, self.ingest)

    def index(self, after_each: Callable[[], None] | None = None) -> list[IngestResult]:
        """Run steps until nothing is left, and return their results."""
        done: list[IngestResult] = []
        while (result := self.step()) is not None:
            done.append(result)
            if after_each is not None:
                after_each()
        return done

    def restart(self, urls: Sequence[str] | None = None) -> None:
        """Continue as another process would, with nothing but the database."""
        self.close()
        self.urls = self.urls if urls is None else urls
        self._open()

    def close(self) -> None:
        self.folder.discard_cached_rows()
        self.source.close()
        self.store.close()

    @property
    def cursor(self) -> tuple[int, str]:
        """The number and hash of the last block folded."""
        with self.store.read_transaction() as uow:
            at = uow.cursor.get()
        assert at is not None
        return at.number, at.hash

    def canonical_logs(self) -> list[tuple[str, int]]:
        """Return (block hash, log index) of every canonical log, in order."""
        with self.store.read_transaction() as uow:
            return [(log.block_hash, log.index) for log in uow.logs.iterate_between(0, 2**62)]

    def gaps(self) -> list[BlockRange]:
        """Return the block ranges up to the cursor that are not recorded as covered."""
        with self.store.read_transaction() as uow:
            scope = uow.coverage.get_current_scope()
            at = uow.cursor.get()
            if at is None:
                return []
            if scope is None:
                return [BlockRange(self.start_block, at.number)]
            return uow.coverage.list_gaps(scope.id, self.start_block, at.number)

    def digest(self) -> str:
        """The digest of the folded state."""
        with self.store.read_transaction() as uow:
            return uow.projections.compute_digest()


def limit_ranges(indexer: Indexer, blocks: int) -> Indexer:
    """Limit the ranges of an indexer to `blocks` blocks, as for an endpoint with this limit."""
    for endpoint in indexer.source.endpoints:
        sizer = RangeSizer(limit=blocks)
        endpoint.limits = LearnedLimits(
            sizer, is_loaded=True, stored_facts={"max_blocks": str(blocks)}
        )
    return indexer
