"""Submits each posted objection on chain, by a call that the outbox sends exactly once.

See docs/explanation/objections.md#post-an-objection.
"""

from dataclasses import fields

from typing_extensions import override

from oracle.bindings.expected_events import ContractCall
from oracle.bindings.objections import encode_signed_objection_call
from oracle.chain.heads import Heads
from oracle.domain.ids import Address
from oracle.kickouts.kickout_cases import is_kickout_due_at_head, load_cursor_time
from oracle.kickouts.kickout_context import KickoutContext
from oracle.signing.typed_data import ObjectionStatement
from oracle.store.database import UnitOfWork
from oracle.store.objection_inbox import PostedObjection
from oracle.store.outbox.records import SUBMIT_OBJECTION, CallRequest, Intent, IntentState
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.context import StepResult

# Objections are sent after reports. They are sent before kickouts, because they delay accusations.
_PRIORITY = 150


def plan_objection_call(context: KickoutContext, heads: Heads) -> StepResult | None:
    """Plan the submission of the oldest posted objection, or withdraw the objection.

    The result is None if no objection waits, or if no call may be planned now.
    """
    account_context, contract = context.account_context, context.objections_contract
    if (
        contract is None
        or heads.stalled
        or account_context.is_halted()
        or not account_context.sender_account.has_payer
    ):
        return None
    with account_context.store.read_transaction() as uow:
        posted_objection = uow.objection_inbox.find_unplanned_objection()
        if posted_objection is None or not account_context.is_at_head(uow, heads):
            return None
    with account_context.write_transaction() as uow:
        reason = find_withdrawal_reason(context, uow, posted_objection)
        if reason is None:
            return _enqueue_call(context, uow, posted_objection, contract)
        uow.objection_inbox.mark_ended(posted_objection, account_context.stamp.at, reason)
    return StepResult(
        "objection withdrawn", None, f"{_format_objection_subject(posted_objection)}: {reason}"
    )


def _enqueue_call(
    context: KickoutContext, uow: UnitOfWork, posted_objection: PostedObjection, contract: Address
) -> StepResult:
    """Store the call, and mark the posted objection as planned in the same transaction."""
    account_context = context.account_context
    subject = _format_objection_subject(posted_objection)
    request = CallRequest(
        account=account_context.account,
        contract=contract,
        kind=SUBMIT_OBJECTION,
        dedup_key=f"{SUBMIT_OBJECTION}:{posted_objection.id}",
        calldata=encode_signed_objection_call(
            build_objection_statement(posted_objection), posted_objection.signature
        ),
        subject=subject,
        priority=_PRIORITY,
        deadline=posted_objection.deadline,
    )
    intent_id = uow.outbox.intents.add(request, account_context.stamp)
    if intent_id is None:
        uow.objection_inbox.mark_ended(
            posted_objection, account_context.stamp.at, "it was planned before"
        )
    else:
        uow.objection_inbox.set_intent(posted_objection, intent_id)
    return StepResult(f"{SUBMIT_OBJECTION} planned", intent_id, subject)


def _format_objection_subject(posted_objection: PostedObjection) -> str:
    return f"objection={posted_objection.node}:{posted_objection.seq}"


def build_objection_statement(posted_objection: PostedObjection) -> ObjectionStatement:
    """Build the objection statement that the node signed."""
    field_names = [field.name for field in fields(ObjectionStatement)]
    return ObjectionStatement(**{name: getattr(posted_objection, name) for name in field_names})


def find_withdrawal_reason(
    context: KickoutContext, uow: UnitOfWork, posted_objection: PostedObjection
) -> str | None:
    """Return why a posted objection must be withdrawn.

    The result is None if it can be submitted. An objection is withdrawn if the contract would
    reject it, or if it would have no effect.
    """
    if not is_kickout_due_at_head(
        uow, posted_objection.node, posted_objection.due_since, context.policy.rules
    ):
        return "the kickout is no longer due"
    if any(
        objection.seq >= posted_objection.seq or objection.due_since == posted_objection.due_since
        for objection in uow.objections.list_for_node(posted_objection.node)
    ):
        return "the node has objected on the chain itself"
    return "its deadline has passed" if posted_objection.deadline < load_cursor_time(uow) else None


class BringObjectionCall(ContractCall):
    """Submits a node's signed objection (`objectFor`).

    A call that fails is not repeated, because the owner may post the objection again.
    """

    name = SUBMIT_OBJECTION

    def __init__(self, context: KickoutContext) -> None:
        self._context = context

    @override
    def review_call(
        self, uow: UnitOfWork, call: Intent, heads: Heads, stage: CallStage
    ) -> Decision:
        if stage not in {CallStage.ADMIT, CallStage.SIGN}:
            return Decision.proceed()
        if not self._context.account_context.is_at_head(uow, heads):
            return Decision.wait_for_next_block(
                heads, ("behind", "the database is behind the head")
            )
        contract = self._context.objections_contract
        if contract is None:
            return Decision.wait_for_next_block(
                heads, ("posts disabled", "objections.accept_posts is off")
            )
        posted_objection = uow.objection_inbox.find_by_intent(call.id)
        if posted_objection is None:
            reason: str | None = "it is not in the inbox"
        elif call.request.contract != contract:
            reason = "objections.address was changed"
        else:
            reason = find_withdrawal_reason(self._context, uow, posted_objection)
        if reason is not None:
            return Decision.end(IntentState.SUPERSEDED, reason)
        return Decision.proceed()

    @override
    def on_closed(
        self,
        uow: UnitOfWork,
        call: Intent,
        reason: str | None,
        *,
        replaced_by: Intent | None = None,
    ) -> None:
        posted_objection = uow.objection_inbox.find_by_intent(call.id)
        if posted_objection is not None:
            uow.objection_inbox.mark_ended(
                posted_objection, self._context.account_context.stamp.at, reason
            )
