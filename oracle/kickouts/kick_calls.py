"""The kinds of kickout calls, why an unsent call ends, and the review after a rewind.

See tests/faults/sending/cases.toml#f56.
"""

from typing_extensions import override

from oracle.bindings.expected_events import ContractCall
from oracle.chain.heads import Heads
from oracle.domain.fold.working_set import MembershipTransition
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import NO_TARGET, KickState, NodeKick
from oracle.domain.state import Membership
from oracle.indexer.block_hooks import BlockHook
from oracle.kickouts.kickout_cases import (
    is_accused_for_interval,
    is_kickout_due_at_head,
    load_kickout_cases,
    load_last_round,
    prove_node_in_last_round,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.objection_delay import is_objection_accepted
from oracle.quorum.statements import is_report_in_flight
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    ACCUSE,
    CLEAR_KICK,
    EXECUTE_KICK,
    EXPULSION_KINDS,
    RETRY_KICK,
    Account,
    CallRequest,
    Intent,
    IntentState,
    Stamp,
)
from oracle.telemetry import indexer_metrics
from oracle.telemetry.logger import get_logger
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.context import StepResult
from oracle.txmgr.deferral import end_call

_NO_LIMIT = 1 << 31
_UNSENT_STATES = (IntentState.PLANNED, IntentState.READY)
_QUEUED_STATES = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT_STATES = (IntentState.LIVE, IntentState.MINED, IntentState.FINAL)
# Maximum number of the newest intents per kind and state that are checked after a rewind.
_MAX_INTENTS = 1_000
_NOT_DUE = "the kickout is no longer due"
_RETRY_NOT_DUE = "the node is no longer a member, or the network refused permanently"


def report_unjustified_kickout(subject: str, reason: str) -> None:
    """Log and count a sent kickout that is not justified.

    An operator has to review it.
    """
    indexer_metrics.KICKOUTS_REVOKED.labels("after").inc()
    get_logger().error("kickout_needs_review", node=subject, reason=reason)


def find_kickout_obstacle(
    context: KickoutContext, uow: UnitOfWork, request: CallRequest
) -> str | None:
    """Return why a kickout call must not be sent.

    The result is None if the last round still justifies it. A call carries a proof of a leaf in
    the last round. The next round invalidates the proof, and the call is then planned again with a
    new one.
    """
    node = get_subject_node(request)
    kick = uow.rounds.get_kick_by_node([node]).get(node)
    if request.kind == RETRY_KICK:
        return None if kick is not None and is_kick_retry_due(uow, kick) else _RETRY_NOT_DUE
    last_round = load_last_round(uow, context.leaf_cache)
    if last_round is None or last_round.summary.round != request.round:
        return f"its proof is of round {request.round}, which is no longer the last one"
    proof = prove_node_in_last_round(uow, context.leaf_cache, last_round, node)
    due_since = 0 if proof is None else proof.leaf.kickout_due_since
    if request.kind == CLEAR_KICK:
        is_pending = (
            kick is not None and kick.is_accused and not is_accused_for_interval(kick, due_since)
        )
        return None if is_pending else "the accusation has ended, or is stated again"
    if not is_kickout_due_at_head(uow, node, due_since, context.policy.rules):
        return _NOT_DUE
    if request.kind == ACCUSE:
        cases = load_kickout_cases(
            uow,
            context.leaf_cache,
            context.policy,
            context.report_settings,
            [node],
            with_hold_reasons=False,
        )
        return next((case.obstacle for case in cases), _NOT_DUE)
    return _find_execution_obstacle(uow, node, kick, due_since)


def _find_execution_obstacle(
    uow: UnitOfWork, node: Address, kick: NodeKick | None, due_since: int
) -> str | None:
    if is_objection_accepted(uow, node, due_since):
        return "this reporter accepted the objection of the node"
    return None if is_accused_for_interval(kick, due_since) else _NOT_DUE


def is_kick_retry_due(uow: UnitOfWork, kick: NodeKick) -> bool:
    """Return whether the network must be called again to end an expelled node's membership.

    If the network refused the last call, the call is repeated until the network has refused twice
    for the same reason. If the network accepted the last call, the call is repeated only if the
    node has rejoined since, and never if the expulsion has no target contract.
    """
    cursor = uow.cursor.get()
    expulsion = kick.expulsion
    node = uow.nodes.get_many([kick.node]).get(kick.node)
    is_member = node is not None and node.membership is Membership.MEMBER
    if expulsion is None or cursor is None or not is_member or not kick.is_expelled(cursor.time):
        return False
    if kick.state is KickState.REFUSED:
        return not kick.requires_operator
    transitions = uow.memberships.list_for_node(kick.node, _NO_LIMIT)
    has_rejoined = any(
        transition.transition is MembershipTransition.JOINED and transition.at > expulsion.tried_at
        for transition in transitions
    )
    return has_rejoined and expulsion.target != NO_TARGET


