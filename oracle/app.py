"""Puts the floors together from one configuration; the only module that knows every room.

A room is opened when it is first asked for.
"""

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Self

from oracle.chain.reader import Reader
from oracle.chain.source import Source
from oracle.config import Config
from oracle.domain.ids import Address, Hash
from oracle.domain.report import ReportSettings, rules_id
from oracle.domain.rules import Rules, rules_named
from oracle.errors import InputError
from oracle.services.folding import Folder
from oracle.services.reporting import Reporter
from oracle.store.identity import Identity
from oracle.store.store import Store

# QoS in steps of 0.0001, as the contract counts it.
_QOS_STEPS = 10_000


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
        """The rule set of `[rules]`. Raises InputError: there is none of that name."""
        wanted = self.config.rules
        try:
            rules = rules_named(wanted.set)
        except ValueError as error:
            raise InputError(f"rules.set: {error}") from error
        return rules if wanted.close is None else replace(rules, close=wanted.close)

    @cached_property
    def report_settings(self) -> ReportSettings:
        """The numbers of `[oracle]`; the kickout line is the rules' own, as a QoS."""
        told, rules = self.config.oracle, self.rules
        return ReportSettings(
            period_seconds=told.period_seconds,
            heartbeat_seconds=told.heartbeat_seconds,
            deviation=told.deviation,
            ttl_seconds=told.report_ttl_seconds,
            kick_below=rules.kickout_below * _QOS_STEPS // rules.q_max,
        )

    @cached_property
    def rules_hash(self) -> Hash:
        """What the contract must hold as its `rulesHash` before this daemon publishes."""
        return rules_id(self.rules, self.config.network.profile, self.report_settings)

    @cached_property
    def store(self) -> Store:
        """The database, with a schema that fits the code. Raises InputError otherwise."""
        return self._open_store(create=False)

    def create_store(self) -> Store:
        """Open the database and make its tables where it is empty."""
        self.__dict__.setdefault("store", self._open_store(create=True))
        return self.store

    @cached_property
    def reader(self) -> Reader:
        """What turns logs into events, for `[network]` and `[oracle]`. Asks no endpoint."""
        network = self.config.network
        return Reader.open(network.profile, network.contracts, self.config.oracle.address)

    @cached_property
    def chain(self) -> Source:
        """The chain behind the endpoints.

        Raises:
            InputError: none answers, it is another chain than `chain.id` says, or an address
                holds no contract.
        """
        told = self.config.chain
        source = Source.open(
            told.endpoints,
            chain_id=told.id,
            finality_depth=told.finality_depth,
            reader=self.reader,
        )
        self._opened.callback(source.close)
        source.check()
        return source

    @cached_property
    def folder(self) -> Folder:
        """The fold over the store, with its working set."""
        return Folder(self.rules, self.reader, self._reporter())

    def identify(self) -> None:
        """Write down what the database is about, or check that it is about the same.

        Raises:
            InputError: the database belongs to another chain, contract or start block.
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

    def _reporter(self) -> Reporter | None:
        told = self.config.oracle
        if told.address is None:
            return None
        return Reporter(self.rules, self.report_settings, anchor_window=told.anchor_window)

    def _open_store(self, *, create: bool) -> Store:
        store = Store.open(self.config.database.url, create=create)
        self._opened.callback(store.close)
        return store
