"""Builds the parts that read the chain and fold it from the settings; needs no key.

Opening contacts no endpoint. `check_chain` does, and must be called before the chain is read.
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
    """The records with the chain that they come from, and the folder between both.

    `endpoint_facts` caches what was learned about the endpoints of `chain`.
    """

    reader: EventReader
    chain: ChainSource
    facts: CapabilityCache
    folder: Folder


def rules_hash(config: Config, reader: EventReader) -> Hash:
    """Return the `rulesHash` that the contract must have before anything is sent to it."""
    rules = configured_rules(config)
    return rules_id(rules, reader.identity, report_settings(config.oracle, rules))


def open_reader(config: Config) -> EventReader:
    """Return the reader that turns logs and a feed's rows into events; contacts no endpoint.

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
    """Open the endpoints and the folder over these records; contacts no endpoint.

    Raises:
        InputError: as `open_reader`, or the address of an endpoint is invalid.
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
    """Open the endpoints; contacts none of them.

    `endpoint_facts` is the database's cache, with the endpoints that were proven wrong; None:
    there is no database, or the caller needs none.
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
    """Check that the endpoints serve the configured chain, and return the chain.

    Raises:
        TransientError: no endpoint answers, or a contract that `store` was indexed from is missing
            now.
        InputError: the chain's id is not `chain.id`, or an address holds no contract.
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
    """Open the endpoints without a database, and check that they serve the configured chain.

    Raises:
        InputError: as `open_reader` and `check_chain`.
        TransientError: no endpoint answers.
    """
    with open_chain(config, open_reader(config)) as chain:
        yield check_chain(config, chain)


def check_chain_of(index: Index) -> ChainSource:
    """Check the endpoints of an index as `check_chain` does, and return its chain."""
    return check_chain(index.config, index.chain, index.store)


def _was_read_from(config: Config, store: Store) -> bool:
    """Return whether the database was indexed from the configured contracts."""
    with store.reading() as uow:
        known = uow.identity.get()
    return known is not None and (known.contracts, known.oracle) == _contracts_of(config)


def _contracts_of(config: Config) -> tuple[dict[str, Address], Address | None]:
    contracts = {name: Address(at) for name, at in config.network.contracts.items()}
    return contracts, Address(config.oracle.address) if config.oracle.address else None


def recall_quarantine(chain: ChainSource, store: Store | None) -> None:
    """Exclude the endpoints that the database lists as proven wrong, by any process."""
    if store is not None:
        with store.reading() as uow:
            wrong = uow.facts.quarantine.reasons()
        chain.endpoints.listed.recall(wrong)


@contextmanager
def fresh_endpoints(config: Config, chain: ChainSource) -> Iterator[EndpointPool]:
    """Open new endpoints for a single check, without their history but their quarantine.

    Each endpoint is contacted and reports its own errors; endpoints proven wrong are excluded.
    """
    settings = config.chain
    opened = EndpointPool.open(settings.endpoints, settings.id, providers=settings.providers)
    with closing(opened) as pool:
        pool.listed.recall(chain.proven_wrong())
        yield pool


def open_prober(index: Index, patience: float | None) -> Prober:
    """Return the prober that probes every endpoint once an hour.

    `max_wait_seconds` limits how long a tick waits for an answer; None: until the answer arrives.
    """
    start_block = index.config.chain.start_block
    prober = Prober(index.chain.endpoints, wanted_logs(index.reader), start_block, index.facts)
    prober.background_call.wait_seconds = patience
    return prober


def wanted_logs(reader: EventReader) -> Filter:
    """Return the filter of the logs that the reader decodes."""
    return Filter(frozenset(reader.addresses), frozenset(reader.topics))


def read_by_workers(index: Index, workers: int) -> None:
    """Let this number of workers read blocks, whatever `[history]` configures."""
    index.chain.prepare_on(_segment_executor(index.config, index.reader, workers))


def _read_history_elsewhere(config: Config, reader: EventReader, chain: ChainSource) -> None:
    """Let workers read history if the settings configure workers."""
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
    """Return the plan by which workers read history."""
    network, policy = config.network, policy_of(config.verify)
    return SegmentPlan(
        chain_id=config.chain.id,
        profile=network.profile,
        contracts=dict(network.contracts),
        oracle=config.oracle.address,
        options=dict(network.options),
        # Workers read the chain only, without the feed.
        identity=reader.profile.identity,
        history=int(policy.history),
        receipts=policy.receipts,
        every_header=policy.every_header,
        most_bytes=config.chain.max_response_mib * 2**20,
    )


def _block_hooks(records: Records, reader: EventReader) -> Iterator[BlockHook]:
    """Yield the block hooks in calling order: a report is cut before a node is drawn."""
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
    """Store the database's identity, or check that the stored identity is the same.

    Raises:
        InputError: the database belongs to another chain, contract or start block, or was folded
            with other rules or another period length.
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
    """Check the database's identity; writes nothing.

    Raises:
        InputError: as `store_or_check_identity`, except for the period length.
    """
    identity = _identity_of(index)
    with index.store.reading() as uow:
        uow.identity.check(identity)
        refuse_other_rules(uow, index.rules)


def _identity_of(index: Index) -> Identity:
    """Return the database identity that follows from the settings and the chain."""
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
