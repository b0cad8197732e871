"""The contexts of a reporter's features, which share one account and one quorum."""

from dataclasses import dataclass, replace
from pathlib import Path

from oracle.bindings.contract_errors import decode_refusal
from oracle.dispatch.contest_settlement import SettleContestCall
from oracle.dispatch.dispatch_calls import (
    DispatchContext,
    DownloadCall,
    DropCall,
    QueueCall,
    StartCall,
    StartGroupCall,
)
from oracle.dispatch.probe_kinds import (
    EndProbeCall,
    EndSecondGroupCall,
    ProbeCall,
    SecondGroupCall,
)
from oracle.hot_set.hot_set_calls import BindNodesCall, BringWordsCall
from oracle.hot_set.hot_set_context import HotSetContext
from oracle.kickouts.kick_calls import (
    AccuseCall,
    ClearKickCall,
    ExecuteKickCall,
    RetryKickCall,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.objection_sender import BringObjectionCall
from oracle.quorum.key_watch import (
    build_embargo_writer,
    build_signing_embargo,
    store_signing_embargo,
)
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.push_call import PushCall
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.bookmarks import RESTORED
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.context import AccountContext, build_dry_run_context


@dataclass(frozen=True, slots=True)
class ReporterContexts:
    """The contexts for sending reports, kickouts and the hot set from one account and quorum.

    `hot_set` is None if no hot set is kept.
    """

    reporting: ReportingContext
    kickouts: KickoutContext
    hot_set: HotSetContext | None = None

    @property
    def account_context(self) -> AccountContext:
        """The context of the account that sends all of the reporter's calls."""
        return self.reporting.account_context

    @property
    def quorum(self) -> QuorumContext:
        """The quorum of reporters that sign together."""
        return self.reporting.quorum

    def with_account(self, account_context: AccountContext) -> "ReporterContexts":
        """Return a copy of the contexts in which another account sends all calls."""
        account = replace(account_context, registry=CallRegistry(decode_refusal))
        quorum = replace(self.quorum, account_context=account)
        contexts = ReporterContexts(
            replace(self.reporting, quorum=quorum),
            replace(self.kickouts, quorum=quorum),
            None if self.hot_set is None else replace(self.hot_set, quorum=quorum),
        )
        contexts.register_reporter_calls()
        return contexts

    def register_reporter_calls(self) -> None:
        """Register the calls for reports, kickouts, objections and the hot set."""
        registry = self.account_context.registry
        registry.register(PushCall(self.reporting))
        for call_type in (AccuseCall, ExecuteKickCall, ClearKickCall, RetryKickCall):
            registry.register(call_type(self.kickouts))
        registry.register(BringObjectionCall(self.kickouts))
        registry.register(BringWordsCall(self.quorum, self.hot_set))
        registry.register(BindNodesCall(self.quorum, self.hot_set))

    def start_signing_embargo(self) -> None:
        """Start a signing embargo after another process used the account's nonces."""
        store_signing_embargo(
            self.quorum, build_signing_embargo(self.quorum), self.account_context.actor
        )

    def start_embargo_after_restore(self) -> None:
        """Start a signing embargo if the database was restored from a backup.

        The embargo is needed because the database lacks the statements that were signed after the
        backup, and the contract may still accept one of them.

        Raises:
            TransientError: no endpoint answers.
        """
        store = self.account_context.store
        with store.read_transaction() as uow:
            is_restored = uow.bookmarks.get(RESTORED) is not None
        if not is_restored:
            return
        write_embargo = build_embargo_writer(self.quorum, build_signing_embargo(self.quorum))
        with self.account_context.write_transaction() as uow:
            write_embargo(uow, self.account_context.stamp)
            uow.bookmarks.delete(RESTORED)

    def build_dry_run_contexts(self, folder: Path) -> "ReporterContexts":
        """Build the contexts of a dry run, which writes evidence to `folder`."""
        contexts = self.with_account(build_dry_run_context(self.account_context))
        reporting, verifier = contexts.reporting, contexts.reporting.verifier
        return replace(
            contexts,
            reporting=replace(
                reporting,
                verifier=None if verifier is None else replace(verifier, is_dry_run=True),
            ),
            kickouts=replace(contexts.kickouts, evidence_folder=folder),
        )


def register_dispatch_calls(context: DispatchContext) -> None:
    """Register the dispatcher's calls for starts, queue, downloads, probes and contests."""
    task_calls = (StartCall, StartGroupCall, QueueCall, DropCall, DownloadCall)
    call_types = (*task_calls, ProbeCall, EndProbeCall, SecondGroupCall, EndSecondGroupCall)
    for call_type in call_types:
        context.account_context.registry.register(call_type(context))
    context.account_context.registry.register(SettleContestCall())
