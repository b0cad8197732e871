"""The contexts of a reporter: one account and one quorum, shared by reports and kickouts."""

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
    """The contexts of reports and kickouts, which share an account and a quorum."""

    reporting: ReportingContext
    kickouts: KickoutContext

    @property
    def tx(self) -> TxContext:
        """The account that sends."""
        return self.reporting.tx

    @property
    def quorum(self) -> QuorumContext:
        """The quorum of reporters that sign together."""
        return self.reporting.quorum

    def at(self, tx: TxContext) -> "ReporterContexts":
        """Return the same contexts with another account, which sends the calls of both."""
        registered = replace(tx, registry=CallRegistry(refusal_of))
        quorum = replace(self.quorum, tx=registered)
        contexts = ReporterContexts(
            replace(self.reporting, quorum=quorum), replace(self.kickouts, quorum=quorum)
        )
        contexts.register()
        return contexts

    def register(self) -> None:
        """Register pushes and kickout calls with the account."""
        registry = self.tx.registry
        registry.register(PushCall(self.reporting))
        for kind in (ProposeKickCall, ExecuteKickCall, CancelKickCall, RetryKickCall):
            registry.register(kind(self.kickouts))

    def back_off_signer(self) -> None:
        """Pause signing for a while, because the account's nonces were used elsewhere."""
        back_off_signer(self.quorum, signing_of(self.quorum), self.tx.actor)

    def dry(self, folder: Path) -> "ReporterContexts":
        """Return the contexts of a dry run, which writes evidence to `folder`."""
        contexts = self.at(dry_context(self.tx))
        kickouts = contexts.kickouts.dry(contexts.quorum, folder)
        return replace(contexts, kickouts=kickouts)


def register_dispatch(context: DispatchContext) -> None:
    """Register the dispatcher's calls (starts, queue, downloads, probes, contests)."""
    tasks = (StartCall, StartGroupCall, QueueCall, DropCall, DownloadCall)
    kinds = (*tasks, ProbeCall, EndProbeCall, SecondGroupCall, EndSecondGroupCall)
    for kind in kinds:
        context.tx.registry.register(kind(context))
    context.tx.registry.register(SettleContestCall())
