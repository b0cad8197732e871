"""Plans kickout calls: accusations, executions, clearings, and retries to the network.

Each call carries a proof of the node's leaf in the last round, so that the contract does not have
to trust the sender. Anyone may send the same calls. See docs/explanation/kickouts.md#lifecycle.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracle.bindings.qos_roots import (
    RootsStatus,
    encode_accuse_call,
    encode_clear_accusation_call,
    encode_execute_kick_call,
    encode_retry_kick_call,
)
from oracle.chain.heads import Heads
from oracle.domain.ids import Address
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.roots.pieces import PiecedRound
from oracle.errors import InputError, TransientError
from oracle.kickouts.evidence_files import export_evidence
from oracle.kickouts.kick_calls import end_obsolete_kickout_call, is_kick_retry_due
from oracle.kickouts.kickout_cases import (
    KickoutCase,
    is_accused_for_interval,
    is_kickout_due_at_head,
    load_kickout_cases,
    load_kickout_evidence,
    load_last_round,
)
from oracle.kickouts.kickout_context import KickoutContext
from oracle.kickouts.objection_delay import is_objection_accepted
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    ACCUSE,
    CLEAR_KICK,
    EXECUTE_KICK,
    RETRY_KICK,
    CallRequest,
    Intent,
)
from oracle.txmgr.call_registry import MAX_REFUSAL_WAIT_SECONDS
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult
from oracle.txmgr.client.refusal import RefusalAction
from oracle.txmgr.context import StepResult, merge_results
from oracle.txmgr.deferral import find_held_subjects

# Calls with lower numbers are sent first, so report pushes precede kickout calls.
PRIORITY = 200
# Maximum number of calls that are planned per step. It is low, because a new round invalidates
# calls that have not been sent.
_MAX_CALLS_PER_STEP = 16


@dataclass(frozen=True, slots=True)
class _PlanInputs:
    """The pending kickout work, as read from the database.

    `retriable_kicks` are expulsions for which the network has to be called again.
    `is_holding_reports` is whether a report waits for an operator. The scores may then be wrong,
    so accusations are only cleared.
    """

    last_round: PiecedRound
    cases: tuple[KickoutCase, ...]
    retriable_kicks: tuple[NodeKick, ...]
    is_holding_reports: bool


def plan_kickout_call(context: KickoutContext, heads: Heads) -> StepResult | None:
    """Plan the kickout calls that are due.

    The result is None if nothing is planned. Nothing is planned while indexing is behind the head,
    because a kickout that is due in the index may no longer be due at the head. Nothing is planned
    on a stalled chain either, because no node is to blame for the stall
    (docs/explanation/ingest.md#heads). While the sanity gate holds a report, accusations are only
    cleared.
    """
    if (
        heads.stalled
        or context.account_context.is_halted()
        or not context.account_context.sender_account.has_payer
    ):
        return None
    with context.account_context.store.read_transaction() as uow:
        plan_inputs = (
            _load_plan_inputs(context, uow)
            if context.account_context.is_at_head(uow, heads)
            else None
        )
    if plan_inputs is None:
        return None
    return end_obsolete_kickout_call(context) or _plan_calls(context, plan_inputs)


def _load_plan_inputs(context: KickoutContext, uow: UnitOfWork) -> _PlanInputs | None:
    last_round = load_last_round(uow, context.leaf_cache)
    if last_round is None:
        return None
    cases = load_kickout_cases(
        uow, context.leaf_cache, context.policy, context.report_settings, with_hold_reasons=False
    )
    expulsions = uow.rounds.list_expulsions()
    return _PlanInputs(
        last_round,
        tuple(cases),
        tuple(kick for kick in expulsions if is_kick_retry_due(uow, kick)),
        uow.holds.is_awaiting_operator(),
    )


def _plan_calls(context: KickoutContext, plan_inputs: _PlanInputs) -> StepResult | None:
    has_work = plan_inputs.retriable_kicks or any(
        case.obstacle is None or (case.kick is not None and case.kick.is_accused)
        for case in plan_inputs.cases
    )
    if not has_work:
        return None
    contract_status = context.quorum.fetch_contract_status()
    if contract_status.head.round != plan_inputs.last_round.summary.round:
        # The contract has already accepted a newer round, but it is not indexed yet.
        return None
    steps: list[StepResult] = []
    for step_result in _iter_plan_results(context, plan_inputs, contract_status):
        steps.append(step_result)
        if len(steps) == _MAX_CALLS_PER_STEP:
            break
    return merge_results("kickouts", steps)


def _iter_plan_results(
    context: KickoutContext, plan_inputs: _PlanInputs, contract_status: RootsStatus
) -> Iterator[StepResult]:
    last_round = plan_inputs.last_round
    for case in plan_inputs.cases:
        step_result = plan_accusation_clearing(context, case, last_round)
        if step_result is None and not plan_inputs.is_holding_reports:
            step_result = plan_execution(
                context, case, last_round, contract_status
            ) or plan_accusation(context, case, last_round)
        if step_result is not None:
            yield step_result
    if not plan_inputs.is_holding_reports:
        for kick in plan_inputs.retriable_kicks:
            step_result = plan_retry(context, kick, contract_status)
            if step_result is not None:
                yield step_result


def plan_accusation(
    context: KickoutContext, case: KickoutCase, last_round: PiecedRound
) -> StepResult | None:
    """Plan a call that accuses a node.

    The result is None if the call cannot be sent now. The case must have no obstacle. The evidence
    file is written before the call is planned.

    Raises:
        TransientError: the evidence file cannot be written.
    """
    if case.obstacle is not None or case.proof is None or not _is_case_due_at_head(context, case):
        return None
    calldata = encode_accuse_call(case.proof.leaf, case.proof.hashes)
    if _has_open_or_held_call(context, case.node, ACCUSE):
        return None
    not_before = _find_earliest_call_time(context, calldata)
    if not_before is None:
        return None
    _export_evidence(context, case)
    request = _build_case_request(context, ACCUSE, case, calldata, last_round)
    return _enqueue_call(context, request, not_before)


def plan_execution(
    context: KickoutContext,
    case: KickoutCase,
    last_round: PiecedRound,
    contract_status: RootsStatus,
) -> StepResult | None:
    """Plan a call that executes an accusation.

    The result is None if it cannot be executed yet. If the operator of this reporter has accepted
    the node's objection, this reporter does not execute the kickout.
    """
    accusation = None if case.kick is None else case.kick.accusation
    if (
        case.proof is None
        or accusation is None
        or not is_accused_for_interval(case.kick, case.due_since)
        or contract_status.block.time < accusation.ready_at
        or contract_status.head.round < accusation.round + contract_status.limits.kick_rounds
        or not _is_case_due_at_head(context, case)
        or _has_open_or_held_call(context, case.node, EXECUTE_KICK)
    ):
        return None
    with context.account_context.store.read_transaction() as uow:
        if is_objection_accepted(uow, case.node, case.due_since):
            return None
    calldata = encode_execute_kick_call(case.proof.leaf, case.proof.hashes, last_round.summary)
    not_before = _find_earliest_call_time(context, calldata)
    if not_before is None:
        return None
    request = _build_case_request(context, EXECUTE_KICK, case, calldata, last_round)
    return _enqueue_call(context, request, not_before)


def plan_accusation_clearing(
    context: KickoutContext, case: KickoutCase, last_round: PiecedRound
) -> StepResult | None:
    """Plan a call that ends an accusation no longer justified by the last round.

    The result is None if no such call can be sent now.
    """
    if (
        case.kick is None
        or not case.kick.is_accused
        or case.proof is None
        or is_accused_for_interval(case.kick, case.due_since)
        or _has_open_or_held_call(context, case.node, CLEAR_KICK)
    ):
        return None
    calldata = encode_clear_accusation_call(case.proof.leaf, case.proof.hashes)
    if _find_earliest_call_time(context, calldata) is None:
        return None
    request = _build_case_request(context, CLEAR_KICK, case, calldata, last_round)
    return _enqueue_call(context, request)


def plan_retry(
    context: KickoutContext, kick: NodeKick, contract_status: RootsStatus
) -> StepResult | None:
    """Plan another request to end an expelled node's membership.

    The result is None if none is due. No request is due until some rounds after the last one,
    because the contract requires this.
    """
    expulsion, min_rounds = kick.expulsion, contract_status.limits.kick_rounds
    if expulsion is None or contract_status.head.round < expulsion.tried_in + min_rounds:
        return None
    calldata = encode_retry_kick_call(kick.node)
    if _has_open_or_held_call(context, kick.node, RETRY_KICK):
        return None
    if context.account_context.preflight(calldata).outcome is not PreflightOutcome.OK:
        return None
    head_round = contract_status.head.round
    return _enqueue_call(
        context, _build_request(context, RETRY_KICK, kick.node, calldata, head_round)
    )


def _is_case_due_at_head(context: KickoutContext, case: KickoutCase) -> bool:
    with context.account_context.store.read_transaction() as uow:
        return is_kickout_due_at_head(uow, case.node, case.due_since, context.policy.rules)


def _find_earliest_call_time(context: KickoutContext, calldata: str) -> int | None:
    """Return the earliest chain time at which a call would succeed.

    The time is 0 if the call can be sent now; the result is None if it never succeeds. The call is
    simulated. If the contract's rate limit is used up, the call waits until the limit admits
    another call, instead of a try at every block (tests/faults/sending/cases.toml#f58). The wait
    is limited to an hour, because an endpoint may return a wrong time.
    """
    preflight_result: PreflightResult = context.account_context.preflight(calldata)
    if preflight_result.outcome is PreflightOutcome.OK:
        return 0
    refusal = preflight_result.refusal
    if refusal is None or refusal.action is not RefusalAction.WAIT:
        return None
    with context.account_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    now = 0 if cursor is None else cursor.time
    return min(refusal.not_before or 0, now + MAX_REFUSAL_WAIT_SECONDS)


def _export_evidence(context: KickoutContext, case: KickoutCase) -> None:
    if case.interval is None:
        return
    with context.account_context.store.read_transaction() as uow:
        evidence = load_kickout_evidence(uow, context.policy, case.interval)
    try:
        export_evidence(context.evidence_folder, case.node, case.due_since, evidence)
    except InputError as error:
        # An input error would stop the daemon. After a transient error, the daemon continues to
        # send reports.
        raise TransientError(str(error)) from error


def find_kickout_call_in_flight(
    context: KickoutContext, uow: UnitOfWork, subject: str
) -> Intent | None:
    """Return the planned call about this node that is not final yet, if there is one."""
    unfinished_intents = uow.outbox.intents.list_unfinished(context.account_context.account)
    return next(
        (intent for intent in unfinished_intents if intent.request.subject == subject), None
    )


def _has_open_or_held_call(context: KickoutContext, node: str, kind: str) -> bool:
    """Return whether a call about the node is in flight, or a call of this kind is held."""
    with context.account_context.store.read_transaction() as uow:
        is_held = (kind, node) in find_held_subjects(uow, context.account_context.account)
        return is_held or find_kickout_call_in_flight(context, uow, node) is not None


def _build_case_request(
    context: KickoutContext, kind: str, case: KickoutCase, calldata: str, last_round: PiecedRound
) -> CallRequest:
    request = _build_request(context, kind, case.node, calldata, last_round.summary.round)
    # The call becomes invalid if a reorg removes the block at which the kickout became due.
    opening_block = None if case.interval is None else case.interval.opened_at.block
    return replace(request, as_of_block=opening_block)


def _build_request(
    context: KickoutContext, kind: str, node: Address, calldata: str, round_number: int
) -> CallRequest:
    """Build the request for a kickout call about a node, as of an accepted round."""
    return CallRequest(
        account=context.account_context.account,
        contract=context.account_context.sender_account.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{node}:round={round_number}",
        calldata=calldata,
        subject=node,
        round=round_number,
        priority=PRIORITY,
        exclusive_key=f"{kind}:{node}",
    )


def _enqueue_call(
    context: KickoutContext, request: CallRequest, not_before: int = 0
) -> StepResult:
    """Store a call that is sent no earlier than the block time `not_before`, in unix seconds."""
    request = replace(request, not_before=not_before or None)
    with context.account_context.write_transaction() as uow:
        intent_id = uow.outbox.intents.add_next_try(request, context.account_context.stamp)
    return StepResult(f"{request.kind} planned", intent_id, request.subject)
