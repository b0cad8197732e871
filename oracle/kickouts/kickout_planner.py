"""Kickouts: proposed on final evidence, executed when still due, cancelled when not.

The contract checks all of it again; here nothing is proposed that the evidence does not show.
See docs/explanation/kickouts.md#lifecycle.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from oracle.bindings.contract_errors import refusal_of
from oracle.bindings.qos_oracle import (
    ContractStatus,
    OracleContract,
    cancel_call,
    execute_call,
    propose_call,
    retry_call,
)
from oracle.chain.heads import Heads
from oracle.domain.coverage import Level
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address
from oracle.domain.reports.kicks import Kick, KickState
from oracle.kickouts.kick_calls import alarm, drop_next, is_retry_due
from oracle.kickouts.kickout_context import (
    CANCEL_KICK,
    EXECUTE_KICK,
    RETRY_KICK,
    KickoutContext,
)
from oracle.kickouts.kickout_eligibility import (
    KickoutCase,
    KickoutRules,
    due_interval,
    due_intervals,
    has_matching_evidence,
    looks_at,
    proof_behind,
    proposable_cases,
    wanted_kicks,
)
from oracle.kickouts.proof import EvidenceProof
from oracle.kickouts.proposer import PRIORITY, is_open, propose, propose_all
from oracle.signing.typed_data import KickStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.client.refusal import Action
from oracle.txmgr.context import StepResult
from oracle.txmgr.deferral import held_back

_SIGNATURE_BYTES = 65


@dataclass(frozen=True, slots=True)
class _PlanInputs:
    """What there is to do about kickouts, as the database has it.

    `unwanted`: live ones whose interval is over, though another may have begun; `founded`: the
    nodes of those whose evidence is still the chain's. `refused`: expelled nodes that the network
    is to be asked about once more.
    """

    due: tuple[Kick, ...]
    unwanted: tuple[Kick, ...]
    founded: frozenset[Address]
    refused: tuple[Kick, ...]
    looks: tuple[KickoutCase, ...]

    @property
    def calls(self) -> bool:
        return bool(self.due or self.unwanted or self.refused)

    @property
    def proposals(self) -> list[KickoutCase]:
        return [look for look in self.looks if look.is_ready]


def plan_kick(context: KickoutContext, heads: Heads) -> StepResult | None:
    """Plan the next call about a kickout: cancel or execute, else all proposals; None: nothing.

    History plans nothing: an interval that is open there may have closed since. Nor does a chain
    that stands still: nobody is to be blamed for what did not happen meanwhile
    (docs/explanation/ingest.md#heads). While the sanity gate holds a report, kickouts are
    cancelled and nothing else.
    """
    if heads.stalled or context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        plan_inputs = _plan_inputs(context, uow) if context.tx.is_at_head(uow, heads) else None
    if plan_inputs is None:
        return None
    return (
        (drop_next(context) if context.tx.publisher.has_payer else None)
        or _call_next(context, plan_inputs)
        or _prove_next(context, plan_inputs.looks)
    )


def _plan_inputs(context: KickoutContext, uow: UnitOfWork) -> _PlanInputs:
    kickout_rules = KickoutRules(context.rules, context.settings)
    is_holding_reports = uow.holds.is_any()
    live, intervals = uow.rounds.live_kicks(), due_intervals(uow, context.rules)
    memory = context.evidence
    due = wanted_kicks(uow, kickout_rules, live, intervals, memory)
    wanted = {kick.node for kick in due}
    unwanted = (
        [kick for kick in live if kick.node not in wanted]
        if context.tx.publisher.has_payer
        else []
    )
    founded = frozenset(
        kick.node for kick in unwanted if has_matching_evidence(uow, kickout_rules, kick, memory)
    )
    memory.retain({kick.node for kick in live})
    expelled = uow.rounds.expelled() if context.tx.publisher.has_payer else []
    return _PlanInputs(
        due=() if is_holding_reports else tuple(due),
        unwanted=tuple(unwanted),
        founded=founded,
        refused=() if is_holding_reports else tuple(k for k in expelled if is_retry_due(uow, k)),
        looks=()
        if is_holding_reports
        else tuple(proposable_cases(uow, kickout_rules, _level(context), intervals, live)),
    )


def _call_next(context: KickoutContext, plan_inputs: _PlanInputs) -> StepResult | None:
    if not (plan_inputs.calls or plan_inputs.proposals):
        return None
    contract_status = context.quorum.contract_status()
    steps = chain(
        (_cancel(context, kick, plan_inputs.founded) for kick in plan_inputs.unwanted),
        (_execute_or_renew(context, kick, contract_status) for kick in plan_inputs.due),
        (retry(context, kick, contract_status) for kick in plan_inputs.refused),
    )
    step = next((step for step in steps if step is not None), None)
    return step or propose_all(context, plan_inputs.proposals, contract_status)


def run_dry(publisher: SenderAccount, look: KickoutCase) -> str:
    """Say what the contract would make of a proposal, or of a live kickout's execution, now.

    Nothing is signed: a proposal is tried with an empty signature, which the contract looks at
    last, so that this refusal alone means that all else is in order.
    """
    address = publisher.domain.contract
    contract_status = OracleContract(publisher.lines, address).contract_status()
    sender = publisher.sender if publisher.has_payer else ZERO_ADDRESS
    if look.kick is not None and look.kick.state is KickState.LIVE:
        calldata = execute_call(look.node)
    else:
        evidence = ZERO_HASH if look.evidence is None else look.evidence.hash
        head, until = contract_status.head, contract_status.block.time + 600
        last, config = contract_status.last_report, contract_status.config
        unsigned = KickStatement(config, head.round, last, look.node, evidence, until)
        calldata = propose_call(unsigned, bytes(_SIGNATURE_BYTES * contract_status.head.quorum))
    call = SimulatedCall(sender, address, calldata)
    verdict = preflight(publisher.lines, call, refusal_of)
    is_unsigned = verdict.refusal is not None and verdict.refusal.name == "BadSignature"
    return "accepted" if verdict.outcome is PreflightOutcome.OK or is_unsigned else verdict.reason


def execute(
    context: KickoutContext, kick: Kick, contract_status: ContractStatus
) -> StepResult | None:
    """Plan the execution of a live kickout; return None if it is not ripe or not possible."""
    ripe = kick.round + contract_status.limits.kick_rounds
    is_ripe = contract_status.block.time >= kick.ready_at and contract_status.head.round >= ripe
    if not is_ripe or _is_busy(context, kick, EXECUTE_KICK):
        return None
    proof = _proof_of(context, kick)
    if proof is not None and proof.reason is not None:
        return _prove(context, kick.node, proof)
    call = execute_call(kick.node)
    verdict = context.tx.preflight(call)
    when = _when(verdict, contract_status.block.time + context.settings.period_seconds)
    if verdict.outcome is not PreflightOutcome.OK and when is None:
        return None
    return plan_call(context, kick, EXECUTE_KICK, call, when)


def retry(
    context: KickoutContext, kick: Kick, contract_status: ContractStatus
) -> StepResult | None:
    """Plan another request to end the membership, some rounds after the last; else return None."""
    gone, rests = kick.expulsion, contract_status.limits.kick_rounds
    if gone is None or contract_status.head.round < gone.tried_in + rests:
        return None
    call = retry_call(kick.node)
    if _is_busy(context, kick, RETRY_KICK):
        return None
    is_allowed = context.tx.preflight(call).outcome is PreflightOutcome.OK
    return plan_call(context, kick, RETRY_KICK, call) if is_allowed else None


def _execute_or_renew(
    context: KickoutContext, kick: Kick, contract_status: ContractStatus
) -> StepResult | None:
    """Execute it; or propose anew what nobody executed in time, which takes the dead one's place.

    Who only signs has nothing to execute, but signs again.
    """
    step = execute(context, kick, contract_status) if context.tx.publisher.has_payer else None
    if step is not None or contract_status.block.time <= kick.dies_at:
        return step
    with context.tx.store.reading() as uow:
        looks = [look for look in _looks(context, uow, [kick.node]) if look.node == kick.node]
    return next((propose(context, look, contract_status) for look in looks if look.is_ready), None)


def _when(verdict: PreflightResult, otherwise: int) -> int | None:
    """Return from when a refused call may work, in chain time; None: now, or never.

    `otherwise`: where the contract does not say. An empty bucket is not asked in every block
    again, but when it has been refilled (tests/faults/sending/cases.toml#f58).
    """
    refusal = verdict.refusal
    if refusal is None or refusal.action is not Action.WAIT:
        return None
    return refusal.not_before or otherwise


def _looks(
    context: KickoutContext, uow: UnitOfWork, late: Collection[Address] = ()
) -> list[KickoutCase]:
    return looks_at(uow, KickoutRules(context.rules, context.settings), _level(context), late)


def _level(context: KickoutContext) -> Level:
    return Level.PROVEN if context.verifier is None else context.verifier.level()


def _proof_of(context: KickoutContext, kick: Kick) -> EvidenceProof | None:
    """Check the blocks behind a kickout again before its execution."""
    with context.tx.store.reading() as uow:
        due = due_interval(uow, kick.node, context.rules)
        # Of a node that has left since, the one that its leaving closed.
        intervals = uow.kickouts.of_node(kick.node)[-1:] if due is None else [due]
        if not intervals:
            return None
        return proof_behind(uow, context.rules, intervals[0], _level(context))


def _prove_next(context: KickoutContext, looks: Sequence[KickoutCase]) -> StepResult | None:
    """Verify some of the blocks that a kickout waits for; return None if none was verified."""
    for look in looks:
        step = None if look.proof is None else _prove(context, look.node, look.proof)
        if step is not None:
            return step
    return None


def _prove(context: KickoutContext, node: Address, proof: EvidenceProof) -> StepResult | None:
    if context.verifier is None or proof.obstacle is not None or not proof.unproven:
        return None
    reached = context.verifier.prove(proof)
    left = len(proof.unproven) - reached
    told = StepResult("kickout evidence verified", None, f"{node}: {left} blocks left")
    return told if reached else None


def _cancel(
    context: KickoutContext, kick: Kick, founded: Collection[Address]
) -> StepResult | None:
    """The interval is closed: cancel, where the contract lets us (its lane says so too).

    Or the evidence is no longer the chain's: then a human hears of it at once, who may veto it,
    and ours waits until the contract lets us.
    """
    kind = CANCEL_KICK
    if _is_busy(context, kick, kind):
        return None
    if kick.node in founded:
        call = cancel_call(kick.node, "no longer due")
        is_allowed = context.tx.preflight(call).outcome is PreflightOutcome.OK
        return plan_call(context, kick, kind, call) if is_allowed else None
    alarm(kick.node, "the evidence behind its kickout left the chain")
    return plan_call(context, kick, kind, cancel_call(kick.node, "evidence left the chain"))


def _is_busy(context: KickoutContext, kick: Kick, kind: str) -> bool:
    """Return whether a call about this kickout is in flight, or held by an operator."""
    subject = kick.node
    with context.tx.store.reading() as uow:
        is_held = (kind, subject) in held_back(uow, context.tx.account)
        return is_held or is_open(context, uow, subject)


def plan_call(
    context: KickoutContext, kick: Kick, kind: str, calldata: str, when: int | None = None
) -> StepResult:
    """Plan a call about a kickout, to be reviewed from the chain time `when` on."""
    subject = kick.node
    with context.tx.writing() as uow:
        intents = uow.outbox.intents
        tries = intents.tries(context.tx.account, kind, subject, kick.round)
        request = CallRequest(
            account=context.tx.account,
            contract=context.tx.publisher.domain.contract,
            kind=kind,
            dedup_key=f"{kind}:{subject}:round={kick.round}:try={tries + 1}",
            calldata=calldata,
            subject=subject,
            round=kick.round,
            priority=PRIORITY,
            as_of_block=kick.proposed_at.block if kind == EXECUTE_KICK else None,
            not_before=when,
            exclusive_key=f"{kind}:{subject}",
        )
        intent_id = intents.add(request, context.tx.stamp)
    return StepResult(f"{kind} planned", intent_id, kick.node)
