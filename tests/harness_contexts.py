"""The contexts of a harness: the account, the quorum, and their users."""

from dataclasses import replace
from typing import Any

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_roots import RootsContract
from oracle.daemon.contexts import ReporterContexts
from oracle.domain.ids import Hash
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.scoring.rules import Rules
from oracle.hot_set.hot_set_context import HotSetContext
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.evidence_verifier import EvidenceVerifier
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.round_leaves import LeafCache
from oracle.kickouts.kickout_context import KickoutContext
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.reporting_context import ReportingContext
from oracle.signing.typed_data import Domain
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.context import AccountContext, TransmitterRank
from tests.pools import pool_of


class WithContexts:
    """A harness's contexts; replacing one updates the others that refer to it."""

    contexts: ReporterContexts
    testbed: Any

    @property
    def context(self) -> AccountContext:
        """Return the context of the sending account."""
        return self.contexts.account_context

    @context.setter
    def context(self, account_context: AccountContext) -> None:
        self.contexts = self.contexts.with_account(account_context)

    @property
    def quorum(self) -> QuorumContext:
        return self.contexts.quorum

    @property
    def reporting(self) -> ReportingContext:
        return self.contexts.reporting

    @reporting.setter
    def reporting(self, reporting: ReportingContext) -> None:
        self.contexts = replace(self.contexts, reporting=reporting).with_account(self.context)

    @property
    def kickouts(self) -> KickoutContext:
        return self.contexts.kickouts

    @kickouts.setter
    def kickouts(self, kickouts: KickoutContext) -> None:
        self.contexts = replace(self.contexts, kickouts=kickouts).with_account(self.context)

    @property
    def hot_set(self) -> HotSetContext:
        assert self.contexts.hot_set is not None
        return self.contexts.hot_set

    @property
    def contract(self) -> RootsContract:
        return RootsContract(self.context.sender_account.pool_view, self.testbed.address)


def contexts_of(harness: Any, domain: Domain, rules: Rules, rules_hash: Hash) -> ReporterContexts:
    """Build the contexts of a harness's daemon from its settings and equipment."""
    testbed = harness.testbed
    equipment = harness.equipment
    peers = equipment.get("peers")
    head_start = equipment.get("head_start", 0)
    account_context = AccountContext(
        store=harness.store,
        sender_account=SenderAccount(
            pool_of(*harness.urls, providers=getattr(harness, "providers", None)),
            domain=domain,
            caps=harness.caps,
            keys=testbed.keys,
        ),
        registry=CallRegistry(decode_refusal),
        epoch=harness.epoch,
        clock=lambda: testbed.chain.time,
        confirmations=harness.confirmations,
        finality_depth=harness.finality,
        rank=TransmitterRank(
            has_others=peers is not None or head_start > 0,
            head_start_seconds=head_start,
            head_start_blocks=0,
        ),
    )
    quorum = QuorumContext(account_context, harness.settings, equipment.get("board"), peers)
    rebuild = RebuildOptions(lease_epoch=harness.epoch)
    verifier = EvidenceVerifier(
        RepairContext(harness.source, harness.store, harness.folder, rebuild)
    )
    policy = KickoutPolicy(rules, objection_terms=equipment.get("objection_terms"))
    leaf_cache = LeafCache()
    words = equipment.get("hot_set")
    return ReporterContexts(
        ReportingContext(quorum, rules_hash, policy, verifier=verifier, leaf_cache=leaf_cache),
        KickoutContext(
            quorum,
            policy,
            harness.folder_for_evidence,
            leaf_cache,
            getattr(harness, "objections", None),
        ),
        words and HotSetContext(quorum, words, harness.caps.fee_per_gas, leaf_cache),
    )
