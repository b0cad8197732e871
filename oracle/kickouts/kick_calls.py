"""The calls about a kickout, and when they must not go on: what was not sent ends.

See tests/faults/sending/cases.toml#f56.
"""

import structlog
from typing_extensions import override

from oracle.bindings.expected_events import missing_effect
from oracle.bindings.qos_oracle import proposal_in
from oracle.chain.heads import Heads
from oracle.domain.fold.working_set import MembershipTransition
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.kicks import NO_TARGET, Kick, KickState
from oracle.domain.state.node import Membership
from oracle.kickouts.evidence_files import path_of
from oracle.kickouts.kickout_context import (
    AGAINST,
    CANCEL_KICK,
    EXECUTE_KICK,
    PROPOSE_KICK,
    RETRY_KICK,
    KickoutContext,
)
from oracle.kickouts.kickout_eligibility import (
    KickoutRules,
    evidence_against,
    has_matching_evidence,
    is_due,
    is_kickout_still_due,
)
from oracle.quorum.resigning import with_more_gas
from oracle.quorum.signing_round import why_not_sent
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    CallRequest,
    Intent,
    IntentState,
)
from oracle.telemetry import indexer_metrics
from oracle.txmgr.call_registry import CallKind, CallStage, Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.client.receipt_quorum import Receipt
from oracle.txmgr.context import StepResult
from oracle.txmgr.deferral import end


def alarm(subject: str, why: str) -> None:
    """Log for review a kickout that was sent and should not have been."""
    indexer_metrics.KICKOUTS_REVOKED.labels("after").inc()
    structlog.get_logger().error("kickout_needs_review", node=subject, reason=why)


_ALL = 1 << 31
_NOT_SENT = (IntentState.PLANNED, IntentState.READY)
_NOT_DUE = "the kickout is no longer due"
_NOT_TO_BE_RETRIED = "the node is no member any more, or the network has said no for good"
_LEFT_THE_CHAIN = "the evidence behind the kickout left the chain"


def why_not_against(context: KickoutContext, uow: UnitOfWork, request: CallRequest) -> str | None:
    """Return why a kickout must not proceed, or None if its node is due on the same evidence."""
    if request.kind == PROPOSE_KICK:
        return _why_not_proposed(context, uow, request)
    kick = uow.rounds.about([subject_of(request)]).kicks.get(subject_of(request))
    if request.kind == RETRY_KICK:
        return None if kick is not None and is_retry_due(uow, kick) else _NOT_TO_BE_RETRIED
    kickout_rules = KickoutRules(context.rules, context.settings)
    if kick is None or kick.state is not KickState.LIVE:
        # What the contract holds is looked at when the call is tried.
        return None if is_due(uow, subject_of(request), context.rules) else _NOT_DUE
    if is_kickout_still_due(uow, kickout_rules, kick, context.evidence):
        return None
    is_left = has_matching_evidence(uow, kickout_rules, kick, context.evidence)
    return _NOT_DUE if is_left else _LEFT_THE_CHAIN


def _why_not_proposed(
    context: KickoutContext, uow: UnitOfWork, request: CallRequest
) -> str | None:
    node, said = subject_of(request), proposal_in(request.calldata, ZERO_HASH)
    if not is_due(uow, node, context.rules):
        return _NOT_DUE
    gone = why_not_sent(uow, said.round, said.report)
    if gone is not None:
        return gone
    evidence = evidence_against(uow, node, KickoutRules(context.rules, context.settings))
    if said.evidence != evidence:
        return _LEFT_THE_CHAIN
    is_there = path_of(context.evidence_folder, evidence).exists()
    return None if is_there else "its evidence file is missing"


