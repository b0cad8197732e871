"""What a reporter works with: one account, a quorum, and two customers of both."""

from dataclasses import dataclass, replace
from pathlib import Path

from oracle.bindings.contract_errors import refusal_of
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
from oracle.kickouts.kick_calls import (
    CancelKickCall,
    ExecuteKickCall,
    ProposeKickCall,
    RetryKickCall,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.quorum.key_watch import back_off_signer, signing_of
from oracle.quorum.quorum_context import QuorumContext
from oracle.reporting.push_call import PushCall
from oracle.reporting.reporting_context import ReportingContext
from oracle.txmgr.call_registry import CallRegistry
from oracle.txmgr.context import TxContext
from oracle.txmgr.dry_run import dry_context


@dataclass(frozen=True, slots=True)
class ReporterContexts:
    """Reports and kickouts of one reporter: they share its account and its quorum."""

    reporting: ReportingContext
    kickouts: KickoutContext

    @property
    def tx(self) -> TxContext:
        """The account that sends."""
        return self.reporting.tx

    @property
    def quorum(self) -> QuorumContext:
        """Who signs with us."""
        return self.reporting.quorum

    def at(self, tx: TxContext) -> "ReporterContexts":
        """Return the same with another account context, which sends the calls of both."""
        registered = replace(tx, registry=CallRegistry(refusal_of))
        quorum = replace(self.quorum, tx=registered)
        contexts = ReporterContexts(
            replace(self.reporting, quorum=quorum), replace(self.kickouts, quorum=quorum)
        )
        contexts.register()
        return contexts

    def register(self) -> None:
        """Let the account send pushes and the calls about kickouts."""
        registry = self.tx.registry
        registry.register(PushCall(self.reporting))
        for kind in (ProposeKickCall, ExecuteKickCall, CancelKickCall, RetryKickCall):
            registry.register(kind(self.kickouts))

    def back_off_signer(self) -> None:
        """Sign nothing for a while: the nonces of our account were used elsewhere."""
        back_off_signer(self.quorum, signing_of(self.quorum), self.tx.actor)

    def dry(self, folder: Path) -> "ReporterContexts":
        """Return the same for a dry run, which lays evidence down in `folder`."""
        contexts = self.at(dry_context(self.tx))
        kickouts = contexts.kickouts.dry(contexts.quorum, folder)
        return replace(contexts, kickouts=kickouts)


def register_dispatch(context: DispatchContext) -> None:
    """Let the account of a dispatcher send starts, words about the queue, and the rest."""
    tasks = (StartCall, StartGroupCall, QueueCall, DropCall, DownloadCall)
    kinds = (*tasks, ProbeCall, EndProbeCall, SecondGroupCall, EndSecondGroupCall)
    for kind in kinds:
        context.tx.registry.register(kind(context))
    context.tx.registry.register(SettleContestCall())
