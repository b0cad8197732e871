"""A daemon's indexing half for tests: one database and one scripted chain, with restarts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Hash
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.rules import Rules
from oracle.indexer.folder import EventFolder
from oracle.indexer.loop import IngestResult, IngestState, ingest_next_window
from oracle.reporting.report_cutter import ReportCutter
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.store.identity import Identity
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.scripted import NETWORK, ORACLE, Event, ScriptedChain, ScriptedReader

# Pools fill and kickouts become due within a short history, in which one creator orders all tasks.
RULES = replace(
    CRYNUX, name="test", pool_size=4, kickout_below=4 * UNIT, kick_creator_share=UNIT
)  # fmt: skip
SETTINGS = ReportSettings(period_seconds=60, heartbeat_seconds=600, ttl_seconds=300)
ANCHOR_WINDOW = 24
DOMAIN = Domain(31337, ORACLE)


def folder(rules: Rules = RULES, *, reports: bool = True) -> EventFolder:
    """Return the folder of a new process."""
    reader = ScriptedReader()
    cutter = ReportCutter(reader, rules, SETTINGS, DOMAIN, anchor_window=ANCHOR_WINDOW)
    return EventFolder(rules, reader, [cutter] if reports else [])


@dataclass
class Follower:
    """Follows `chain` into `store`, in windows of up to `max_blocks` blocks."""

    chain: ScriptedChain
    store: Store
    start_block: int = 0
    max_blocks: int = 1000
    folder: EventFolder = field(default_factory=folder)
    ingest: IngestState = field(default_factory=IngestState)

    def __post_init__(self) -> None:
        with self.store.transaction() as uow:
            genesis = self.chain.blocks[0].ref.hash
            contracts = {"TaskNetwork": NETWORK}
            uow.identity.ensure_stored_identity(
                Identity(DOMAIN.chain_id, genesis, contracts, ORACLE, self.start_block)
            )

    def step(self) -> IngestResult | None:
        self.ingest.max_blocks = self.max_blocks
        return ingest_next_window(self.chain, self.store, self.folder, self.ingest)

    def catch_up(self, *, restarting: bool = False) -> list[IngestResult]:
        """Run steps until nothing is left; `restarting` uses a new process for each step."""
        done: list[IngestResult] = []
        while (result := self.step()) is not None:
            done.append(result)
            if restarting:
                self.restart()
        return done

    def restart(self) -> None:
        """Continue as another process would, with nothing but the database."""
        self.folder.discard_cached_rows()
        self.folder = folder(self.folder.rules, reports=bool(self.folder.hooks))
        self.ingest = IngestState()

    def dump(self) -> list[str]:
        """Return all projections, the cursor without its epoch, and the canonical raw rows."""
        with self.store.read_transaction() as uow:
            cursor = uow.cursor.get()
            where = "no cursor" if cursor is None else f"{cursor.number} {cursor.hash}"
            logs = [f"{log.block_hash} {log.index}" for log in uow.logs.iterate_between(0, 10**9)]
            calls = [f"{call.tx_hash}" for call in uow.calls.iterate_between(0, 10**9)]
            return [*uow.projections.iterate_dump_lines(), where, *logs, *calls]

    def reports(self) -> tuple[int, dict[int, Hash]]:
        """Return the first period after which no report is missing, and the reports since then."""
        with self.store.read_transaction() as uow:
            since = uow.reports.get_first_complete_period()
            fingerprint_by_period = {
                stored_report.report.period: stored_report.report.fingerprint
                for stored_report in uow.reports.list_newest(1000)
            }
        return since, {
            period: fingerprint_by_period[period]
            for period in fingerprint_by_period
            if period >= since
        }


def mine_blocks(
    blocks: Sequence[Sequence[Event]], chain: ScriptedChain | None = None
) -> ScriptedChain:
    """Mine these blocks on a chain, by default a new one, and return the chain."""
    chain = chain or ScriptedChain()
    for events in blocks:
        chain.mine(*events)
    return chain
