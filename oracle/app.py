"""Puts the floors together from one configuration; the only module that knows every room.

A room is opened when it is first asked for.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Self

from oracle.chain.reader import Reader
from oracle.chain.source import Source
from oracle.config import Config
from oracle.domain.ids import Address, Hash
from oracle.domain.lanes import kick_below_of
from oracle.domain.report import ReportSettings, rules_id
from oracle.domain.rules import Rules
from oracle.errors import InputError, TransientError
from oracle.publisher.fees import Caps
from oracle.publisher.inspection import Expected
from oracle.publisher.network import check_dispatcher
from oracle.publisher.publisher import KeyFiles, Keys, Publisher
from oracle.publisher.signer import Signer
from oracle.publisher.typed_data import Domain
from oracle.services.assigning import Assigner, check_dispatch
from oracle.services.desk import Desk
from oracle.services.dispatch_settings import DispatchSettings
from oracle.services.folding import Folder
from oracle.services.reporting import Reporter
from oracle.services.ruling import check_period, check_rules
from oracle.settings import dispatch_settings
from oracle.store.identity import Identity
from oracle.store.store import Store
from oracle.systems.registry import rule_set


class App:
    """Every room of one daemon; use it in a `with`, which closes what was opened."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every room that was opened, the last one first."""
        self._opened.close()

    @cached_property
    def rules(self) -> Rules:
        """The rule set of `[rules]`."""
        return rule_set(self.config.rules.set, self.config.rules.changes)

    @cached_property
    def report_settings(self) -> ReportSettings:
        """The numbers of `[oracle]`; the kickout line is the rules' own, as a QoS."""
        told = self.config.oracle
        return ReportSettings(
            period_seconds=told.period_seconds,
            heartbeat_seconds=told.heartbeat_seconds,
            deviation=told.deviation,
            ttl_seconds=told.report_ttl_seconds,
            kick_below=kick_below_of(self.rules),
        )

    @cached_property
    def rules_hash(self) -> Hash:
        """What the contract must hold as its `rulesHash` before this daemon publishes."""
        return rules_id(self.rules, self.config.network.profile, self.report_settings)

    @cached_property
    def store(self) -> Store:
        """The database, with a schema that fits the code. Raises InputError otherwise."""
        return self._open_store(create=False)

    def require_store(self) -> None:
        """Raise what `store` raises, for who only wants to know that it fits."""
        _ = self.store

    def create_store(self) -> Store:
        """Open the database and make its tables where it is empty."""
        if "store" not in self.__dict__:
            self.__dict__["store"] = self._open_store(create=True)
        return self.store

    def opened_store(self) -> Store:
        """Return the database, for who must not open it. Raises TransientError: not open yet."""
        store: Store | None = self.__dict__.get("store")
        if store is None:
            raise TransientError("is empty, and gets its tables when an endpoint answers")
        return store

    @cached_property
    def reader(self) -> Reader:
        """What turns logs into events, for `[network]` and `[oracle]`. Asks no endpoint."""
        network = self.config.network
        return Reader.open(network.profile, network.contracts, self.config.oracle.address)

    @cached_property
    def source(self) -> Source:
        """The endpoints, before any is asked."""
        told = self.config.chain
        source = Source.open(
            told.endpoints,
            chain_id=told.id,
            finality_depth=told.finality_depth,
            reader=self.reader,
        )
        self._opened.callback(source.close)
        return source

    @cached_property
    def chain(self) -> Source:
        """The chain behind the endpoints.

        Raises:
            InputError: none answers (NoneAnswersError), it is another chain than `chain.id` says,
                or an address holds no contract.
        """
        self.source.check()
        return self.source

    def require_chain(self) -> None:
        """Raise what `chain` raises, for who only wants to know that it is there."""
        _ = self.chain

    @cached_property
    def folder(self) -> Folder:
        """The fold over the store, with its working set."""
        settings = self.dispatch_settings
        assigner = None if settings is None else Assigner(settings)
        return Folder(self.rules, self.reader, self._reporter(), assigner)

    @cached_property
    def dispatch_settings(self) -> DispatchSettings | None:
        """The numbers of `[dispatch]`; None where nobody is drawn."""
        return dispatch_settings(self.config.dispatch, self.rules)

    @cached_property
    def oracle_address(self) -> Address:
        """The oracle contract's address. Raises InputError: none is configured."""
        if self.config.oracle.address is None:
            raise InputError("oracle.address: is missing; without it the daemon indexes only")
        return Address(self.config.oracle.address)

    def require_oracle(self) -> Address:
        """Return the same, for who only wants to know that there is one."""
        return self.oracle_address

    @cached_property
    def keys(self) -> Keys | None:
        """The two keys; None where the configuration names none.

        Raises:
            InputError: a file is missing, readable by others or no keystore, a password is wrong,
                or only one of the two keys is named.
        """
        told = self.config.keys
        signer = KeyFiles.of(told.signer_keystore, told.signer_password_file)
        transmitter = KeyFiles.of(told.transmitter_keystore, told.transmitter_password_file)
        if signer is None and transmitter is None:
            return None
        if signer is None or transmitter is None:
            raise InputError("keys: signer and transmitter are two keys; name both or none")
        return Keys.open(signer, transmitter)

    @cached_property
    def publisher(self) -> Publisher:
        """What looks, tries, signs and sends.

        Raises InputError: see `oracle_address`, `chain`, `keys`.
        """
        return self._publisher(self.oracle_address, self.keys)

    @cached_property
    def dispatcher(self) -> Signer | None:
        """The key that starts tasks, or None. Raises InputError: see `keys`."""
        told = self.config.keys
        files = KeyFiles.of(told.dispatcher_keystore, told.dispatcher_password_file)
        return None if files is None else Signer.open(*files)

    @cached_property
    def dispatch_publisher(self) -> Publisher:
        """The same for starts of tasks, at the network contract.

        Raises:
            InputError: see `chain`; `[dispatch]` or its key is missing, the key is one of the
                other two, or the network has another dispatcher.
        """
        if self.dispatch_settings is None:
            raise InputError("dispatch.start_block: is missing; without it nobody is drawn")
        if self.dispatcher is None:
            raise InputError("keys.dispatcher_keystore: is missing; without it nothing is started")
        if self.keys is not None:
            self.keys.check_other(self.dispatcher)
        network = Address(self.config.network.contracts["TaskNetwork"])
        publisher = self._publisher(network, self.dispatcher)
        check_dispatcher(publisher.lines, network, self.dispatcher.address)
        return publisher

    @property
    def expected(self) -> Expected:
        """What the contract must be like before this daemon publishes to it."""
        return Expected(
            network=Address(self.config.network.contracts["TaskNetwork"]),
            rules_hash=self.rules_hash,
            settings=self.report_settings,
            signer=self.keys.signer.address if self.keys else None,
            transmitter=self.keys.transmitter.address if self.keys else None,
            anchor_window=self.config.oracle.anchor_window,
        )

    def desk(self, epoch: int, clock: Callable[[], float]) -> Desk:
        """Return the publishing services' desk under a lease's epoch; `clock`: unix seconds."""
        return self._desk(self.publisher, epoch, clock)

    def dispatch_desk(self, epoch: int, clock: Callable[[], float]) -> Desk:
        """Return what the dispatching services work at; see `desk` and `dispatch_publisher`."""
        desk = self._desk(self.dispatch_publisher, epoch, clock)
        return replace(desk, dispatch=self.dispatch_settings)

    def identify(self) -> None:
        """Write down what the database is about, or check that it is about the same.

        Raises:
            InputError: the database belongs to another chain, contract or start block, or was
                folded by other rules or with another length of period.
        """
        told = self.config
        identity = Identity(
            chain_id=told.chain.id,
            genesis_hash=self.chain.genesis_hash(),
            contracts={name: Address(address) for name, address in told.network.contracts.items()},
            oracle=Address(told.oracle.address) if told.oracle.address else None,
            start_block=told.chain.start_block,
        )
        with self.store.transaction() as unit:
            unit.identity.set(identity)
            check_rules(unit, self.rules)
            check_period(unit, self.report_settings.period_seconds)
            if self.dispatch_settings is not None:
                check_dispatch(unit, self.dispatch_settings)

    def _desk(self, publisher: Publisher, epoch: int, clock: Callable[[], float]) -> Desk:
        told = self.config
        return Desk(
            store=self.store,
            publisher=publisher,
            rules=self.rules,
            rules_hash=self.rules_hash,
            settings=self.report_settings,
            epoch=epoch,
            clock=clock,
            confirmations=told.limits.confirmations,
            level=told.oracle.level,
            evidence_folder=told.oracle.evidence_folder,
        )

    def _publisher(self, contract: Address, keys: Keys | Signer | None) -> Publisher:
        told = self.config
        publisher = Publisher(
            told.chain.endpoints,
            # Of the chain that was looked at: nothing is signed for one and sent to another.
            domain=Domain(self.chain.chain_id(), contract),
            caps=Caps(
                fee_per_gas=told.limits.max_fee_per_gas_wei,
                cost_per_transaction=told.limits.max_cost_per_transaction_wei,
                cost_per_day=told.limits.max_cost_per_day_wei,
            ),
            keys=keys,
        )
        self._opened.callback(publisher.close)
        return publisher

    def _reporter(self) -> Reporter | None:
        told = self.config.oracle
        if told.address is None:
            return None
        return Reporter(self.rules, self.report_settings, anchor_window=told.anchor_window)

    def _open_store(self, *, create: bool) -> Store:
        store = Store.open(self.config.database.url, create=create)
        self._opened.callback(store.close)
        return store
