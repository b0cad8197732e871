"""Puts the floors together from one configuration; the only room that knows every other.

A room is opened when it is first asked for.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from oracle.bindings.contract_errors import refusal_of
from oracle.bindings.inspection import Expected
from oracle.bindings.qos_oracle import OracleContract
from oracle.bindings.task_network import check_dispatcher
from oracle.daemon.config.keys_section import Role
from oracle.daemon.config.loader import ACTED_ON
from oracle.daemon.contexts import ReporterContexts, register_dispatch
from oracle.daemon.read_app import ReadApp
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.results_folder import ResultsFolder
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.indexer.rebuild import RebuildOptions
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.proof import EvidenceVerifier
from oracle.quorum.board import Board
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.reporting_context import ReportingContext
from oracle.signing.factory import open_signer
from oracle.signing.keystore import address_in
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import ReporterKeys, SenderAccount
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.client.fee_quote import SendLimits
from oracle.txmgr.client.l1_fees import L1Fee
from oracle.txmgr.context import Rank, SendSettings, TxContext

# Endpoints take batches of a hundred.
_STARTS_AT_ONCE = 100


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
    def contract(self) -> OracleContract:
        """The oracle contract. Raises InputError: see `publisher`."""
        return OracleContract(self.publisher.lines, self.oracle_address)

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
    def results_folder(self) -> ResultsFolder | None:
        """The folder with the results of tasks; None where the configuration names none.

        Raises:
            InputError: the folder is missing or unreadable.
        """
        path = self.config.dispatch.results_folder
        return None if path is None else ResultsFolder.open(path)

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
        peers = PeerClients.of(told.peers, told.poll_seconds, told.timeout_seconds, told.access)
        self._opened.callback(peers.close)
        return peers

    @property
    def kick_target(self) -> Address | None:
        """Who ends a membership after a kickout; None: an adapter, or nobody."""
        written = self.config.network.contracts.get(ACTED_ON)
        return None if written is None else Address(written.lower())

    @property
    def expected(self) -> Expected:
        """What the contract must be like before this daemon publishes to it."""
        keys = self.keys
        return Expected(
            target=self.kick_target,
            rules_hash=self.rules_hash,
            settings=self.report_settings,
            signer=keys.signer.address if keys and keys.signer else None,
            transmitter=keys.transmitter.address if keys and keys.transmitter else None,
            anchor_window=self.config.oracle.anchor_window,
            has_peers=bool(self.config.reporters.peers),
        )

    def reporter(self, epoch: int, clock: Callable[[], float]) -> ReporterContexts:
        """Return what reports and kickouts work with under a lease's epoch.

        `clock`: unix seconds. Raises as `publisher`.
        """
        told = self.config
        others = told.reporters
        rank = Rank(
            has_others=self.peers is not None or others.head_start > 0,
            head_start=others.head_start,
            blocks_ahead=others.blocks_ahead,
        )
        tx = replace(self._tx(self.publisher, epoch, clock), rank=rank)
        quorum = QuorumContext(tx, self.report_settings, self.board, self.peers)
        reporting = ReportingContext(
            quorum,
            self.rules_hash,
            told.oracle.level,
            told.oracle.submission_policy,
            told.oracle.sanity,
        )
        verifier = EvidenceVerifier(
            self.chain, self.store, self.folder, RebuildOptions(lease=epoch)
        )
        kickouts = KickoutContext(quorum, self.rules, told.oracle.evidence_folder, verifier)
        contexts = ReporterContexts(reporting, kickouts)
        contexts.register()
        return contexts

    def starter(self, epoch: int, clock: Callable[[], float]) -> DispatchContext:
        """Return what dispatching works with.

        Raises as `reporter`, `dispatch_publisher` and `results_folder`.
        """
        publisher = self.dispatch_publisher
        if self.dispatch_settings is None:
            raise InputError("dispatch.start_block: is missing; without it nobody is drawn")
        tx = self._tx(publisher, epoch, clock)
        # Its planner counts what is on its way.
        sending = replace(tx.sending, max_in_flight=None)
        tx = replace(tx, sending=sending, role="dispatcher", batch_size=_STARTS_AT_ONCE)
        context = DispatchContext(
            tx, self.dispatch_settings, self.probe_settings, self.results_folder
        )
        register_dispatch(context)
        return context

    def _tx(self, publisher: SenderAccount, epoch: int, clock: Callable[[], float]) -> TxContext:
        self.refuse_unproven()
        told = self.config
        return TxContext(
            store=self.store,
            publisher=publisher,
            registry=CallRegistry(refusal_of),
            epoch=epoch,
            clock=clock,
            confirmations=told.limits.confirmations,
            sending=SendSettings(
                bump_blocks=told.limits.bump_blocks,
                bump_seconds=told.limits.bump_seconds,
                max_attempts=told.limits.max_attempts,
                max_in_flight=told.limits.max_in_flight,
                l1_fee=L1Fee(told.limits.l1_fee),
                # Of what a report has to live, half: else a dear week would end all of them.
                most_margin_seconds=self.report_settings.ttl_seconds // 2,
            ),
        )

    def refuse_unproven(self) -> None:
        """Let nothing that rests on a feed go to a contract. Raises InputError: it may not."""
        feed = self.config.feed
        if feed.url is not None and not feed.may_publish:
            raise InputError(
                "feed.may_publish: is off: what rests on a feed has no proof, and nothing of it "
                "goes to a contract"
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
