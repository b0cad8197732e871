"""Explains why a manual kickout cannot be planned now although its case has no obstacle."""

from oracle.bindings.qos_oracle import ContractStatus, encode_execute_kick, get_signers
from oracle.domain.reports.kicks import Kick
from oracle.kickouts.kickout_context import EXECUTE_KICK, KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase
from oracle.kickouts.proposer import (
    build_kick_statement,
    compute_round_capacity,
    find_open_call,
    find_proposal,
)
from oracle.quorum.collector import load_signatures
from oracle.quorum.signing_round import RENEWAL_ROUNDS
from oracle.quorum.statements import build_kick_record
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState, SignedStatement


def proposal_obstacle(
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
            _expiry_reason(record, contract_status),
            _unsent_reason(context, uow, record, contract_status)
            if context.account_context.sender_account.has_payer
            else None,
            _unsigned_reason(uow, record, contract_status)
            if context.account_context.sender_account.has_signer
            else None,
        )
    first_reason = next((reason for reason in reasons if reason is not None), None)
    if first_reason is None and not context.account_context.sender_account.has_payer:
        return (
            "no transmitter key is configured; a reporter that has one sends the call with this "
            "daemon's signature"
        )
    return first_reason or _missing_signatures_reason(context, case, record, contract_status)


def execution_obstacle(context: KickoutContext, kick: Kick) -> str:
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
    call = encode_execute_kick(kick.node)
    verdict = context.account_context.preflight(call)
    return f"the contract rejects it: {verdict.reason or 'no reason is given'}"


def _expiry_reason(record: SignedStatement, contract_status: ContractStatus) -> str | None:
    late = contract_status.block.time - record.expires_at
    if late <= 0:
        return None
    return (
        f"a proposal signed on round {record.round} expired {late} s of chain time ago; the next "
        "round must be accepted first; `qos-oracle report push` shows the progress"
    )


def _unsigned_reason(
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


def _unsent_reason(
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
            f"is {intent.state.value}; {_show_hint(intent)}; it is signed again within "
            f"{RENEWAL_ROUNDS} rounds"
        )
    return None


def _describe_open_call(intent: Intent) -> str:
    kind = intent.request.kind
    return (
        f"another call for it ({kind} {intent.id}) is {intent.state.value}; {_show_hint(intent)}"
    )


def _show_hint(intent: Intent) -> str:
    return f"see `qos-oracle outbox show {intent.id}`"


def _missing_signatures_reason(
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