def end_obsolete_kickout_call(context: KickoutContext) -> StepResult | None:
    """End an unsent call for a kickout that is no longer due.

    The result is None if there is none. The review before the signature would end the call as
    well, but only when the call is signed. A call may wait for long, for example until the
    contract's rate limit admits another kickout, and no other call about the node can be sent
    meanwhile.
    """
    with context.account_context.store.read_transaction() as uow:
        intents_with_reason = [
            (intent, find_kickout_obstacle(context, uow, intent.request))
            for intent in list_unsent_kickout_calls(uow, context.account_context.account)
        ]
    for intent, reason in intents_with_reason:
        if reason is not None:
            return end_call(context.account_context, intent, IntentState.SUPERSEDED, reason)
    return None


def list_unsent_kickout_calls(uow: UnitOfWork, account: Account) -> list[Intent]:
    """Return the calls without a nonce that lead to an expulsion."""
    unsent_intents = uow.outbox.intents.list_in_states(account, _UNSENT_STATES)
    return [intent for intent in unsent_intents if intent.request.kind in EXPULSION_KINDS]


def get_subject_node(request: CallRequest) -> Address:
    """Return the node that a kickout call is about."""
    return Address(request.subject)


class _KickCall(ContractCall):
    """A call about a kickout, which is never urgent.

    See tests/faults/sending/cases.toml#f58.
    """

    is_shared = True

    def __init__(self, context: KickoutContext) -> None:
        self._context = context
        self.pause_seconds = context.report_settings.period_seconds

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if stage in {CallStage.WAIT, CallStage.ASSIGN}:
            # Nothing is checked at these stages. The call was checked before its simulation, and
            # it will be checked again before it is signed.
            return Decision.proceed()
        if not self._context.account_context.is_at_head(uow, heads):
            return Decision.wait_for_next_block(
                heads, ("behind", "the database is behind the head")
            )
        if call.request.kind != RETRY_KICK and is_report_in_flight(uow, call.request.account):
            return Decision.wait_for_next_block(
                heads, ("report in flight", "the report in flight makes the proof void")
            )
        return Decision.proceed()


class _ExpulsionCall(_KickCall):
    """A call that leads to an expulsion, reviewed late because the node may recover."""

    def __init__(self, context: KickoutContext) -> None:
        super().__init__(context)
        # If the contract does not say when a call may succeed, the call is retried once per
        # period.
        self.retry_seconds = context.report_settings.period_seconds

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        is_checked_stage = stage in {CallStage.ADMIT, CallStage.SIGN}
        kickout_obstacle = (
            find_kickout_obstacle(self._context, uow, call.request) if is_checked_stage else None
        )
        if kickout_obstacle is not None:
            return Decision.end(IntentState.SUPERSEDED, kickout_obstacle)
        base_decision = super().review_call(uow, call, heads, stage)
        if not is_checked_stage or not base_decision.is_accepted:
            return base_decision
        if heads.stalled:
            return Decision.wait_for_next_block(heads, ("stalled", "the chain is stalled"))
        if uow.holds.is_awaiting_operator():
            # The scores may be wrong. An operator must therefore review them before any node is
            # kicked out.
            return Decision.wait_for_next_block(
                heads, ("report held", "a report is held for an operator")
            )
        return base_decision


class AccuseCall(_ExpulsionCall):
    """Accuses a node with a proof of its leaf in the last round."""

    name = ACCUSE


class ExecuteKickCall(_ExpulsionCall):
    """Executes an accused node's kickout after the veto delay."""

    name = EXECUTE_KICK


class RetryKickCall(_ExpulsionCall):
    """Requests again that the network end an expelled node's membership."""

    name = RETRY_KICK


class ClearKickCall(_KickCall):
    """Ends a node's accusation when its last leaf no longer shows a due kickout."""

    name = CLEAR_KICK

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if stage in {CallStage.ADMIT, CallStage.SIGN}:
            kickout_obstacle = find_kickout_obstacle(self._context, uow, call.request)
            if kickout_obstacle is not None:
                return Decision.end(IntentState.SUPERSEDED, kickout_obstacle)
        return super().review_call(uow, call, heads, stage)


class KickoutHook(BlockHook):
    """Reports sent kickouts whose evidence a reorg removed from the chain."""

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        """Report sent calls whose evidence the rewind removes, for review by an operator.

        The rewind itself ends unsent calls.
        """
        indexer_metrics.KICKOUTS_REVOKED.labels("before").inc(
            len(_find_expulsion_intents(uow, _QUEUED_STATES, ancestor))
        )
        for intent in _find_expulsion_intents(uow, _SENT_STATES, ancestor):
            removal_detail = f"its evidence left the chain above block {ancestor}"
            uow.outbox.journal.write(
                "needs_review", stamp, removal_detail, intent_id=intent.id, nonce=intent.nonce
            )
            report_unjustified_kickout(intent.request.subject, removal_detail)


def _find_expulsion_intents(
    uow: UnitOfWork, states: tuple[IntentState, ...], ancestor: int
) -> list[Intent]:
    return [
        intent
        for state in states
        for kind in EXPULSION_KINDS
        for intent in uow.outbox.intents.list_newest(_MAX_INTENTS, state, kind)
        if (intent.request.as_of_block or 0) > ancestor
    ]
