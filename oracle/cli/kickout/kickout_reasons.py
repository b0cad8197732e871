"""Reasons why a manual kickout cannot be planned now although it has no obstacle of its own."""

from oracle.bindings.oracle_views import signers_of
from oracle.bindings.qos_oracle import ContractStatus, execute_call
from oracle.domain.reports.kicks import Kick
from oracle.kickouts.kickout_context import EXECUTE_KICK, KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase
from oracle.kickouts.proposer import capacity_of_round, open_about, statement_against, tried
from oracle.quorum.collector import gathered
from oracle.quorum.signing_round import RENEWED_AFTER
from oracle.quorum.statements import kick_record
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState, SignedStatement


def why_not_proposed(
    context: KickoutContext, look: KickoutCase, contract_status: ContractStatus
) -> str:
    """Return the first reason why a proposal was not planned although nothing opposes it.

    Raises:
        TransientError: no endpoint returned the list of signers.
    """
    if look.index is None or look.evidence is None:
        return "the oracle contract does not know the node, or there is no evidence yet"
    statement = statement_against(context, look, contract_status)
    if statement is None:
        return (
            f"it can be signed on round {look.signable_from} at the earliest, which was not "
            "accepted yet; `qos-oracle report push` says how far that is"
        )
    record = kick_record(context.quorum, statement)
    with context.tx.store.reading() as uow:
        reasons = (
            _why_too_late(record, contract_status),
            _why_not_sent(context, uow, record, contract_status)
            if context.tx.publisher.has_payer
            else None,
            _why_unsigned(uow, record, contract_status)
            if context.tx.publisher.has_signer
            else None,
        )
    known = next((why for why in reasons if why is not None), None)
    if known is None and not context.tx.publisher.has_payer:
        return "there is no transmitter's key here to send it; who has one sends it, with ours"
    return known or _why_too_few(context, look, record, contract_status)


def why_not_executed(context: KickoutContext, kick: Kick) -> str:
    """Return why the execution of a kickout was not planned although it is executable."""
    subject, kind = kick.node, EXECUTE_KICK
    with context.tx.store.reading() as uow:
        held = uow.outbox.intents.in_states(context.tx.account, [IntentState.HELD])
        stopped = [
            one for one in held if (one.request.kind, one.request.subject) == (kind, subject)
        ]
        found = open_about(context, uow, subject) or next(iter(stopped), None)
    if found is not None:
        return _under_way(found)
    call = execute_call(kick.node)
    verdict = context.tx.preflight(call)
    return f"the contract does not take it: {verdict.reason or 'it does not say why'}"


def _why_too_late(record: SignedStatement, contract_status: ContractStatus) -> str | None:
    late = contract_status.block.time - record.expires_at
    if late <= 0:
        return None
    return (
        f"a proposal signed on round {record.round} had to land {late} s of the chain's time ago: "
        "the next round has to be accepted first; `qos-oracle report push` says how far that is"
    )


def _why_unsigned(
    uow: UnitOfWork, record: SignedStatement, contract_status: ContractStatus
) -> str | None:
    if record.signer in gathered(uow, record):
        return None
    embargoed_to = uow.statements.embargoed_until(record.chain_id, record.contract, record.signer)
    if embargoed_to is not None and contract_status.block.time < embargoed_to:
        since = "since its database was lost"
        return f"our signer signs nothing until chain time {embargoed_to}, {since}"
    return (
        "our signer does not sign it: it rests, or another statement of its about the node "
        f"on round {record.round} may still land"
    )


def _why_not_sent(
    context: KickoutContext,
    uow: UnitOfWork,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> str | None:
    about = open_about(context, uow, record.subject)
    if about is not None:
        return _under_way(about)
    if capacity_of_round(context, uow, contract_status) <= 0:
        most = contract_status.limits.max_kicks_per_round
        return (
            f"round {contract_status.head.round} has as many proposals as it may ({most}), those "
            "on their way included: it is proposed in the next round"
        )
    earlier = tried(uow, record)
    if earlier is not None:
        return (
            f"signed on round {record.round} it was tried already, and is {earlier.state.value} "
            f"({earlier.id}); {_shows(earlier)}. It is signed anew in {RENEWED_AFTER} rounds at "
            "the latest"
        )
    return None


def _under_way(intent: Intent) -> str:
    kind = intent.request.kind
    return f"a call about it ({kind} {intent.id}) is {intent.state.value}; {_shows(intent)}"


def _shows(intent: Intent) -> str:
    return f"`qos-oracle outbox show {intent.id}` tells more"


def _why_too_few(
    context: KickoutContext,
    look: KickoutCase,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> str:
    signers = signers_of(context.tx.publisher.lines, record.contract, contract_status.block)
    with context.tx.store.reading() as uow:
        found = gathered(uow, record)
    missing = [signer for signer in signers if signer not in found]
    here, quorum = len(signers) - len(missing), contract_status.head.quorum
    they = (
        "their daemons sign it as soon as they see it due, and have to run"
        if look.held is None
        else "somebody there has to propose it by hand too, as it is held for a person"
    )
    return (
        f"{here} of {quorum} signatures are here; nothing came from {', '.join(missing)}: {they}"
    )
