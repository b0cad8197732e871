"""Plans manual kickout calls under the daemon's conditions; errors name the unmet condition.

Even if a case has no obstacle, its call may be impossible. The functions then find the reason.
"""

from collections.abc import Iterator
from dataclasses import replace

from oracle.bindings.qos_oracle import (
    ContractStatus,
    OracleContract,
    encode_execute_kick_call,
    get_signers,
)
from oracle.chain.heads import Heads
from oracle.daemon.records import Records
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.kicks import Kick
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.kickouts.kickout_context import EXECUTE_KICK, KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase, is_kickout_still_due
from oracle.kickouts.kickout_planner import plan_kick_execution as plan_execution
from oracle.kickouts.proposer import (
    build_kick_statement,
    compute_round_capacity,
    find_open_call,
    find_proposal,
    propose_kickout as plan_proposal,
)
from oracle.queries.text.text_tables import format_block_time
from oracle.quorum.collector import load_signatures
from oracle.quorum.signing_round import RENEWAL_ROUNDS
from oracle.quorum.statements import build_kick_record
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState, SignedStatement
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import StepResult


def get_not_due_reason(records: Records, node: Address) -> str:
    """Return why a node has no due kickout, judging by the node's membership."""
    with records.store.read_transaction() as uow:
        known_node = uow.nodes.get_many([node]).get(node)
    if known_node is None:
        return "no node with this address has ever joined; see `qos-oracle nodes`"
    if known_node.membership is Membership.KICKED_OUT:
        folder = records.config.oracle.evidence_folder
        return f"already kicked out; the evidence file is in {folder}, named by its hash"
    return "the kickout is not due; see `qos-oracle kickout list`"


def format_veto_deadline(node: str, ready_at: int, now: int) -> str:
    """Describe the time until which a live kickout can be vetoed; `now` is in chain time."""
    deadline = format_block_time(ready_at)
    if now < ready_at:
        return f"the vetoer has until {deadline}"
    return (
        f"the vetoer had until {deadline}; `qos-oracle kickout execute {node}` shows what else "
        "must happen first"
    )


def plan_manual_proposal(context: KickoutContext, case: KickoutCase, heads: Heads) -> StepResult:
    """Sign the proposal of an unobstructed case, and plan its call if possible.

    Raises:
        InputError: the database is behind, a report is held, or the proposal cannot be planned;
            the message has the reason.
    """
    _check_synced(context, heads)
    contract_status = context.quorum.fetch_contract_status()
    signed_step = plan_proposal(context, case, contract_status)
    if signed_step is None:
        raise InputError(f"{case.node}: {_get_proposal_obstacle(context, case, contract_status)}")
    # The first step signs the proposal if it is unsigned; the next step plans the call.
    if signed_step.intent_id is not None:
        return signed_step
    planned_step = plan_proposal(context, case, contract_status)
    obstacle_note = (
        ""
        if planned_step
        else f"; nothing is sent: {_get_proposal_obstacle(context, case, contract_status)}"
    )
    return planned_step or replace(signed_step, detail=f"{signed_step.detail}{obstacle_note}")


def plan_manual_execution(context: KickoutContext, kick: Kick, heads: Heads) -> StepResult:
    """Plan the execution of a live kickout.

    Raises:
        InputError: the database is behind, a report is held, the evidence has changed, the veto
            period or the required rounds are not over, or the call cannot be planned.
    """
    _check_synced(context, heads)
    with context.account_context.store.read_transaction() as uow:
        if not is_kickout_still_due(uow, context.kickout_rules, kick):
            raise InputError(
                f"{kick.node}: the kickout was proposed on evidence {kick.evidence}, but the node "
                "is due on different evidence; check the proposal and its proposer (`qos-oracle "
                "kickout evidence`); the vetoer can cancel the proposal"
            )
    contract_status = context.quorum.fetch_contract_status()
    pending_text = "; ".join(_list_pending_conditions(kick, contract_status))
    if pending_text:
        raise InputError(f"{kick.node}: the kickout cannot be executed yet: {pending_text}")
    planned_step = plan_execution(context, kick, contract_status)
    if planned_step is None:
        raise InputError(f"{kick.node}: {_get_execution_obstacle(context, kick)}")
    if planned_step.intent_id is None:
        unsent_note = (
            "nothing sent yet: the underlying blocks are verified first; run the command again"
        )
        return replace(planned_step, detail=f"{planned_step.detail}; {unsent_note}")
    return planned_step


def get_cancel_refusal_reason(contract: OracleContract, verdict: PreflightResult) -> str:
    """Return why the contract rejects this daemon's cancellation, with an explanation if known."""
    if verdict.refusal is None or verdict.refusal.name != "NotAllowed":
        return verdict.reason or "the contract gives no reason"
    vetoer = contract.get_configuration().vetoer
    vetoer_text = "the contract has none" if vetoer == ZERO_ADDRESS else vetoer
    return (
        "while the node is below the threshold, only the vetoer can cancel the kickout "
        f"({vetoer_text}), and this daemon does not have the vetoer's key ({verdict.reason})"
    )


def _list_pending_conditions(kick: Kick, contract_status: ContractStatus) -> Iterator[str]:
    now, head = contract_status.block.time, contract_status.head
    if now < kick.ready_at:
        left = kick.ready_at - now
        deadline = format_block_time(kick.ready_at)
        yield f"the vetoer has until {deadline}, {left} s of chain time from now"
    executable_round = kick.round + contract_status.limits.kick_rounds
    if head.round < executable_round:
        yield f"round {executable_round} must be accepted first, the newest is {head.round}"


