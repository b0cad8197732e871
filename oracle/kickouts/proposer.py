"""Proposes kickouts: exports the evidence, signs the statement, and plans the call.

The signed content follows from the chain alone, so all reporters sign the same statement. One of
their transmitters sends it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oracle.bindings.qos_oracle import ContractStatus, encode_propose_kick_call
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_evidence import KickoutEvidence
from oracle.errors import InputError, TransientError
from oracle.kickouts.evidence_files import export_evidence
from oracle.kickouts.kick_calls import get_subject
from oracle.kickouts.kickout_context import PROPOSE_KICK, KickoutContext
from oracle.kickouts.kickout_eligibility import KickoutCase
from oracle.quorum.collector import collect_signatures
from oracle.quorum.sign_once import sign_once
from oracle.quorum.signing_round import find_signing_round
from oracle.quorum.statements import build_kick_record, publish_statement
from oracle.signing.typed_data import KickStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    PENDING_STATES,
    CallRequest,
    Intent,
    SignedStatement,
)
from oracle.txmgr.context import StepResult, merge_results
from oracle.txmgr.deferral import find_deadline_obstacle

# The priority of kickout calls, which are sent after report pushes.
PRIORITY = 200
# How many of the newest proposals are read; a round has fewer, at most one for each node.
_MAX_SCANNED_PROPOSALS = 1000


class _OutgoingProposals(NamedTuple):
    """The proposals in the outbox.

    `digests` are the digests of all proposals tried so far, `subjects` the nodes with an
    unfinished call, and `capacity` the number of proposals that still fit into the round.
    """

    digests: frozenset[str | None]
    subjects: frozenset[str]
    capacity: int

    def should_skip(self, record: SignedStatement) -> bool:
        """Return whether to skip a proposal.

        A proposal is skipped if a call for its node is unfinished, or if the round is full. It is
        also skipped if the same proposal was already tried, because the outbox has the outcome.
        """
        is_tried = record.digest in self.digests
        return is_tried or self.capacity <= 0 or record.subject in self.subjects


def propose_kickouts(
    context: KickoutContext, cases: Sequence[KickoutCase], contract_status: ContractStatus
) -> StepResult | None:
    """Propose cases as `propose_kickout` does, up to the limit of a round.

    Return None if no case was proposed. The cases share one step, because the evaluation of many
    due cases takes longer than the signing of one proposal, and the next round may come meanwhile.
    """
    max_steps = max(1, contract_status.limits.max_kicks_per_round)
    steps, outgoing = list[StepResult](), None
    for case in cases:
        outgoing = outgoing or _load_outgoing_proposals(context, contract_status)
        step = _propose_case(context, case, contract_status, outgoing)
        if step is not None:
            steps.append(step)
            # The step may have added a proposal to the outbox.
            outgoing = None
        if len(steps) == max_steps:
            break
    return merge_results("kickouts", steps)


def propose_kickout(
    context: KickoutContext, case: KickoutCase, contract_status: ContractStatus
) -> StepResult | None:
    """Sign the proposal of a case without obstacles, and plan its call once a quorum has signed.

    Return None if nothing can be done now: there is no round on which to sign, too few reporters
    have signed, another statement about the node may still land, another call about the node is
    unfinished, or the round is full.

    Raises:
        TransientError: the evidence file cannot be written; nothing is signed.
    """
    outgoing = _load_outgoing_proposals(context, contract_status)
    return _propose_case(context, case, contract_status, outgoing)


def _propose_case(
    context: KickoutContext,
    case: KickoutCase,
    contract_status: ContractStatus,
    outgoing: _OutgoingProposals,
) -> StepResult | None:
    if case.index is None or case.evidence is None:
        return None
    statement = build_kick_statement(context, case, contract_status)
    if statement is None or contract_status.block.time > statement.deadline:
        return None
    # The evidence file is written before anything refers to its hash.
    _export_evidence(context, case.evidence)
    record = build_kick_record(context.quorum, statement)
    result = _sign_statement(context, statement, record, contract_status)
    if (
        result is not None
        or not context.account_context.sender_account.has_payer
        or outgoing.should_skip(record)
    ):
        return result
    return _enqueue_kick(context, case, statement, record, contract_status)


def _enqueue_kick(
    context: KickoutContext,
    case: KickoutCase,
    statement: KickStatement,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> StepResult | None:
    subject = record.subject
    with context.account_context.store.read_transaction() as uow:
        if (
            find_deadline_obstacle(
                context.account_context, uow, statement.deadline, contract_status.block.time
            )
            is not None
        ):
            return None
    signatures = collect_signatures(context.quorum, record, contract_status)
    if signatures is None:
        return None
    request = CallRequest(
        account=context.account_context.account,
        contract=record.contract,
        kind=PROPOSE_KICK,
        dedup_key=f"propose_kick:{subject}:round={statement.round}:{record.digest}",
        calldata=encode_propose_kick_call(statement, signatures),
        subject=subject,
        round=statement.round,
        digest=record.digest,
        priority=PRIORITY,
        deadline=statement.deadline,
        as_of_block=case.interval.opened_at.block,
        exclusive_key=f"{PROPOSE_KICK}:{subject}",
    )
    with context.account_context.write_transaction() as uow:
        intent_id = uow.outbox.intents.add(request, context.account_context.stamp)
    if intent_id is None:
        return None
    return StepResult("kickout proposal planned", intent_id, f"{case.node} {statement.evidence}")


def build_kick_statement(
    context: KickoutContext, case: KickoutCase, contract_status: ContractStatus
) -> KickStatement | None:
    """Return the statement that every reporter signs about a node, without using a local clock.

    The result is None if there is no evidence, or if the first round on which the statement may be
    signed is not accepted yet.
    """
    if case.index is None or case.evidence is None:
        return None
    ttl = context.settings.ttl_seconds
    with context.account_context.store.read_transaction() as uow:
        round_accepted = find_signing_round(
            uow, case.min_signing_round, contract_status.block.time, ttl
        )
    if round_accepted is None:
        return None
    return KickStatement(
        config=contract_status.config,
        round=round_accepted.round,
        report=round_accepted.digest,
        node=case.node,
        evidence=case.evidence.hash,
        deadline=round_accepted.time + ttl,
    )


def _export_evidence(context: KickoutContext, evidence: KickoutEvidence) -> None:
    try:
        export_evidence(context.evidence_folder, evidence)
    except InputError as error:
        # A transient error does not stop the reports.
        raise TransientError(str(error)) from error


def _sign_statement(
    context: KickoutContext,
    statement: KickStatement,
    record: SignedStatement,
    contract_status: ContractStatus,
) -> StepResult | None:
    """Sign the statement if there is a signer; return None if nothing new was signed."""
    if not context.account_context.sender_account.has_signer:
        return None
    with context.account_context.store.read_transaction() as uow:
        earlier = uow.statements.get_live(record)
    if earlier is not None and earlier.digest == record.digest:
        publish_statement(context.quorum, statement, earlier)
        return None
    signed = sign_once(context.quorum, statement, record, contract_status)
    return None if signed is None else StepResult("kickout signed", None, f"{record.subject}")


def _load_outgoing_proposals(
    context: KickoutContext, contract_status: ContractStatus
) -> _OutgoingProposals:
    """Load the proposals and unfinished calls in the outbox, once for all due nodes."""
    if not context.account_context.sender_account.has_payer:
        return _OutgoingProposals(frozenset(), frozenset(), capacity=0)
    with context.account_context.store.read_transaction() as uow:
        proposals = uow.outbox.intents.list_newest(_MAX_SCANNED_PROPOSALS, kind=PROPOSE_KICK)
        unfinished = uow.outbox.intents.list_unfinished(context.account_context.account)
        return _OutgoingProposals(
            digests=frozenset(intent.request.digest for intent in proposals),
            subjects=frozenset(intent.request.subject for intent in unfinished),
            capacity=compute_round_capacity(context, uow, contract_status),
        )


def compute_round_capacity(
    context: KickoutContext, uow: UnitOfWork, contract_status: ContractStatus
) -> int:
    """Return how many more proposals fit into the current round, beyond the pending ones.

    A proposal that is already indexed counts for its round, even if its receipt is not stored yet.
    """
    accepted_count = uow.rounds.count_kicks_proposed_in_round(contract_status.head.round)
    proposed_round_by_node = {kick.node: kick.round for kick in uow.rounds.list_kicks()}
    outgoing_count = sum(
        intent.request.kind == PROPOSE_KICK and _can_land(intent.request, proposed_round_by_node)
        for intent in uow.outbox.intents.list_in_states(
            context.account_context.account, PENDING_STATES
        )
    )
    return contract_status.limits.max_kicks_per_round - accepted_count - outgoing_count


def _can_land(request: CallRequest, proposed_round_by_node: Mapping[Address, int]) -> bool:
    """Return whether a proposal may still land.

    It may land unless a kickout of its node that was proposed in the same or a later round has
    already landed.
    """
    return (request.round or 0) > proposed_round_by_node.get(get_subject(request), 0)


def find_proposal(uow: UnitOfWork, record: SignedStatement) -> Intent | None:
    """Return the call that proposes exactly this statement, or None."""
    newest_proposals = uow.outbox.intents.list_newest(_MAX_SCANNED_PROPOSALS, kind=PROPOSE_KICK)
    return next(
        (intent for intent in newest_proposals if intent.request.digest == record.digest), None
    )


def has_open_call(context: KickoutContext, uow: UnitOfWork, subject: str) -> bool:
    """Return whether a call about this node is in flight and not final."""
    return find_open_call(context, uow, subject) is not None


def find_open_call(context: KickoutContext, uow: UnitOfWork, subject: str) -> Intent | None:
    """Return the call about this node that is in flight and not final, or None."""
    unfinished = uow.outbox.intents.list_unfinished(context.account_context.account)
    return next((intent for intent in unfinished if intent.request.subject == subject), None)
