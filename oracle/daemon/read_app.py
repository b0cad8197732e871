"""The rooms that read: endpoints, database, reader and fold, put together from the settings."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Literal

from typing_extensions import override

from oracle.chain.contract_checks import NotTheContractError
from oracle.chain.feed.feed_client import FeedClient
from oracle.chain.log_filter import Filter
from oracle.chain.probe_schedule import Prober
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.segments.cluster_pool import ClusterPool
from oracle.chain.segments.order import SegmentPlan
from oracle.chain.segments.process_pool import ProcessPool, SegmentExecutor
from oracle.chain.segments.staging import SegmentStage
from oracle.chain.source import ChainSource
from oracle.chain.verification.calibration import Calibration
from oracle.daemon.books import Books
from oracle.daemon.compose import open_reader
from oracle.daemon.config.chain_section import stage_of, worker_count
from oracle.daemon.config.dispatch_section import dispatch_settings
from oracle.daemon.config.oracle_section import report_settings
from oracle.daemon.config.section_values import feed_client, probe_settings
from oracle.daemon.config.verify_section import policy_of
from oracle.daemon.endpoints.capability_cache import CapabilityCache
from oracle.daemon.wall_clock import unix_seconds
from oracle.dispatch.assigner import DrawHook, check_dispatch
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.probe_settings import ProbeSettings
from oracle.dispatch.probe_windows import ProbeWindowHook
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.report import ReportSettings, rules_id
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


class ReadApp(Books):
    """Every room that no key is needed for; use it in a `with`, which closes what was opened."""

    @cached_property
    def report_settings(self) -> ReportSettings:
        """The numbers of `[oracle]`; the kickout line is the rules' own, as a QoS."""
        return report_settings(self.config.oracle, self.rules)

    @cached_property
    def rules_hash(self) -> Hash:
        """What the contract must hold as its `rulesHash` before this daemon publishes."""
        return rules_id(self.rules, self.reader.identity, self.report_settings)

    @cached_property
    def reader(self) -> EventReader:
        """What turns logs into events, and a feed's rows beside them. Asks no endpoint."""
        return open_reader(self.config)

    def feed_client(self, name: Literal["url", "compare_url"]) -> FeedClient | None:
        """Return what asks a feed of `[feed]`; None: it is not configured."""
        client = feed_client(self.config.feed, name)
        if client is not None:
            self._opened.callback(client.close)
        return client

    @cached_property
    def source(self) -> ChainSource:
        """The endpoints, before any is asked."""
        told = self.config.chain
        most = told.most_answer_mib * 2**20
        pool = EndpointPool.open(told.endpoints, told.id, max_bytes=most, providers=told.providers)
        source = ChainSource(
            pool,
            self.reader,
            told.finality_depth,
            finality_seconds=told.finality_seconds,
        )
        source.prove_by(policy_of(self.config.verify), Calibration(keeper=self.facts))
        self._prepare_elsewhere(source)
        if told.checkpoint_block is not None and told.checkpoint_hash is not None:
            source.hold(
                told.checkpoint_block, Hash(told.checkpoint_hash), "[chain] checkpoint_hash"
            )
        self._opened.callback(source.close)
        self._recall_quarantine(source, self.__dict__.get("store"))
        return source

    @contextmanager
    def fresh_endpoints(self) -> Iterator[EndpointPool]:
        """Endpoints for who looks once, of which nothing is held but what was proven of them.

        So each is asked, and says itself why it does not answer; who was proven wrong is not.
        """
        told = self.config.chain
        opened = EndpointPool.open(told.endpoints, told.id, providers=told.providers)
        with closing(opened) as pool:
            pool.listed.recall(self.source.proven_wrong())
            yield pool

    def _prepare_elsewhere(self, source: ChainSource) -> None:
        """Give history to workers, where the settings say so."""
        told = self.config.history
        workers = worker_count(told)
        if not workers:
            return
        pool = self._segment_executor(workers)
        folder = stage_of(told, self.config.database.url)
        stage = None if folder is None else SegmentStage(folder, pool.plan.id)
        source.prepare_on(pool, stage=stage)

    def verify_by(self, workers: int) -> None:
        """Have blocks read again by so many workers, whatever the settings say of history."""
        self.source.prepare_on(self._segment_executor(workers))

    def _segment_executor(self, workers: int) -> SegmentExecutor:
        plan, scheduler = self._segment_plan(), self.config.history.scheduler
        if scheduler is not None:
            return ClusterPool(plan, scheduler, workers)
        return ProcessPool(plan, self.config.chain.endpoints, workers)

    def _segment_plan(self) -> SegmentPlan:
        """Return how workers are to read history."""
        network, policy = self.config.network, policy_of(self.config.verify)
        return SegmentPlan(
            chain_id=self.config.chain.id,
            profile=network.profile,
            contracts=dict(network.contracts),
            oracle=self.config.oracle.address,
            options=dict(network.options),
            # They read the chain alone: a feed is beside it.
            identity=self.reader.profile.identity,
            history=int(policy.history),
            receipts=policy.receipts,
            every_header=policy.every_header,
            most_bytes=self.config.chain.most_answer_mib * 2**20,
        )

    def recall_quarantine(self) -> None:
        """Take up who was proven wrong, as another process may have written it down since."""
        self._recall_quarantine(self.source, self.__dict__.get("store"))

    def _recall_quarantine(self, source: ChainSource, store: Store | None) -> None:
        if store is not None:
            with store.reading() as uow:
                wrong = uow.facts.quarantine.reasons()
            source.endpoints.listed.recall(wrong)

    @cached_property
    def facts(self) -> CapabilityCache:
        """What was learned of the endpoints, kept in the database once that is open."""
        return CapabilityCache(lambda: self.__dict__.get("store"), unix_seconds)

    @cached_property
    def prober(self) -> Prober:
        """What looks at every endpoint once an hour."""
        wanted = Filter(frozenset(self.reader.addresses), frozenset(self.reader.topics))
        first = self.config.chain.start_block
        return Prober(self.source.endpoints, wanted, first, self.facts)

    @cached_property
    def chain(self) -> ChainSource:
        """The chain behind the endpoints.

        Raises:
            TransientError: none answers, or one that was read before seems to be gone.
            InputError: it is another chain than `chain.id` says, or an address holds no contract.
        """
        try:
            self.source.check()
        except NotTheContractError as error:
            if self._were_read_before():
                raise TransientError(f"{error}; it was there before") from error
            raise
        return self.source

    def _were_read_before(self) -> bool:
        """Tell whether the database, where it is open, was written from these very contracts."""
        store: Store | None = self.__dict__.get("store")
        if store is None:
            return False
        with store.reading() as uow:
            known = uow.identity.get()
        told = self.config
        return known is not None and (known.contracts, known.oracle) == (
            {name: Address(address) for name, address in told.network.contracts.items()},
            Address(told.oracle.address) if told.oracle.address else None,
        )

    def require_chain(self) -> None:
        """Raise what `chain` raises, for who only wants to know that it is there."""
        _ = self.chain

    @cached_property
    def folder(self) -> Folder:
        """The fold over the store, with its working set."""
        return Folder(self.rules, self.reader, self._block_hooks())

    @cached_property
    def dispatch_settings(self) -> DispatchSettings | None:
        """The numbers of `[dispatch]`; None where nobody is drawn."""
        return dispatch_settings(self.config.dispatch, self.rules)

    @cached_property
    def probe_settings(self) -> ProbeSettings | None:
        """The numbers of `[probing]`; None where there are no system tasks."""
        return probe_settings(self.config.probing)

    def identify(self) -> None:
        """Write down what the database is about, or check that it is about the same.

        Raises:
            InputError: the database belongs to another chain, contract or start block, or was
                folded by other rules or with another length of period.
        """
        identity = self._identity()
        with self.store.transaction() as uow:
            uow.identity.set(identity)
            check_rules(uow, self.rules)
            check_period(uow, self.report_settings.period_seconds)
            if self.dispatch_settings is not None:
                check_dispatch(uow, self.dispatch_settings)
        self.source.hold(0, identity.genesis_hash, "the database")

    def check_identity(self) -> None:
        """Check what is written down, for who writes nothing. Raises InputError: as `identify`."""
        identity = self._identity()
        with self.store.reading() as uow:
            uow.identity.check(identity)
            refuse_other_rules(uow, self.rules)

    def _identity(self) -> Identity:
        told = self.config
        with self.store.reading() as uow:
            known = uow.identity.get()
        return Identity(
            chain_id=told.chain.id,
            genesis_hash=self.chain.genesis_hash(None if known is None else known.genesis_hash),
            contracts={name: Address(address) for name, address in told.network.contracts.items()},
            oracle=Address(told.oracle.address) if told.oracle.address else None,
            start_block=told.chain.start_block,
        )

    def _block_hooks(self) -> Iterator[BlockHook]:
        """Yield them in the order of being called: a report is cut before a node is drawn."""
        told = self.config.oracle
        if self.config.feed.url is not None:
            yield FeedHook(self.config.chain.start_block)
        if told.address is not None:
            settings, window = self.report_settings, told.anchor_window
            yield ReportCutter(self.rules, settings, anchor_window=window)
        yield DrawHook(self.dispatch_settings, self.reader)
        yield ProbeWindowHook(self.probe_settings)
        yield KickoutHook()

    @override
    def _open_store(self, *, create: bool) -> Store:
        store = super()._open_store(create=create)
        if "source" in self.__dict__:
            self._recall_quarantine(self.source, store)
        return store
