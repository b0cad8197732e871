"""Puts the floors together from one configuration; the only room that knows every other.

A room is opened when it is first asked for.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from oracle.bindings.inspection import Expected
from oracle.bindings.task_network import check_dispatcher
from oracle.daemon.config.keys_section import Role
from oracle.daemon.read_app import ReadApp
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.rebuild import RebuildOptions
from oracle.kickouts.proof import EvidenceVerifier
from oracle.quorum.board import Board
from oracle.quorum.peer_client import PeerClients
from oracle.signing.factory import open_signer
from oracle.signing.keystore import address_in
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import ReporterKeys, SenderAccount
from oracle.txmgr.client.fee_quote import SendLimits
from oracle.txmgr.client.l1_fees import L1Fee
from oracle.txmgr.context import SendSettings, TxContext


class App(ReadApp):
    """Every room of one daemon; use it in a `with`, which closes what was opened."""

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
    def keys(self) -> ReporterKeys | None:
        """The keys of reports, one or both; None where the configuration names none.

        Raises:
            InputError: a file is missing, readable by others or no keystore, a password is wrong,
                a key is another address's than configured, or both are the same.
        """
        signer, transmitter = self.key("signer"), self.key("transmitter")
        if signer is None and transmitter is None:
            return None
        return ReporterKeys(signer, transmitter)

    def key(self, role: Role) -> Signer | None:
        """Return one role's key, opened once, or None. Raises as `open_signer`."""
        if role not in self._signers:
            self._signers[role] = self._opened_key(role)
        return self._signers[role]

    @cached_property
    def _signers(self) -> dict[Role, Signer | None]:
        return {}

    def _opened_key(self, role: Role) -> Signer | None:
        told = self.config.keys
        place = told.place(role)
        if place is None:
            return None
        return open_signer(
            place, role=role, chain_id=self.config.chain.id, expected=told.expected(role)
        )

    @cached_property
    def publisher(self) -> SenderAccount:
        """What looks, tries, signs and sends.

        Raises InputError: see `oracle_address`, `chain`, `keys`.
        """
        return self._publisher(self.oracle_address, self.keys)

    @cached_property
    def dispatcher(self) -> Signer | None:
        """The key that starts tasks, or None. Raises InputError: see `keys`."""
        return self.key("dispatcher")

    def dispatcher_address(self) -> Address | None:
        """Return whose key starts tasks, without opening it where that can be told otherwise.

        None: nobody is drawn, or there is no key. Raises InputError: see `keys`.
        """
        keys = self.config.keys
        if self.dispatch_settings is None or not keys.has("dispatcher"):
            return None
        # Neither its password nor a KMS is needed to be looked at.
        address = keys.expected("dispatcher")
        if address is None and keys.dispatcher_keystore is not None:
            address = address_in(keys.dispatcher_keystore)
        if address is None and self.dispatcher is not None:
            address = self.dispatcher.address
        return address

    @cached_property
    def dispatch_publisher(self) -> SenderAccount:
        """The same for starts of tasks, at the network contract.

        Raises:
            InputError: see `chain`; `[dispatch]` or its key is missing, the key is one of the
                other two, or the network has another dispatcher.
        """
        if self.dispatch_settings is None:
            raise InputError("dispatch.start_block: is missing; without it nobody is drawn")
        if self.dispatcher is None:
            raise InputError(
                "keys.dispatcher_keystore: is missing; without a key nothing is started"
            )
        if self.keys is not None:
            self.keys.check_other(self.dispatcher)
        publisher = self._dispatch_account
        network = publisher.domain.contract
        check_dispatcher(publisher.lines, network, self.dispatcher.address)
        return publisher

    @cached_property
    def _dispatch_account(self) -> SenderAccount:
        """By itself, for who looks again: one that was opened stays."""
        return self._publisher(
            Address(self.config.network.contracts["TaskNetwork"]), self.dispatcher
        )

    @cached_property
    def board(self) -> Board:
        """Where what is signed here is shown to the other reporters."""
        return Board()

    @cached_property
    def peers(self) -> PeerClients | None:
        """The other reporters; None where the configuration names none."""
        told = self.config.reporters
        if not told.peers:
            return None
        peers = PeerClients.of(told.peers, told.poll_seconds, told.timeout_seconds)
        self._opened.callback(peers.close)
        return peers

    @property
    def expected(self) -> Expected:
        """What the contract must be like before this daemon publishes to it."""
        keys = self.keys
        return Expected(
            network=Address(self.config.network.contracts["TaskNetwork"]),
            rules_hash=self.rules_hash,
            settings=self.report_settings,
            signer=keys.signer.address if keys and keys.signer else None,
            transmitter=keys.transmitter.address if keys and keys.transmitter else None,
            anchor_window=self.config.oracle.anchor_window,
            has_peers=bool(self.config.reporters.peers),
        )

    def context(self, epoch: int, clock: Callable[[], float]) -> TxContext:
        """Return the publishing services' desk under a lease's epoch; `clock`: unix seconds."""
        prover = EvidenceVerifier(self.chain, self.store, self.folder, RebuildOptions(lease=epoch))
        return replace(
            self._desk(self.publisher, epoch, clock),
            prover=prover,
            board=self.board,
            peers=self.peers,
            head_start=self.config.reporters.head_start,
            blocks_ahead=self.config.reporters.blocks_ahead,
        )

    def dispatch_desk(self, epoch: int, clock: Callable[[], float]) -> TxContext:
        """Return what the dispatching services work at; see `context` and `dispatch_publisher`."""
        context = self._desk(self.dispatch_publisher, epoch, clock)
        return replace(context, dispatch=self.dispatch_settings)

    def _desk(self, publisher: SenderAccount, epoch: int, clock: Callable[[], float]) -> TxContext:
        told = self.config
        return TxContext(
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
            sending=SendSettings(
                bump_blocks=told.limits.bump_blocks,
                bump_seconds=told.limits.bump_seconds,
                max_attempts=told.limits.max_attempts,
                max_in_flight=told.limits.max_in_flight,
                l1_fee=L1Fee(told.limits.l1_fee),
            ),
            patience=told.oracle.patience,
            sanity=told.oracle.sanity,
        )

    def _publisher(self, contract: Address, keys: ReporterKeys | Signer | None) -> SenderAccount:
        told = self.config
        return SenderAccount(
            self.source.endpoints,
            # Of the chain that was looked at: nothing is signed for one and sent to another.
            domain=Domain(self.chain.chain_id(), contract),
            caps=SendLimits(
                fee_per_gas=told.limits.max_fee_per_gas_wei,
                cost_per_transaction=told.limits.max_cost_per_transaction_wei,
                cost_per_day=told.limits.max_cost_per_day_wei,
                cost_per_hour=told.limits.max_cost_per_hour_wei,
                least_tip=told.limits.min_tip_wei,
            ),
            keys=keys,
        )
