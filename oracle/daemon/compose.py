"""Puts together what reads the chain and folds it, from the settings; nothing here needs a key.

Opening asks no endpoint. `check_chain` does, and who reads from the chain calls it first.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from oracle.chain.contract_checks import NotTheContractError
from oracle.chain.log_filter import Filter
from oracle.chain.probe_schedule import Prober
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.segments.cluster_pool import ClusterPool
from oracle.chain.segments.order import SegmentPlan
from oracle.chain.segments.process_pool import ProcessPool, SegmentExecutor
from oracle.chain.segments.staging import SegmentStage
from oracle.chain.source import ChainSource
from oracle.chain.verification.calibration import Calibration
from oracle.daemon.config.chain_section import stage_of, worker_count
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import report_settings
from oracle.daemon.config.section_values import feed_reader, probe_settings
from oracle.daemon.config.verify_section import policy_of
from oracle.daemon.endpoints.capability_cache import CapabilityCache
from oracle.daemon.records import Records, configured_rules
from oracle.daemon.wall_clock import unix_seconds
from oracle.dispatch.assigner import DrawHook, check_dispatch
from oracle.dispatch.probe_windows import ProbeWindowHook
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.report import rules_id
from oracle.errors import TransientError
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.feeds.feed_events import FeedHook
from oracle.indexer.folder import Folder
from oracle.indexer.rules_binding import check_period, check_rules, refuse_other_rules
from oracle.kickouts.kickout_hook import KickoutHook
from oracle.reporting.report_cutter import ReportCutter
from oracle.rpc.pool import EndpointPool
from oracle.store.database import Store
from oracle.store.ops.identity import Identity


@dataclass(frozen=True, slots=True)
class Index(Records):
    """The records with the chain that they come from, and the fold between the two.

    `facts` is what was learned of the endpoints of `chain`.
    """

    reader: EventReader
    chain: ChainSource
    facts: CapabilityCache
    folder: Folder


def rules_hash(config: Config, reader: EventReader) -> Hash:
    """Return what the contract must hold as its `rulesHash` before anything is sent to it."""
    rules = configured_rules(config)
    return rules_id(rules, reader.identity, report_settings(config.oracle, rules))


def open_reader(config: Config) -> EventReader:
    """Return what turns logs into events, and a feed's rows beside them; asks no endpoint.

    Raises:
        InputError: the profile of `[network]` cannot be read, or a contract is missing.
    """
    network = config.network
    reader = EventReader.open(
        network.profile, network.contracts, config.oracle.address, network.options
    )
    return reader if config.feed.url is None else reader.beside(feed_reader(reader.profile))


@contextmanager
def open_index(records: Records) -> Iterator[Index]:
    """Open the endpoints and the fold over these records; asks no endpoint.

    Raises:
        InputError: as `open_reader`, or an endpoint's address cannot be used.
    """
    config, rules, store = records.config, records.rules, records.store
    reader, facts = open_reader(config), CapabilityCache(store, unix_seconds)
    folder = Folder(rules, reader, _block_hooks(records, reader))
    with open_chain(config, reader, facts) as chain:
        yield Index(config, rules, store, reader, chain, facts, folder)


@contextmanager
def open_chain(
    config: Config, reader: EventReader, facts: CapabilityCache | None = None
) -> Iterator[ChainSource]:
    """Open the endpoints; asks none of them.

    `facts` are those of the database, with the endpoints that were proven wrong; None: there is
    no database, or none that the caller needs.
    """
    facts, settings = facts or CapabilityCache(None, unix_seconds), config.chain
    max_bytes = settings.max_response_mib * 2**20
    pool = EndpointPool.open(
        settings.endpoints, settings.id, max_bytes=max_bytes, providers=settings.providers
    )
    with closing(
        ChainSource(
            pool, reader, settings.finality_depth, finality_seconds=settings.finality_seconds
        )
    ) as chain:
        chain.prove_by(policy_of(config.verify), Calibration(keeper=facts))
        _read_history_elsewhere(config, reader, chain)
        if settings.checkpoint_block is not None and settings.checkpoint_hash is not None:
            checkpoint = Hash(settings.checkpoint_hash)
            chain.hold(settings.checkpoint_block, checkpoint, "[chain] checkpoint_hash")
        recall_quarantine(chain, facts.store)
        yield chain


def check_chain(config: Config, chain: ChainSource, store: Store | None = None) -> ChainSource:
    """Ask the endpoints whether they are of the configured chain, and return the chain.

    Raises:
        TransientError: none answers, or one that `store` was read from seems to be gone.
        InputError: it is another chain than `chain.id` says, or an address holds no contract.
    """
    try:
        chain.check()
    except NotTheContractError as error:
        if store is not None and _was_read_from(config, store):
            raise TransientError(f"{error}; it was there before") from error
        raise
    return chain


@contextmanager
def open_checked_chain(config: Config) -> Iterator[ChainSource]:
    """Open the endpoints without a database, and ask whether they are of the right chain.

    Raises:
        InputError: as `open_reader` and `check_chain`.
        TransientError: no endpoint answers.
    """
    with open_chain(config, open_reader(config)) as chain:
        yield check_chain(config, chain)


def check_chain_of(index: Index) -> ChainSource:
    """Ask the endpoints of an index, as `check_chain`, and return its chain."""
    return check_chain(index.config, index.chain, index.store)


def _was_read_from(config: Config, store: Store) -> bool:
    """Return whether the database was written from the configured contracts."""
    with store.reading() as uow:
        known = uow.identity.get()
    return known is not None and (known.contracts, known.oracle) == _contracts_of(config)


def _contracts_of(config: Config) -> tuple[dict[str, Address], Address | None]:
    contracts = {name: Address(at) for name, at in config.network.contracts.items()}
    return contracts, Address(config.oracle.address) if config.oracle.address else None


def recall_quarantine(chain: ChainSource, store: Store | None) -> None:
    """Exclude the endpoints that the database names as proven wrong, by whichever process."""
    if store is not None:
        with store.reading() as uow:
            wrong = uow.facts.quarantine.reasons()
        chain.endpoints.listed.recall(wrong)


@contextmanager
def fresh_endpoints(config: Config, chain: ChainSource) -> Iterator[EndpointPool]:
    """Open endpoints for a single look, without what is held of them but what was proven.

    So each is asked, and says itself why it does not answer; who was proven wrong is not.
    """
    settings = config.chain
    opened = EndpointPool.open(settings.endpoints, settings.id, providers=settings.providers)
    with closing(opened) as pool:
        pool.listed.recall(chain.proven_wrong())
        yield pool


def open_prober(index: Index, patience: float | None) -> Prober:
    """Return what looks at every endpoint once an hour.

    `patience`: how many seconds a tick waits for an answer; None: until it is there.
    """
    start_block = index.config.chain.start_block
    prober = Prober(index.chain.endpoints, wanted_logs(index.reader), start_block, index.facts)
    prober.background_call.wait_seconds = patience
    return prober


def wanted_logs(reader: EventReader) -> Filter:
    """Return the filter of the logs that the reader reads."""
    return Filter(frozenset(reader.addresses), frozenset(reader.topics))


def read_by_workers(index: Index, workers: int) -> None:
    """Have blocks read by so many workers, whatever the settings say of history."""
    index.chain.prepare_on(_segment_executor(index.config, index.reader, workers))


def _read_history_elsewhere(config: Config, reader: EventReader, chain: ChainSource) -> None:
    """Give history to workers, where the settings say so."""
    workers = worker_count(config.history)
    if not workers:
        return
    executor = _segment_executor(config, reader, workers)
    folder = stage_of(config.history, config.database.url)
    stage = None if folder is None else SegmentStage(folder, executor.plan.id)
    chain.prepare_on(executor, stage=stage)


def _segment_executor(config: Config, reader: EventReader, workers: int) -> SegmentExecutor:
    plan, scheduler = _segment_plan(config, reader), config.history.scheduler
    if scheduler is not None:
        return ClusterPool(plan, scheduler, workers)
    return ProcessPool(plan, config.chain.endpoints, workers)


def _segment_plan(config: Config, reader: EventReader) -> SegmentPlan:
    """Return how workers are to read history."""
    network, policy = config.network, policy_of(config.verify)
    return SegmentPlan(
        chain_id=config.chain.id,
        profile=network.profile,
        contracts=dict(network.contracts),
        oracle=config.oracle.address,
        options=dict(network.options),
        # Workers read the chain alone: a feed is beside it.
        identity=reader.profile.identity,
        history=int(policy.history),
        receipts=policy.receipts,
        every_header=policy.every_header,
        most_bytes=config.chain.max_response_mib * 2**20,
    )


def _block_hooks(records: Records, reader: EventReader) -> Iterator[BlockHook]:
    """Yield them in the order of being called: a report is cut before a node is drawn."""
    config, oracle = records.config, records.config.oracle
    if config.feed.url is not None:
        yield FeedHook(config.chain.start_block)
    if oracle.address is not None:
        yield ReportCutter(
            records.rules, records.report_settings, anchor_window=oracle.anchor_window
        )
    yield DrawHook(records.dispatch_settings, reader)
    yield ProbeWindowHook(probe_settings(config.probing))
    yield KickoutHook()


def identify(index: Index) -> None:
    """Write down what the database is about, or check that it is about the same.

    Raises:
        InputError: the database belongs to another chain, contract or start block, or was
            folded by other rules or with another length of period.
    """
    identity, dispatch = _identity_of(index), index.dispatch_settings
    with index.store.transaction() as uow:
        uow.identity.set(identity)
        check_rules(uow, index.rules)
        check_period(uow, index.report_settings.period_seconds)
        if dispatch is not None:
            check_dispatch(uow, dispatch)
    index.chain.hold(0, identity.genesis_hash, "the database")


def check_identity(index: Index) -> None:
    """Check what the database is about, and write nothing.

    Raises:
        InputError: as `identify`, but for the length of a period.
    """
    identity = _identity_of(index)
    with index.store.reading() as uow:
        uow.identity.check(identity)
        refuse_other_rules(uow, index.rules)


def _identity_of(index: Index) -> Identity:
    """Return what the settings and the chain say that the database is about."""
    config = index.config
    with index.store.reading() as uow:
        known = uow.identity.get()
    contracts, oracle = _contracts_of(config)
    return Identity(
        chain_id=config.chain.id,
        genesis_hash=index.chain.genesis_hash(None if known is None else known.genesis_hash),
        contracts=contracts,
        oracle=oracle,
        start_block=config.chain.start_block,
    )