def _check_synced(context: KickoutContext, heads: Heads) -> None:
    with context.account_context.store.read_transaction() as uow:
        if not context.account_context.is_at_head(uow, heads):
            raise InputError(
                f"the database is behind block {heads.latest.number}, so a kickout that it shows "
                "as due may no longer be due; run `qos-oracle run --once` first"
            )
        if uow.holds.is_awaiting_operator():
            raise InputError(
                "a report is held, and kickouts wait for its review; see `qos-oracle "
                "report release`"
            )


def _get_proposal_obstacle(
    context: KickoutContext, case: KickoutCase, contract_status: ContractStatus
) -> str:
    """Return the first reason why the proposal of a case without an obstacle was not planned.

    Raises:
        TransientError: no endpoint returned the list of signers.
    """
    if case.index is None or case.evidence is None:
        return "node not registered in the oracle contract, or no evidence yet"
    statement = build_kick_statement(context, case, contract_status)
    if statement is None:
        return (
            f"it cannot be signed before round {case.min_signing_round}, which is not accepted "
            "yet; `qos-oracle report push` shows the progress"
        )
    record = build_kick_record(context.quorum, statement)
    with context.account_context.store.read_transaction() as uow:
        reasons = (
            _find_expiry_reason(record, contract_status),
            _find_unsent_reason(context, uow, record, contract_status)
            if context.account_context.sender_account.has_payer
            else None,
            _find_unsigned_reason(uow, record, contract_status)
            if context.account_context.sender_account.has_signer
            else None,
        )
    first_reason = next((reason for reason in reasons if reason is not None), None)
    if first_reason is None and not context.account_context.sender_account.has_payer:
        return (
            "no transmitter key is configured; a reporter that has one sends the call with this "
            "daemon's signature"
        )
    return first_reason or _get_missing_signatures_reason(context, case, record, contract_status)


def _get_execution_obstacle(context: KickoutContext, kick: Kick) -> str:
    """Return why the execution of an executable kickout was not planned."""
    subject, kind = kick.node, EXECUTE_KICK
    with context.account_context.store.read_transaction() as uow:
        held_intents = uow.outbox.intents.list_in_states(
            context.account_context.account, [IntentState.HELD]
        )
        matching_intents = [
            held_intent
            for held_intent in held_intents
            if (held_intent.request.kind, held_intent.request.subject) == (kind, subject)
        ]
        blocking_intent = find_open_call(context, uow, subject) or next(
            iter(matching_intents), None
        )
    if blocking_intent is not None:
        return _describe_open_call(blocking_intent)
    call = encode_execute_kick_call(kick.node)
    verdict = context.account_context.preflight(call)
    return f"the contract rejects it: {verdict.reason or 'no reason is given'}"


def _find_expiry_reason(record: SignedStatement, contract_status: ContractStatus) -> str | None:
    late = contract_status.block.time - record.expires_at
    if late <= 0:
        return None
    return (
        f"a proposal signed on round {record.round} expired {late} s of chain time ago; the next "
        "round must be accepted first; `qos-oracle report push` shows the progress"
    )


def _find_unsigned_reason(
    uow: UnitOfWork, record: SignedStatement, contract_status: ContractStatus
) -> str | None:
    if record.signer in load_signatures(uow, record):
        return None
    embargoed_until = uow.statements.get_embargo_end(
        record.chain_id, record.contract, record.signer
    )
    if embargoed_until is not None and contract_status.block.time < embargoed_until:
        return (
            f"this daemon's signer signs nothing until chain time {embargoed_until}, because its "
            "database was lost"
        )
    return (
        "this daemon's signer does not sign it: the signer is in a backoff, or another statement "
        f"of its own about the node on round {record.round} may still land"
    )


def _find_unsent_reason(
    context: KickoutContext,
    uow: UnitOfWork,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> str | None:
    open_intent = find_open_call(context, uow, record.subject)
    if open_intent is not None:
        return _describe_open_call(open_intent)
    if compute_round_capacity(context, uow, contract_status) <= 0:
        limit = contract_status.limits.max_kicks_per_round
        return (
            f"round {contract_status.head.round} has the maximum number of proposals ({limit}), "
            "including pending ones; the kickout is proposed in the next round"
        )
    intent = find_proposal(uow, record)
    if intent is not None:
        return (
            f"the proposal signed on round {record.round} was already tried: intent {intent.id} "
            f"is {intent.state.value}; {_format_show_hint(intent)}; it is signed again within "
            f"{RENEWAL_ROUNDS} rounds"
        )
    return None


def _describe_open_call(intent: Intent) -> str:
    kind = intent.request.kind
    return (
        f"another call for it ({kind} {intent.id}) is {intent.state.value}; "
        f"{_format_show_hint(intent)}"
    )


def _format_show_hint(intent: Intent) -> str:
    return f"see `qos-oracle outbox show {intent.id}`"


def _get_missing_signatures_reason(
    context: KickoutContext,
    case: KickoutCase,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> str:
    signers = get_signers(
        context.account_context.sender_account.pool_view, record.contract, contract_status.block
    )
    with context.account_context.store.read_transaction() as uow:
        collected_signatures = load_signatures(uow, record)
    missing = [signer for signer in signers if signer not in collected_signatures]
    count, quorum = len(signers) - len(missing), contract_status.head.quorum
    hint = (
        "their daemons must be running, and sign it once it is due there"
        if case.hold_reason is None
        else "their operators must also propose it manually, because it is held for review"
    )
    return (
        f"{count} of {quorum} signatures are collected; missing from {', '.join(missing)}: {hint}"
    )
