"""Builds sender accounts and their contexts from the settings."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.inspection import (
    ContractMismatch,
    ExpectedConfiguration,
    inspect_roots_contract,
)
from oracle.bindings.objections import ObjectionsContract
from oracle.bindings.power import find_words_contract_mismatches
from oracle.bindings.qos_roots import RootsConfiguration, RootsContract
from oracle.bindings.qos_words import WordsContract
from oracle.bindings.task_network import check_dispatcher_key
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.daemon.compose import Index, build_probe_settings, compute_rules_hash
from oracle.daemon.config.dispatch_section import build_dispatch_settings
from oracle.daemon.config.loader import TASK_NETWORK_CONTRACT, Config
from oracle.daemon.config.oracle_section import build_report_settings
from oracle.daemon.configured_keys import OpenKey
from oracle.daemon.contexts import ReporterContexts, register_dispatch_calls
from oracle.daemon.records import build_configured_rules
from oracle.daemon.rules_switch import has_known_rules
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.results_folder import ResultsFolder
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.hot_set.hot_set_context import HotSetContext
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.evidence_verifier import EvidenceVerifier
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.round_leaves import LeafCache
from oracle.kickouts.kickout_context import KickoutContext
from oracle.quorum.peer_client import PeerClients
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.wire_format import Board
from oracle.reporting.reporting_context import ReportingContext
from oracle.rpc.fanout import PoolView
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import ReporterKeys, SenderAccount
from oracle.txmgr.attribution import find_missing_receipt_reason
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.client.fee_quote import SendLimits
from oracle.txmgr.client.l1_fees import L1Fee
from oracle.txmgr.context import AccountContext, SendSettings, TransmitterRank

# Maximum number of task starts per batch. Endpoints accept batches of this size.
_MAX_BATCH_STARTS = 100
_RULES_HASH_HINT = (
    "rulesHash is computed from [rules], network.profile and oracle.period_seconds, "
    "heartbeat_seconds, deviation, report_ttl_seconds and kickouts_require_proof; restore the "
    "previous settings, or let the contract's admin call setRules"
)


@dataclass(frozen=True, slots=True)
class Reporter:
    """The account that sends reports and related calls, with the reporter's peers.

    A reporter needs no lease. Its signed statements are published to the peers on `board`. `peers`
    is None if no peers are configured.
    """

    index: Index
    keys: ReporterKeys | None
    account: SenderAccount
    board: Board
    peers: PeerClients | None

    @property
    def contract(self) -> RootsContract:
        return RootsContract(self.account.pool_view, self.account.domain.contract)

    @property
    def expected_contract(self) -> ExpectedConfiguration:
        """The configuration that the contract must have before anything is sent to it."""
        return build_expected_contract(self.index.config, self.index.reader, self.keys)


@dataclass(frozen=True, slots=True)
class Senders:
    """The senders of reports and task starts, which need this process's lease; None if disabled.

    A sender is also None if the process may not send its transactions.
    """

    reporter: ReporterContexts | None = None
    dispatcher: DispatchContext | None = None

    @property
    def transmitter(self) -> AccountContext | None:
        """The account that sends reports, or None if this reporter only signs."""
        if self.reporter is None or not self.reporter.account_context.sender_account.has_payer:
            return None
        return self.reporter.account_context

    @property
    def account_contexts(self) -> list[AccountContext]:
        """The contexts of all sending accounts, with the account of reports first."""
        dispatcher = None if self.dispatcher is None else self.dispatcher.account_context
        return [context for context in (self.transmitter, dispatcher) if context is not None]

    @property
    def missing_receipt_reasons(self) -> list[str]:
        """A message for each account with a used nonce whose receipt no endpoint has.

        It is unknown whether the call with such a nonce succeeded.
        """
        return [
            reason
            for account in self.account_contexts
            if (reason := find_missing_receipt_reason(account)) is not None
        ]


def open_reporter_keys(open_key: OpenKey) -> ReporterKeys | None:
    """Open the keys of the signer and the transmitter, or return None if neither is configured.

    Raises:
        InputError: a key cannot be opened (see `make_key_opener`), or both roles have the same
            key.
    """
    signer = open_key("signer")
    transmitter = open_key("transmitter")
    return None if signer is None and transmitter is None else ReporterKeys(signer, transmitter)


def get_oracle_address(config: Config) -> Address:
    """Return the address of the oracle contract.

    Raises:
        InputError: no contract is configured.
    """
    if config.oracle.address is None:
        raise InputError(
            "oracle.address: missing; required for reports (without it the daemon only indexes)"
        )
    return Address(config.oracle.address)


def find_kick_target_address(config: Config) -> Address | None:
    """Return the network contract that can end memberships, or None if not configured."""
    configured_address = config.network.contracts.get(TASK_NETWORK_CONTRACT)
    return None if configured_address is None else Address(configured_address.lower())


def build_expected_contract(
    config: Config, reader: EventReader, keys: ReporterKeys | None
) -> ExpectedConfiguration:
    """Build the configuration that the oracle contract must have before anything is sent."""
    return ExpectedConfiguration(
        target=find_kick_target_address(config),
        rules_hash=compute_rules_hash(config, reader),
        settings=build_report_settings(config.oracle, build_configured_rules(config)),
        signer=keys.signer.address if keys and keys.signer else None,
        transmitter=keys.transmitter.address if keys and keys.transmitter else None,
        anchor_window=config.oracle.anchor_window,
        has_peers=bool(config.reporters.peers),
    )


def open_report_account(
    config: Config, chain: ChainSource, keys: ReporterKeys | None = None
) -> SenderAccount:
    """Open the account that sends reports.

    Without keys, the account is read-only.

    Raises:
        InputError: see `get_oracle_address`.
    """
    return _build_sender_account(config, chain, get_oracle_address(config), keys)


def open_dispatch_account(config: Config, chain: ChainSource, open_key: OpenKey) -> SenderAccount:
    """Open the account that starts tasks at the network contract.

    Raises:
        InputError: `[dispatch]` or its key is missing, the key is also a reporter key, or the
            contract has another dispatcher.
        TransientError: no endpoint returns the contract's dispatcher.
    """
    _get_dispatch_settings(config)
    dispatcher = open_key("dispatcher")
    if dispatcher is None:
        raise InputError("keys.dispatcher_keystore: missing; required to start tasks")
    keys = open_reporter_keys(open_key)
    if keys is not None:
        keys.check_key_is_distinct(dispatcher)
    task_network = Address(config.network.contracts[TASK_NETWORK_CONTRACT])
    account = _build_sender_account(config, chain, task_network, dispatcher)
    check_dispatcher_key(account.pool_view, task_network, dispatcher.address)
    return account


def open_results_folder(config: Config) -> ResultsFolder | None:
    """Open the folder of task results, or return None if none is configured.

    Raises:
        InputError: the folder is missing or unreadable.
    """
    results_path = config.dispatch.results_folder
    return None if results_path is None else ResultsFolder.open_folder(results_path)


@contextmanager
def open_reporter(
    index: Index, open_key: OpenKey, board: Board | None = None
) -> Iterator[Reporter]:
    """Open the report keys and the clients of the peers.

    The chain is already checked.

    Raises:
        InputError: see `get_oracle_address` and `open_reporter_keys`.
    """
    config = index.config
    get_oracle_address(config)
    keys = open_reporter_keys(open_key)
    reporters_section = config.reporters
    account = open_report_account(config, index.chain, keys)
    peers = None
    if reporters_section.peers:
        peers = PeerClients.from_urls(
            reporters_section.peers,
            reporters_section.poll_seconds,
            reporters_section.timeout_seconds,
            reporters_section.http_access,
        )
    with nullcontext() if peers is None else closing(peers):
        yield Reporter(index, keys, account, board or Board(), peers)


def check_contract(reporter: Reporter) -> RootsConfiguration:
    """Check that the oracle contract has the expected configuration, and return it.

    The rules of the contract may differ, because the daemon switches to new rules when it has
    indexed their change; until then nothing is signed. The hot set and the objections contract are
    checked as well.

    Raises:
        InputError: a contract is not as configured.
        TransientError: too few endpoints answer.
    """
    pool_view, address = reporter.account.pool_view, reporter.account.domain.contract
    contract_configuration, mismatches = inspect_roots_contract(
        pool_view, address, reporter.expected_contract
    )
    contract_rules_hash = contract_configuration.contract_status.rules_hash
    if any(mismatch.subject == "rulesHash" for mismatch in mismatches) and has_known_rules(
        reporter.index, contract_rules_hash
    ):
        mismatches = [mismatch for mismatch in mismatches if mismatch.subject != "rulesHash"]
    if mismatches:
        mismatch_text = "".join(f"\n  {mismatch.format_line()}" for mismatch in mismatches)
        if any(mismatch.subject == "rulesHash" for mismatch in mismatches):
            mismatch_text += f"\n  {_RULES_HASH_HINT}"
        raise InputError(
            f"the oracle contract differs from the configuration; nothing is sent{mismatch_text}"
        )
    check_hot_set_contract(reporter.index.config, pool_view, contract_configuration)
    check_objections(reporter.index.config, pool_view, contract_configuration)
    return contract_configuration


def check_hot_set_contract(
    config: Config, pool_view: PoolView, oracle_configuration: RootsConfiguration
) -> None:
    """Check that the configured hot set is a QoSWords contract of this oracle contract.

    Raises:
        InputError: the address has another contract, or the hot set belongs to another oracle.
        TransientError: no endpoint answers, or none has the contract.
    """
    address = config.hot_set.address
    if address is None:
        return
    words_configuration = WordsContract(pool_view, Address(address)).fetch_configuration(
        oracle_configuration.contract_status.block
    )
    mismatches = find_words_contract_mismatches(
        words_configuration, get_oracle_address(config), oracle_configuration
    )
    if mismatches:
        raise InputError(f"hot_set.address: {address}: {mismatches[0].format_line()}")


def check_objections(
    config: Config, pool_view: PoolView, oracle_configuration: RootsConfiguration
) -> None:
    """Check that the configured objections contract, if any, belongs to this oracle contract.

    Raises:
        InputError: the address has another contract, or the contract belongs to another oracle.
        TransientError: no endpoint answers, or none has the contract.
    """
    mismatches = find_configured_objections_mismatches(config, pool_view, oracle_configuration)
    if mismatches:
        address = config.objections.address
        raise InputError(f"objections.address: {address}: {mismatches[0].format_line()}")


def find_configured_objections_mismatches(
    config: Config, pool_view: PoolView, oracle_configuration: RootsConfiguration
) -> list[ContractMismatch]:
    """Return how the configured objections contract differs from what the oracle requires.

    The list is empty if no objections contract is configured.

    Raises:
        InputError: the address has no such contract. TransientError: no endpoint answers.
    """
    address = config.objections.address
    if address is None:
        return []
    return ObjectionsContract(pool_view, Address(address)).find_mismatches(
        get_oracle_address(config), oracle_configuration.contract_status.block
    )


def open_reporter_contexts(
    reporter: Reporter, epoch: int, clock: Callable[[], float]
) -> ReporterContexts:
    """Create the contexts of a reporter that holds the lease with this epoch.

    `clock` returns unix seconds.

    Raises:
        InputError: see `check_feed_publishing_allowed`.
    """
    index, peers = reporter.index, reporter.peers
    oracle, reporters_section = index.config.oracle, index.config.reporters
    rank = TransmitterRank(
        has_others=peers is not None or reporters_section.head_start_seconds > 0,
        head_start_seconds=reporters_section.head_start_seconds,
        head_start_blocks=reporters_section.head_start_blocks,
    )
    account_context = replace(
        _build_account_context(index, reporter.account, epoch, clock), rank=rank
    )
    quorum = QuorumContext(account_context, index.report_settings, reporter.board, peers)
    policy = index.archive.kickout_policy
    leaf_cache = LeafCache()
    reporting = ReportingContext(
        quorum,
        compute_rules_hash(index.config, index.reader),
        policy,
        oracle.level,
        oracle.submission_policy,
        oracle.sanity_limits,
        EvidenceVerifier(
            RepairContext(
                index.chain, index.store, index.folder, RebuildOptions(lease_epoch=epoch)
            )
        ),
        leaf_cache,
    )
    kickouts = KickoutContext(
        quorum,
        policy,
        oracle.evidence_folder,
        leaf_cache,
        index.config.objections.intake_address,
    )
    contexts = ReporterContexts(
        reporting, kickouts, _build_hot_set_context(index.config, quorum, leaf_cache)
    )
    contexts.register_reporter_calls()
    return contexts


def _build_hot_set_context(
    config: Config, quorum: QuorumContext, leaf_cache: LeafCache
) -> HotSetContext | None:
    hot_set = config.hot_set
    if hot_set.address is None:
        return None
    max_fee = hot_set.max_fee_wei or config.limits.max_fee_per_gas_wei
    return HotSetContext(quorum, Address(hot_set.address), max_fee, leaf_cache)


def open_dispatch_context(
    index: Index, open_key: OpenKey, epoch: int, clock: Callable[[], float]
) -> DispatchContext:
    """Create the context that starts tasks under the lease with this epoch.

    `clock` returns unix seconds.

    Raises:
        InputError: see `open_dispatch_account`, `check_feed_publishing_allowed`,
            `open_results_folder`.
        TransientError: see `open_dispatch_account`.
    """
    config = index.config
    account = open_dispatch_account(config, index.chain, open_key)
    account_context = _build_account_context(index, account, epoch, clock)
    # There is no limit on calls in flight here, because the dispatch planner applies its own.
    send_settings = replace(account_context.send_settings, max_in_flight=None)
    account_context = replace(
        account_context,
        send_settings=send_settings,
        role="dispatcher",
        batch_size=_MAX_BATCH_STARTS,
    )
    context = DispatchContext(
        account_context,
        _get_dispatch_settings(config),
        build_probe_settings(config.probing),
        open_results_folder(config),
    )
    register_dispatch_calls(context)
    return context


def check_feed_publishing_allowed(config: Config) -> None:
    """Check that the settings allow sending feed data to a contract.

    Raises:
        InputError: a feed is configured, and `feed.may_publish` is off.
    """
    feed = config.feed
    if feed.url is not None and not feed.may_publish:
        raise InputError(
            "feed.may_publish: the setting is off; data from a feed has no proof, and must not be "
            "sent to a contract; set feed.may_publish = true to permit it"
        )


def _get_dispatch_settings(config: Config) -> DispatchSettings:
    settings = build_dispatch_settings(config.dispatch, build_configured_rules(config))
    if settings is None:
        raise InputError("dispatch.start_block: missing; required to draw nodes")
    return settings


def _build_account_context(
    index: Index, account: SenderAccount, epoch: int, clock: Callable[[], float]
) -> AccountContext:
    check_feed_publishing_allowed(index.config)
    limits = index.config.limits
    return AccountContext(
        store=index.store,
        sender_account=account,
        registry=CallRegistry(decode_refusal),
        epoch=epoch,
        clock=clock,
        confirmations=limits.confirmations,
        finality_depth=index.config.chain.finality_depth,
        send_settings=SendSettings(
            bump_blocks=limits.bump_blocks,
            bump_seconds=limits.bump_seconds,
            max_attempts=limits.max_attempts,
            max_in_flight=limits.max_in_flight,
            l1_fee=L1Fee(limits.l1_fee),
            # The margin is at most half of a report's lifetime. With a longer margin, no report
            # would be signed any more after a week of high fees.
            max_margin_seconds=index.report_settings.ttl_seconds // 2,
        ),
    )


def _build_sender_account(
    config: Config,
    chain: ChainSource,
    contract: Address,
    keys: ReporterKeys | Signer | None,
) -> SenderAccount:
    limits = config.limits
    return SenderAccount(
        chain.endpoints,
        # The chain id comes from the checked chain, so that nothing is signed for one chain and
        # sent to another.
        domain=Domain(chain.get_chain_id(), contract),
        caps=SendLimits(
            fee_per_gas=limits.max_fee_per_gas_wei,
            cost_per_transaction=limits.max_cost_per_transaction_wei,
            cost_per_day=limits.max_cost_per_day_wei,
            cost_per_hour=limits.max_cost_per_hour_wei,
            min_tip=limits.min_tip_wei,
        ),
        keys=keys,
    )