def is_retry_due(uow: UnitOfWork, kick: Kick) -> bool:
    """Tell whether the network is to be asked once more to end the membership of who is expelled.

    Where it refused, until it has said the same twice; where it did not, when the node has joined
    again since. Never where there was nobody to ask.
    """
    cursor, gone = uow.cursor.get(), kick.expulsion
    node = uow.nodes.named([kick.node]).get(kick.node)
    is_member = node is not None and node.membership is Membership.MEMBER
    if gone is None or cursor is None or not is_member or not kick.is_expelled(cursor.time):
        return False
    if kick.state is KickState.REFUSED:
        return not kick.is_settled
    turns = uow.memberships.of_node(kick.node, _ALL)
    is_back = any(
        one.turn is MembershipTransition.JOINED and one.at > gone.tried_at for one in turns
    )
    return is_back and gone.target != NO_TARGET


def drop_next(context: KickoutContext) -> StepResult | None:
    """End a call that was not sent and is not wanted any more; None: there is none.

    It would be found out before its signature too. But one that waits for its time, such as the
    bucket's, would stand in the way of the cancellation until then.
    """
    with context.tx.store.reading() as uow:
        waiting = [
            one
            for one in uow.outbox.intents.in_states(context.tx.account, _NOT_SENT)
            if one.request.kind in AGAINST
        ]
        found = [(one, why_not_against(context, uow, one.request)) for one in waiting]
    for intent, reason in found:
        if reason is not None:
            return end(context.tx, intent, IntentState.SUPERSEDED, reason)
    return None


def subject_of(request: CallRequest) -> Address:
    """Return the node that a kickout call is about."""
    return Address(request.subject)


class _KickCall(CallKind):
    """A call about a kickout; nobody is in a hurry to kick out.

    See tests/faults/sending/cases.toml#f58.
    """

    is_shared = True

    def __init__(self, context: KickoutContext) -> None:
        self._context = context
        self.pause_seconds = context.settings.period_seconds

    @override
    def still_wanted(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if stage in {CallStage.WAIT, CallStage.ASSIGN}:
            # Looked at when it is tried, before and after.
            return Decision.go()
        if not self._context.tx.is_at_head(uow, heads):
            return Decision.wait_a_block(heads, ("behind", "the database is behind the head"))
        return Decision.go()

    @override
    def missing_effect(self, receipt: Receipt, call: Intent) -> str | None:
        return missing_effect(
            receipt, call.request.contract, call.request.calldata, call.request.digest
        )


class _CallAgainst(_KickCall):
    """A call that leads to an expulsion; it may have waited while its node recovered."""

    def __init__(self, context: KickoutContext) -> None:
        super().__init__(context)
        # Without a time from the contract, once a period.
        self.retry_seconds = context.settings.period_seconds

    @override
    def still_wanted(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        is_asked = stage in {CallStage.ADMIT, CallStage.SIGN}
        reason = why_not_against(self._context, uow, call.request) if is_asked else None
        if reason is not None:
            return Decision.end(IntentState.SUPERSEDED, reason)
        first = super().still_wanted(uow, call, heads, stage)
        if not is_asked or not first.is_accepted:
            return first
        if heads.stalled:
            return Decision.wait_a_block(heads, ("stalled", "the chain stands still"))
        if uow.holds.is_any():
            # Scores look wrong: nobody is kicked out on them before a human has looked.
            return Decision.wait_a_block(heads, ("report held", "a report is held for a human"))
        return first


class ProposeKickCall(_CallAgainst):
    """The proposal of a kickout, with the signatures of a quorum."""

    name = PROPOSE_KICK

    @override
    def retry(self, failed: Intent, heads: Heads) -> CallRequest | None:
        return with_more_gas(failed, heads)


class ExecuteKickCall(_CallAgainst):
    """The execution of a kickout whose veto is over."""

    name = EXECUTE_KICK


class RetryKickCall(_CallAgainst):
    """The network is asked once more to end the membership of a node that is expelled."""

    name = RETRY_KICK


class CancelKickCall(_KickCall):
    """The cancellation of a kickout."""

    name = CANCEL_KICK

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        refusal = result.refusal
        if refusal is not None and refusal.name == "NotAllowed":
            # Whoever cancels a kickout may do so when its node has recovered.
            return Decision.wait_a_block(heads, (refusal.name, result.reason))
        return self.by_refusal(result, heads.latest.time)
