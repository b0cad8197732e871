"""Proposes a kickout: the evidence is laid down, every reporter signs, a transmitter sends.

What is signed follows from the chain alone, so that a quorum of reporters signs the same.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oracle.bindings.qos_oracle import ContractStatus, propose_call
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_evidence import KickoutEvidence
from oracle.errors import InputError, TransientError
from oracle.kickouts.evidence_files import export
from oracle.kickouts.kick_calls import subject_of
from oracle.kickouts.kickout_context import PROPOSE_KICK, KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase
from oracle.quorum.collector import signatures as gathered_signatures
from oracle.quorum.offering import offer
from oracle.quorum.sign_once import sign_once
from oracle.quorum.signing_round import signing_round
from oracle.quorum.statements import kick_record
from oracle.signing.typed_data import KickStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    ON_ITS_WAY,
    CallRequest,
    Intent,
    SignedStatement,
)
from oracle.txmgr.context import StepResult, as_one
from oracle.txmgr.inclusion_time import why_too_late

# Kickouts wait for nobody, and let nobody wait: they come behind the pushes'.
PRIORITY = 200
# A round has fewer proposals: there is one for each node at most.
_LOOKED_THROUGH = 1000


class _OutgoingProposals(NamedTuple):
    """Proposals of the outbox: digests ever tried, nodes with a call on its way, room left."""

    digests: frozenset[str | None]
    subjects: frozenset[str]
    capacity: int

    def delays(self, record: SignedStatement) -> bool:
        """Tell whether a call about this node is on its way, or the round takes no more.

        Or it was tried already: once is enough, what came of it is in the outbox.
        """
        is_tried = record.digest in self.digests
        return is_tried or self.capacity <= 0 or record.subject in self.subjects


def propose_all(
    context: KickoutContext, looks: Sequence[KickoutCase], contract_status: ContractStatus
) -> StepResult | None:
    """Do of every look what `propose` does, as often as a round takes proposals; None: nothing.

    Together: to look at many that are due takes longer than to sign one, and rounds do not wait.
    """
    max_steps = max(1, contract_status.limits.max_kicks_per_round)
    steps, outgoing = list[StepResult](), None
    for look in looks:
        outgoing = outgoing or _outgoing_proposals(context, contract_status)
        step = _propose(context, look, contract_status, outgoing)
        if step is not None:
            steps.append(step)
            # A step may have put a proposal into the outbox.
            outgoing = None
        if len(steps) == max_steps:
            break
    return as_one("kickouts", steps)


def propose(
    context: KickoutContext, look: KickoutCase, contract_status: ContractStatus
) -> StepResult | None:
    """Sign the proposal of a look that nothing stands against; plan it once a quorum has.

    None: not now: there is no round to sign it on, too few have signed, another statement about
    it may still land, another call about this node is on its way, or the round is full.

    Raises:
        TransientError: the evidence cannot be written: then nothing is signed.
    """
    outgoing = _outgoing_proposals(context, contract_status)
    return _propose(context, look, contract_status, outgoing)


def _propose(
    context: KickoutContext,
    look: KickoutCase,
    contract_status: ContractStatus,
    outgoing: _OutgoingProposals,
) -> StepResult | None:
    if look.index is None or look.evidence is None:
        return None
    statement = statement_against(context, look, contract_status)
    if statement is None or contract_status.block.time > statement.deadline:
        return None
    # The file stands before anything that names its hash.
    _lay_down(context, look.evidence)
    record = kick_record(context.quorum, statement)
    signed = _signed(context, statement, record, contract_status)
    if signed is not None or not context.tx.publisher.has_payer or outgoing.delays(record):
        return signed
    return _enqueue_kick(context, look, statement, record, contract_status)


def _enqueue_kick(
    context: KickoutContext,
    look: KickoutCase,
    statement: KickStatement,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> StepResult | None:
    subject = record.subject
    with context.tx.store.reading() as uow:
        if (
            why_too_late(context.tx, uow, statement.deadline, contract_status.block.time)
            is not None
        ):
            return None
    signatures = gathered_signatures(context.quorum, record, contract_status)
    if signatures is None:
        return None
    request = CallRequest(
        account=context.tx.account,
        contract=record.contract,
        kind=PROPOSE_KICK,
        dedup_key=f"propose_kick:{subject}:round={statement.round}:{record.digest}",
        calldata=propose_call(statement, signatures),
        subject=subject,
        round=statement.round,
        digest=record.digest,
        priority=PRIORITY,
        deadline=statement.deadline,
        as_of_block=look.interval.opened_at.block,
        exclusive_key=f"{PROPOSE_KICK}:{subject}",
    )
    with context.tx.writing() as uow:
        intent_id = uow.outbox.intents.add(request, context.tx.stamp)
    if intent_id is None:
        return None
    return StepResult("kickout proposal planned", intent_id, f"{look.node} {statement.evidence}")


def statement_against(
    context: KickoutContext, look: KickoutCase, contract_status: ContractStatus
) -> KickStatement | None:
    """Return what every reporter signs about a node in these rounds: no clock of ours is in it.

    None: there is no evidence, or the first round that it may be signed on is not accepted yet.
    """
    if look.index is None or look.evidence is None:
        return None
    ttl = context.settings.ttl_seconds
    with context.tx.store.reading() as uow:
        chosen = signing_round(uow, look.signable_from, contract_status.block.time, ttl)
    if chosen is None:
        return None
    return KickStatement(
        config=contract_status.config,
        round=chosen.round,
        report=chosen.digest,
        node=look.node,
        evidence=look.evidence.hash,
        deadline=chosen.time + ttl,
    )


def _lay_down(context: KickoutContext, evidence: KickoutEvidence) -> None:
    try:
        export(context.evidence_folder, evidence)
    except InputError as error:
        # The reports go on meanwhile.
        raise TransientError(str(error)) from error


def _signed(
    context: KickoutContext,
    statement: KickStatement,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> StepResult | None:
    """Sign the statement if there is a signer; return None if nothing new was signed."""
    if not context.tx.publisher.has_signer:
        return None
    with context.tx.store.reading() as uow:
        earlier = uow.statements.live(record)
    if earlier is not None and earlier.digest == record.digest:
        offer(context.quorum, statement, earlier)
        return None
    signed = sign_once(context.quorum, statement, record, contract_status)
    return None if signed is None else StepResult("kickout signed", None, f"{record.subject}")


def _outgoing_proposals(
    context: KickoutContext, contract_status: ContractStatus
) -> _OutgoingProposals:
    """Read once what delays further proposals, instead of once for each node that is due."""
    if not context.tx.publisher.has_payer:
        return _OutgoingProposals(frozenset(), frozenset(), capacity=0)
    with context.tx.store.reading() as uow:
        proposals = uow.outbox.intents.newest(_LOOKED_THROUGH, kind=PROPOSE_KICK)
        unfinished = uow.outbox.intents.unfinished(context.tx.account)
        return _OutgoingProposals(
            digests=frozenset(intent.request.digest for intent in proposals),
            subjects=frozenset(intent.request.subject for intent in unfinished),
            capacity=capacity_of_round(context, uow, contract_status),
        )


def capacity_of_round(
    context: KickoutContext, uow: UnitOfWork, contract_status: ContractStatus
) -> int:
    """Return how many more proposals this round has room for, beside those on their way.

    One that is folded already is its round's, also where its receipt is not noted yet.
    """
    here = uow.rounds.proposed_in(contract_status.head.round)
    proposed = {kick.node: kick.round for kick in uow.rounds.kicks()}
    ours = sum(
        one.request.kind == PROPOSE_KICK and _may_land(one.request, proposed)
        for one in uow.outbox.intents.in_states(context.tx.account, ON_ITS_WAY)
    )
    return contract_status.limits.max_kicks_per_round - here - ours


def _may_land(request: CallRequest, proposed: Mapping[Address, int]) -> bool:
    """Tell whether a proposal is still to land: the newest about its node is from before it."""
    return (request.round or 0) > proposed.get(subject_of(request), 0)


def tried(uow: UnitOfWork, record: SignedStatement) -> Intent | None:
    """Return the proposal of exactly this statement, or None."""
    newest = uow.outbox.intents.newest(_LOOKED_THROUGH, kind=PROPOSE_KICK)
    return next((one for one in newest if one.request.digest == record.digest), None)


def is_open(context: KickoutContext, uow: UnitOfWork, subject: str) -> bool:
    """Return whether a call about this node is in flight and not final."""
    return open_about(context, uow, subject) is not None


def open_about(context: KickoutContext, uow: UnitOfWork, subject: str) -> Intent | None:
    """Return the call about this node that is in flight and not final, or None."""
    unfinished = uow.outbox.intents.unfinished(context.tx.account)
    return next((intent for intent in unfinished if intent.request.subject == subject), None)
