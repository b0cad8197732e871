"""Plans the calls of a kickout: the proposal, then the execution, or the cancellation.

A kickout is proposed on final evidence, executed while it is due, and cancelled otherwise. The
contract checks each call again. See docs/explanation/kickouts.md#lifecycle.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_oracle import (
    ContractStatus,
    OracleContract,
    encode_cancel_kick_call,
    encode_execute_kick_call,
    encode_propose_kick_call,
    encode_retry_kick_call,
)
from oracle.chain.heads import Heads
from oracle.domain.coverage import VerificationLevel
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address
from oracle.domain.reports.kicks import Kick, KickState
from oracle.kickouts.kick_calls import end_obsolete_call, is_retry_due, report_unjustified_kickout
from oracle.kickouts.kickout_context import (
    CANCEL_KICK,
    EXECUTE_KICK,
    RETRY_KICK,
    KickoutContext,
)
from oracle.kickouts.kickout_eligibility import (
    KickoutCase,
    find_due_interval,
    find_due_intervals,
    find_proposable_cases,
    find_valid_kicks,
    has_matching_evidence,
    load_evidence_verification,
    load_kickout_cases,
)
from oracle.kickouts.proof import EvidenceVerification
from oracle.kickouts.proposer import PRIORITY, has_open_call, propose_kickout, propose_kickouts
from oracle.signing.typed_data import KickStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.client.refusal import RefusalAction
from oracle.txmgr.context import StepResult
from oracle.txmgr.deferral import find_held_subjects

_SIGNATURE_BYTES = 65


@dataclass(frozen=True, slots=True)
class _PlanInputs:
    """The pending work on kickouts, as read from the database.

    `obsolete_kicks` are live kickouts whose interval is over, even if another interval has opened
    since. `nodes_with_evidence` are the nodes of obsolete kickouts whose evidence is still on the
    chain. `retriable_kicks` are expulsions for which the network has to be called again.
    """

    due_kicks: tuple[Kick, ...]
    obsolete_kicks: tuple[Kick, ...]
    nodes_with_evidence: frozenset[Address]
    retriable_kicks: tuple[Kick, ...]
    cases: tuple[KickoutCase, ...]

    @property
    def has_calls(self) -> bool:
        return bool(self.due_kicks or self.obsolete_kicks or self.retriable_kicks)

    @property
    def proposals(self) -> list[KickoutCase]:
        return [case for case in self.cases if case.is_ready]


def plan_kickout_call(context: KickoutContext, heads: Heads) -> StepResult | None:
    """Plan the next cancellation, execution or retry or, if there is none, all proposals.

    Return None if nothing is planned. Nothing is planned while indexing is behind the head,
    because an open interval may have closed since. Nothing is planned on a stalled chain either,
    because no node is to blame for the stall (docs/explanation/ingest.md#heads). While the sanity
    gate holds a report, kickouts are only cancelled.
    """
    if heads.stalled or context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        plan_inputs = (
            _load_plan_inputs(context, uow)
            if context.account_context.is_at_head(uow, heads)
            else None
        )
    if plan_inputs is None:
        return None
    return (
        (end_obsolete_call(context) if context.account_context.sender_account.has_payer else None)
        or _plan_next_call(context, plan_inputs)
        or _verify_next_blocks(context, plan_inputs.cases)
    )


def _load_plan_inputs(context: KickoutContext, uow: UnitOfWork) -> _PlanInputs:
    kickout_rules = context.kickout_rules
    is_holding_reports = uow.holds.is_awaiting_operator()
    live_kicks, intervals = uow.rounds.list_live_kicks(), find_due_intervals(uow, context.rules)
    evidence_cache = context.evidence_cache
    due_kicks = find_valid_kicks(uow, kickout_rules, live_kicks, intervals, evidence_cache)
    due_nodes = {kick.node for kick in due_kicks}
    obsolete_kicks = (
        [kick for kick in live_kicks if kick.node not in due_nodes]
        if context.account_context.sender_account.has_payer
        else []
    )
    nodes_with_evidence = frozenset(
        kick.node
        for kick in obsolete_kicks
        if has_matching_evidence(uow, kickout_rules, kick, evidence_cache)
    )
    evidence_cache.retain({kick.node for kick in live_kicks})
    expelled = (
        uow.rounds.list_expulsions() if context.account_context.sender_account.has_payer else []
    )
    return _PlanInputs(
        due_kicks=() if is_holding_reports else tuple(due_kicks),
        obsolete_kicks=tuple(obsolete_kicks),
        nodes_with_evidence=nodes_with_evidence,
        retriable_kicks=()
        if is_holding_reports
        else tuple(
            expelled_kick for expelled_kick in expelled if is_retry_due(uow, expelled_kick)
        ),
        cases=()
        if is_holding_reports
        else tuple(
            find_proposable_cases(
                uow, kickout_rules, _get_required_level(context), intervals, live_kicks
            )
        ),
    )


def _plan_next_call(context: KickoutContext, plan_inputs: _PlanInputs) -> StepResult | None:
    if not (plan_inputs.has_calls or plan_inputs.proposals):
        return None
    contract_status = context.quorum.fetch_contract_status()
    steps = chain(
        (
            _plan_cancellation(context, kick, plan_inputs.nodes_with_evidence)
            for kick in plan_inputs.obsolete_kicks
        ),
        (
            _plan_execution_or_renewal(context, kick, contract_status)
            for kick in plan_inputs.due_kicks
        ),
        (plan_retry(context, kick, contract_status) for kick in plan_inputs.retriable_kicks),
    )
    step = next((step for step in steps if step is not None), None)
    return step or propose_kickouts(context, plan_inputs.proposals, contract_status)


def describe_preflight(sender_account: SenderAccount, case: KickoutCase) -> str:
    """Return as text the simulated result of proposing a kickout, or of executing a live one.

    Nothing is signed: a proposal is simulated with an empty signature. The contract checks the
    signature last, so if it refuses the signature, everything else is valid.
    """
    address = sender_account.domain.contract
    contract_status = OracleContract(sender_account.pool_view, address).get_status()
    sender = sender_account.sender if sender_account.has_payer else ZERO_ADDRESS
    if case.kick is not None and case.kick.state is KickState.LIVE:
        calldata = encode_execute_kick_call(case.node)
    else:
        evidence = ZERO_HASH if case.evidence is None else case.evidence.hash
        head, deadline = contract_status.head, contract_status.block.time + 600
        last_report, config = contract_status.last_report, contract_status.config
        unsigned_statement = KickStatement(
            config, head.round, last_report, case.node, evidence, deadline
        )
        calldata = encode_propose_kick_call(
            unsigned_statement, bytes(_SIGNATURE_BYTES * contract_status.head.quorum)
        )
    call = SimulatedCall(sender, address, calldata)
    result = preflight(sender_account.pool_view, call, decode_refusal)
    is_unsigned = result.refusal is not None and result.refusal.name == "BadSignature"
    return "accepted" if result.outcome is PreflightOutcome.OK or is_unsigned else result.reason


def plan_kick_execution(
    context: KickoutContext, kick: Kick, contract_status: ContractStatus
) -> StepResult | None:
    """Plan the execution of a live kickout; return None if it cannot be executed yet."""
    ripe_round = kick.round + contract_status.limits.kick_rounds
    is_ripe = (
        contract_status.block.time >= kick.ready_at and contract_status.head.round >= ripe_round
    )
    if not is_ripe or _has_open_or_held_call(context, kick, EXECUTE_KICK):
        return None
    proof = _load_evidence_verification(context, kick)
    if proof is not None and proof.reason is not None:
        return _verify_evidence(context, kick.node, proof)
    call = encode_execute_kick_call(kick.node)
    result = context.account_context.preflight(call)
    not_before = _get_earliest_retry_time(
        result, contract_status.block.time + context.settings.period_seconds
    )
    if result.outcome is not PreflightOutcome.OK and not_before is None:
        return None
    return plan_kick_call(context, kick, EXECUTE_KICK, call, not_before)


def plan_retry(
    context: KickoutContext, kick: Kick, contract_status: ContractStatus
) -> StepResult | None:
    """Plan another request to end an expelled node's membership; return None if none is due.

    The contract requires some rounds between two requests.
    """
    expulsion, min_rounds = kick.expulsion, contract_status.limits.kick_rounds
    if expulsion is None or contract_status.head.round < expulsion.tried_in + min_rounds:
        return None
    call = encode_retry_kick_call(kick.node)
    if _has_open_or_held_call(context, kick, RETRY_KICK):
        return None
    is_allowed = context.account_context.preflight(call).outcome is PreflightOutcome.OK
    return plan_kick_call(context, kick, RETRY_KICK, call) if is_allowed else None


def _plan_execution_or_renewal(
    context: KickoutContext, kick: Kick, contract_status: ContractStatus
) -> StepResult | None:
    """Plan the execution of a kickout, or a new proposal if it was not executed in time.

    A reporter that only signs executes nothing, but signs the new proposal.
    """
    step = (
        plan_kick_execution(context, kick, contract_status)
        if context.account_context.sender_account.has_payer
        else None
    )
    if step is not None or contract_status.block.time <= kick.dies_at:
        return step
    with context.account_context.store.read_transaction() as uow:
        cases = [case for case in _load_cases(context, uow, [kick.node]) if case.node == kick.node]
    return next(
        (propose_kickout(context, case, contract_status) for case in cases if case.is_ready), None
    )


def _get_earliest_retry_time(result: PreflightResult, default_time: int) -> int | None:
    """Return the chain time from which a refused call may work, or None if waiting is useless.

    `default_time` is used if the contract gives no time. If the rate limit's bucket is empty, the
    call waits until the bucket is refilled, and is not tried at every block
    (tests/faults/sending/cases.toml#f58).
    """
    refusal = result.refusal
    if refusal is None or refusal.action is not RefusalAction.WAIT:
        return None
    return refusal.not_before or default_time


def _load_cases(
    context: KickoutContext, uow: UnitOfWork, late_nodes: Collection[Address] = ()
) -> list[KickoutCase]:
    return load_kickout_cases(
        uow,
        context.kickout_rules,
        _get_required_level(context),
        late_nodes,
    )


def _get_required_level(context: KickoutContext) -> VerificationLevel:
    return VerificationLevel.PROVEN if context.verifier is None else context.verifier.get_level()


def _load_evidence_verification(
    context: KickoutContext, kick: Kick
) -> EvidenceVerification | None:
    """Return how well the blocks behind a kickout are verified, or None if it has no interval."""
    with context.account_context.store.read_transaction() as uow:
        open_interval = find_due_interval(uow, kick.node, context.rules)
        # If the node has left since, its departure closed its newest interval.
        intervals = (
            uow.kickouts.list_for_node(kick.node)[-1:]
            if open_interval is None
            else [open_interval]
        )
        if not intervals:
            return None
        return load_evidence_verification(
            uow, context.rules, intervals[0], _get_required_level(context)
        )


def _verify_next_blocks(
    context: KickoutContext, cases: Sequence[KickoutCase]
) -> StepResult | None:
    """Verify some blocks that a kickout waits for; return None if none was verified."""
    for case in cases:
        step = None if case.proof is None else _verify_evidence(context, case.node, case.proof)
        if step is not None:
            return step
    return None


def _verify_evidence(
    context: KickoutContext, node: Address, proof: EvidenceVerification
) -> StepResult | None:
    if context.verifier is None or proof.obstacle is not None or not proof.unproven:
        return None
    verified_count = context.verifier.verify_next_blocks(proof)
    remaining_count = len(proof.unproven) - verified_count
    result = StepResult(
        "kickout evidence verified", None, f"{node}: {remaining_count} blocks left"
    )
    return result if verified_count else None


def _plan_cancellation(
    context: KickoutContext, kick: Kick, nodes_with_evidence: Collection[Address]
) -> StepResult | None:
    """Plan the cancellation of a kickout that is no longer due, or return None.

    If the interval is closed, the cancellation is planned once the contract allows it, because the
    node's lane has recovered too. If the evidence left the chain, the kickout is reported for
    review at once, because an operator may veto it. The cancellation is planned as well, and waits
    until the contract allows it.
    """
    kind = CANCEL_KICK
    if _has_open_or_held_call(context, kick, kind):
        return None
    if kick.node in nodes_with_evidence:
        call = encode_cancel_kick_call(kick.node, "no longer due")
        is_allowed = context.account_context.preflight(call).outcome is PreflightOutcome.OK
        return plan_kick_call(context, kick, kind, call) if is_allowed else None
    report_unjustified_kickout(kick.node, "the evidence behind its kickout left the chain")
    return plan_kick_call(
        context, kick, kind, encode_cancel_kick_call(kick.node, "evidence left the chain")
    )


def _has_open_or_held_call(context: KickoutContext, kick: Kick, kind: str) -> bool:
    """Return whether a call about the node is in flight, or a call of this kind is held."""
    subject = kick.node
    with context.account_context.store.read_transaction() as uow:
        is_held = (kind, subject) in find_held_subjects(uow, context.account_context.account)
        return is_held or has_open_call(context, uow, subject)


def plan_kick_call(
    context: KickoutContext, kick: Kick, kind: str, calldata: str, not_before: int | None = None
) -> StepResult:
    """Plan a call about a kickout, to be reviewed from the chain time `not_before` on."""
    subject = kick.node
    with context.account_context.write_transaction() as uow:
        intents = uow.outbox.intents
        try_count = intents.count_for_round(
            context.account_context.account, kind, subject, kick.round
        )
        request = CallRequest(
            account=context.account_context.account,
            contract=context.account_context.sender_account.domain.contract,
            kind=kind,
            dedup_key=f"{kind}:{subject}:round={kick.round}:try={try_count + 1}",
            calldata=calldata,
            subject=subject,
            round=kick.round,
            priority=PRIORITY,
            as_of_block=kick.proposed_at.block if kind == EXECUTE_KICK else None,
            not_before=not_before,
            exclusive_key=f"{kind}:{subject}",
        )
        intent_id = intents.add(request, context.account_context.stamp)
    return StepResult(f"{kind} planned", intent_id, kick.node)
