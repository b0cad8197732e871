"""Builds the components that read and fold the chain from the settings, without any keys.

No endpoint is contacted when a component is opened. `get_checked_chain` contacts the endpoints,
and must be called before the chain is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from oracle import __version__
from oracle.bindings.probe_calls import ProbeOrder
from oracle.chain.probe_schedule import EndpointProber
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.segments.cluster_pool import ClusterPool
from oracle.chain.segments.process_pool import ProcessPool, SegmentExecutor
from oracle.chain.segments.segment_request import SegmentPlan
from oracle.chain.segments.staging import SegmentStage
from oracle.chain.source import ChainSource
from oracle.daemon.chain_endpoints import (
    CapabilityCache,
    build_log_filter,
    check_chain,
    open_chain,
)
from oracle.daemon.config.chain_section import (
    build_verification_policy,
    resolve_stage_folder,
    resolve_worker_count,
)
from oracle.daemon.config.dispatch_section import ProbingSection
from oracle.daemon.config.loader import Config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import Records, build_configured_rules, get_configured_contracts
from oracle.daemon.wall_clock import unix_seconds
from oracle.dispatch.assigner import DrawHook, bind_or_check_dispatch_settings
from oracle.dispatch.probe_wants import ProbeSettings, ProbeWindowHook
from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.report import format_rules_id, hash_rules_and_settings
from oracle.indexer.block_hooks import BlockHook
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.feed_events import FeedHook
from oracle.indexer.folder import EventFolder
from oracle.indexer.rules_binding import (
    bind_or_check_period,
    bind_or_check_rules,
    check_bound_rules,
    clear_rules_switch,
)
from oracle.kickouts.kick_calls import KickoutHook
from oracle.reporting.report_cutter import ReportCutter
from oracle.signing.typed_data import Domain
from oracle.store.bookmarks import PROGRAM_VERSION
from oracle.store.identity import Identity


@dataclass(frozen=True, slots=True)
class Index(Records):
    """The settings and the database of `Records`, with a chain source and an event folder.

    `endpoint_facts` caches what was learned about the endpoints of `chain` by probes and requests.
    """

    reader: EventReader
    chain: ChainSource
    endpoint_facts: CapabilityCache
    folder: EventFolder

    @property
    def archive(self) -> EventArchive:
        """The stored history, with the settings needed to use it."""
        terms = self.config.objections.terms
        return EventArchive(self.store, self.reader, self.rules, objection_terms=terms)


def compute_rules_hash(config: Config, reader: EventReader) -> Hash:
    """Compute the `rulesHash` that the contract must have before anything is sent to it."""
    rules = build_configured_rules(config)
    return hash_rules_and_settings(
        rules, reader.identity, build_report_settings(config.oracle, rules)
    )


def serialize_configured_rules(config: Config, reader: EventReader) -> str:
    """Return the rules text whose SHA-256 is the configured rules hash."""
    rules = build_configured_rules(config)
    return format_rules_id(rules, reader.identity, build_report_settings(config.oracle, rules))


@contextmanager
def open_index(records: Records) -> Iterator[Index]:
    """Build the chain source and the event folder for an open database.

    No endpoint is contacted.

    Raises:
        InputError: the reader cannot be opened (see `open_reader`), or an endpoint's address is
            invalid.
    """
    config, rules, store = records.config, records.rules, records.store
    reader = open_reader(config)
    endpoint_facts = CapabilityCache(store, unix_seconds)
    folder = EventFolder(rules, reader, _build_block_hooks(records, reader))
    with open_chain(config, reader, endpoint_facts) as chain:
        _configure_history_workers(config, reader, chain)
        try:
            yield Index(config, rules, store, reader, chain, endpoint_facts, folder)
        finally:
            # The block hooks discard their rows and stop their threads, which would otherwise read
            # a closed database.
            folder.discard_cached_rows()


def get_checked_chain(index: Index) -> ChainSource:
    """Check the endpoints of an index with `check_chain`, and return its chain source."""
    return check_chain(index.config, index.chain, index.store)


def open_endpoint_prober(index: Index, max_wait_seconds: float | None) -> EndpointProber:
    """Create the prober that probes every endpoint once an hour.

    A tick waits for an answer for at most `max_wait_seconds`, or without limit if it is None.
    """
    start_block = index.config.chain.start_block
    prober = EndpointProber(
        index.chain.endpoints, build_log_filter(index.reader), start_block, index.endpoint_facts
    )
    prober.background_call.wait_seconds = max_wait_seconds
    return prober


def set_segment_worker_count(index: Index, worker_count: int) -> None:
    """Set the number of workers that prepare segments, instead of the number in `[history]`."""
    index.chain.use_workers(_build_segment_executor(index.config, index.reader, worker_count))


def _configure_history_workers(config: Config, reader: EventReader, chain: ChainSource) -> None:
    """Let worker processes prepare the history if the settings configure workers."""
    workers = resolve_worker_count(config.history)
    if not workers:
        return
    executor = _build_segment_executor(config, reader, workers)
    folder = resolve_stage_folder(config.history, config.database.url)
    segment_stage = None if folder is None else SegmentStage(folder, executor.plan.id)
    chain.use_workers(executor, stage=segment_stage)


def _build_segment_executor(
    config: Config, reader: EventReader, worker_count: int
) -> SegmentExecutor:
    plan = _build_segment_plan(config, reader)
    scheduler = config.history.scheduler
    if scheduler is not None:
        return ClusterPool(plan, scheduler, worker_count)
    return ProcessPool(plan, config.chain.endpoints, worker_count)


def _build_segment_plan(config: Config, reader: EventReader) -> SegmentPlan:
    """Build the plan for preparing segments: chain, contracts and verification."""
    network = config.network
    policy = build_verification_policy(config.verify)
    return SegmentPlan(
        chain_id=config.chain.id,
        profile=network.profile,
        contracts=dict(network.contracts),
        oracle=config.oracle.address,
        objections=config.objections.address,
        options=dict(network.options),
        # Workers read only the chain, so the identity of the feed reader is left out.
        identity=reader.profile.identity,
        history=int(policy.history),
        receipts=policy.receipts,
        every_header=policy.every_header,
        most_bytes=config.chain.max_response_mib * 2**20,
        timelock=config.oracle.timelock,
    )


def build_probe_settings(probing: ProbingSection) -> ProbeSettings | None:
    """Return the settings of probe tasks, or None if probing is off.

    The section is valid.
    """
    if not probing.enabled or probing.fee_wei is None or probing.max_fee_per_window_wei is None:
        return None
    order = ProbeOrder(
        TaskKind(probing.kind),
        probing.models,
        probing.size,
        probing.timeout_seconds,
        probing.fee_wei,
    )
    return ProbeSettings(
        probing.window_seconds, probing.max_fee_per_window_wei, probing.group, order
    )


def _build_block_hooks(records: Records, reader: EventReader) -> Iterator[BlockHook]:
    """Yield the block hooks in calling order: reports are built before nodes are drawn."""
    config, oracle = records.config, records.config.oracle
    if config.feed.url is not None:
        yield FeedHook(config.chain.start_block)
    if oracle.address is not None:
        yield ReportCutter(
            reader,
            records.rules,
            records.report_settings,
            Domain(config.chain.id, Address(oracle.address)),
            anchor_window=oracle.anchor_window,
        )
    yield DrawHook(records.dispatch_settings, reader)
    yield ProbeWindowHook(build_probe_settings(config.probing))
    yield KickoutHook()


def store_or_check_database_identity(index: Index) -> None:
    """Store the database's identity, or check that it equals the stored identity.

    Raises:
        InputError: the database belongs to another chain, contract or start block, or was folded
            with other rules or another period length.
    """
    identity = _build_database_identity(index)
    dispatch = index.dispatch_settings
    with index.store.transaction() as uow:
        uow.identity.ensure_stored_identity(identity)
        uow.bookmarks.set(PROGRAM_VERSION, __version__)
        bind_or_check_rules(uow, index.rules)
        if index.config.rules.switched_rules is None:
            clear_rules_switch(uow)
        bind_or_check_period(uow, index.report_settings.period_seconds)
        if dispatch is not None:
            bind_or_check_dispatch_settings(uow, dispatch)
    index.chain.add_checkpoint(0, identity.genesis_hash, "the database")


def check_database_identity(index: Index) -> None:
    """Check the database's identity without storing it.

    Raises:
        InputError: see `store_or_check_database_identity`; the period length is not checked.
    """
    identity = _build_database_identity(index)
    with index.store.read_transaction() as uow:
        uow.identity.check(identity)
        check_bound_rules(uow, index.rules)


def _build_database_identity(index: Index) -> Identity:
    """Build the database identity from the settings and the chain."""
    config = index.config
    with index.store.read_transaction() as uow:
        stored_identity = uow.identity.get()
    contracts, oracle = get_configured_contracts(config)
    return Identity(
        chain_id=config.chain.id,
        genesis_hash=index.chain.fetch_genesis_hash(
            None if stored_identity is None else stored_identity.genesis_hash
        ),
        contracts=contracts,
        oracle=oracle,
        start_block=config.chain.start_block,
    )
