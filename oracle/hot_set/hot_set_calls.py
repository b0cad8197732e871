"""The kinds of calls to the hot set, and the reasons that end or delay an unsent call."""

from typing_extensions import override

from oracle.bindings.expected_events import ContractCall
from oracle.chain.heads import Heads
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import is_report_in_flight
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import BIND_NODES, UPDATE_WORDS, Intent, IntentState
from oracle.txmgr.call_registry import CallStage, Decision


class _HotSetCall(ContractCall):
    """A call with proofs that the contract accepts only until it accepts the next round.

    The kinds of calls are registered even if no hot set is configured, because the outbox may
    contain calls that were planned under an earlier configuration.
    """

    def __init__(self, quorum: QuorumContext) -> None:
        self._quorum = quorum
        self.retry_seconds = quorum.report_settings.period_seconds

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if stage is CallStage.ASSIGN:
            return Decision.proceed()
        last_round = uow.rounds.find_last_provable_round()
        if last_round is None or last_round.round != call.request.round:
            end_reason = f"round {call.request.round} is no longer the last one, or was struck"
            return Decision.end(IntentState.SUPERSEDED, end_reason)
        if stage is CallStage.WAIT:
            return Decision.proceed()
        if not self._quorum.account_context.is_at_head(uow, heads):
            return Decision.wait_for_next_block(
                heads, ("behind", "the database is behind the head")
            )
        if is_report_in_flight(uow, call.request.account):
            return Decision.wait_for_next_block(
                heads, ("report in flight", "the report in flight makes the proof void")
            )
        return Decision.proceed()


class BringWordsCall(_HotSetCall):
    """Writes consecutive words (of sixteen scores each) of a round to the hot set."""

    name = UPDATE_WORDS


class BindNodesCall(_HotSetCall):
    """Binds nodes to their seats in the hot set."""

    name = BIND_NODES
