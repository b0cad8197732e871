"""The kinds of calls to the hot set, and why an unsent call ends or waits."""

from typing_extensions import override

from oracle.bindings.expected_events import ContractCall
from oracle.chain.heads import Heads
from oracle.hot_set.hot_set_context import HotSetContext
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import is_report_in_flight
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import BIND_NODES, UPDATE_WORDS, Intent, IntentState
from oracle.txmgr.call_registry import CallStage, Decision


class _HotSetCall(ContractCall):
    """A call with proofs, which the contract accepts only until the next round is accepted.

    The kinds of calls are registered even if no hot set is configured, because the outbox may
    contain calls that were planned under an earlier configuration. These calls end unsent.
    """

    def __init__(self, quorum: QuorumContext, hot_set: HotSetContext | None) -> None:
        self._quorum = quorum
        self._hot_set = hot_set
        self.retry_seconds = quorum.report_settings.period_seconds

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if stage is CallStage.ASSIGN:
            return Decision.proceed()
        end_reason = self._find_end_reason(uow, call)
        if end_reason is not None:
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

    def _find_end_reason(self, uow: UnitOfWork, call: Intent) -> str | None:
        """Return why the call must not be sent any more, if there is a reason."""
        if self._hot_set is None or call.request.contract != self._hot_set.address:
            return "hot_set.address was changed or removed"
        last_round = uow.rounds.find_last_provable_round()
        if last_round is None or last_round.round != call.request.round:
            return f"round {call.request.round} is no longer the last one, or was struck"
        return None

    @override
    def find_max_market_fee(self, uow: UnitOfWork, call: Intent, heads: Heads) -> int | None:
        """Return `hot_set.max_fee_wei`."""
        return None if self._hot_set is None else self._hot_set.max_fee


class BringWordsCall(_HotSetCall):
    """Writes consecutive words of a round, with sixteen scores each, to the hot set."""

    name = UPDATE_WORDS


class BindNodesCall(_HotSetCall):
    """Binds nodes to their seats in the hot set."""

    name = BIND_NODES
