"""Detects on-chain signatures of our key that this database did not create.

Accepted rounds and kickout proposals are checked. Such a signature means that the key was stolen,
or that a database was lost. Statements in a lost database may still land and conflict with new
ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from oracle.chain.decode.oracle_logs import decode_push_signatures
from oracle.chain.heads import Heads
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import REPORT
from oracle.quorum.unknown_proposals import (
    PROPOSALS_BOOKMARK,
    is_signed_elsewhere,
    scan_proposals,
)
from oracle.signing.signature_checks import is_signed_by
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.telemetry import quorum_metrics
from oracle.txmgr.context import StepResult

# The block of the first check, and the digest of the newest round that was checked.
_BOOKMARK = "own_key_seen"
_MAX_SCANNED_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class _ForeignSignature:
    """A signature of our key that this database did not create; `time` is its block's time."""

    description: str
    round: int
    time: int


def check_for_foreign_signatures(context: QuorumContext, heads: Heads) -> StepResult | None:
    """Check the new rounds and proposals for foreign signatures; return None if there are none.

    After a foreign signature our key signs nothing for a report's time to live. This embargo is
    stored, and every further foreign signature starts it again. Signatures from before the first
    check at the head are ignored, because this database may lack their statements.

    Raises:
        TransientError: no endpoint returns the transaction of a proposal.
    """
    if not context.account_context.sender_account.has_signer:
        return None
    return _check_new_rounds(context, heads) or _check_new_proposals(context, heads)


def _check_new_proposals(context: QuorumContext, heads: Heads) -> StepResult | None:
    with context.account_context.store.read_transaction() as uow:
        new_proposals, bookmark = scan_proposals(context, uow, heads)
    foreign_proposals = [
        proposal for proposal in new_proposals if is_signed_elsewhere(context, proposal)
    ]
    if bookmark is None:
        return None
    with context.account_context.write_transaction() as uow:
        foreign_signatures = [
            _ForeignSignature(
                f"kickout of {proposal.kick.node}, evidence {proposal.kick.evidence}",
                proposal.kick.round,
                proposal.time,
            )
            for proposal in foreign_proposals
            if _extend_embargo(context, uow, proposal.time)
        ]
        uow.bookmarks.set(PROPOSALS_BOOKMARK, bookmark)
    return _log_foreign_signatures(context, foreign_signatures) if foreign_signatures else None


def _check_new_rounds(context: QuorumContext, heads: Heads) -> StepResult | None:
    with context.account_context.store.read_transaction() as uow:
        newest_digest, bookmark = (
            uow.rounds.get_newest_digest() or "",
            uow.bookmarks.get(_BOOKMARK),
        )
        first_bookmark = _build_first_bookmark(context, uow, heads) if bookmark is None else None
        since, _, last_digest = (bookmark or "").partition(" ")
        has_new_rounds = bookmark is not None and last_digest != newest_digest
        signatures_by_round = (
            _load_unsigned_rounds(context, uow, int(since), last_digest) if has_new_rounds else {}
        )
    if first_bookmark is not None:
        with context.account_context.write_transaction() as uow:
            uow.bookmarks.set(_BOOKMARK, first_bookmark)
    if not has_new_rounds:
        return None
    signer = context.account_context.sender_account.signer.address
    own_rounds = [
        accepted
        for accepted, signatures in signatures_by_round.items()
        if is_signed_by(signer, accepted.digest, signatures)
    ]
    with context.account_context.write_transaction() as uow:
        foreign_signatures = [
            _ForeignSignature(
                f"round {accepted_round.round}, digest {accepted_round.digest}",
                accepted_round.round,
                accepted_round.time,
            )
            for accepted_round in own_rounds
            if _extend_embargo(context, uow, accepted_round.time)
        ]
        uow.bookmarks.set(_BOOKMARK, f"{since} {newest_digest}")
    return _log_foreign_signatures(context, foreign_signatures) if foreign_signatures else None


def _build_first_bookmark(context: QuorumContext, uow: UnitOfWork, heads: Heads) -> str | None:
    cursor = uow.cursor.get()
    if cursor is None or not context.account_context.is_at_head(uow, heads):
        return None
    return f"{cursor.number} {uow.rounds.get_newest_digest() or ''}"


def _load_unsigned_rounds(
    context: QuorumContext, uow: UnitOfWork, since: int, last_digest: str
) -> Mapping[RoundAccepted, bytes]:
    """Return the rounds after `last_digest` that were not signed here, with their signatures.

    If a reorg removed the round of `last_digest`, return all rounds since the first check.
    """
    rounds = [
        accepted
        for accepted in uow.rounds.list_accepted(_MAX_SCANNED_ROUNDS)
        if accepted.at.block > since
    ]
    digests = [accepted.digest for accepted in rounds]
    new_rounds = (
        rounds[digests.index(Hash(last_digest)) + 1 :] if last_digest in digests else rounds
    )
    return {
        accepted: _load_push_signatures(uow, accepted)
        for accepted in new_rounds
        if not _was_signed_locally(context, uow, accepted)
    }


def _was_signed_locally(
    context: QuorumContext, uow: UnitOfWork, accepted_round: RoundAccepted
) -> bool:
    contract, signer = (
        context.account_context.sender_account.domain.contract,
        context.account_context.sender_account.signer.address,
    )
    statements = uow.statements.list_for_round(contract, REPORT, accepted_round.round)
    return any(
        (statement.signer, statement.digest) == (signer, accepted_round.digest)
        for statement in statements
    )


def _load_push_signatures(uow: UnitOfWork, accepted_round: RoundAccepted) -> bytes:
    block = accepted_round.at.block
    pushes = (
        call for call in uow.calls.iterate_between(block, block) if call.tx == accepted_round.at.tx
    )
    push = next(pushes, None)
    return b"" if push is None else decode_push_signatures(push)


def _extend_embargo(context: QuorumContext, uow: UnitOfWork, since: int) -> bool:
    """Embargo the signer for a report's time to live, counted from `since`.

    Return False if an earlier embargo already covers `since`.
    """
    domain, signer = (
        context.account_context.sender_account.domain,
        context.account_context.sender_account.signer.address,
    )
    statements = uow.statements
    earlier_embargo_end = statements.get_embargo_end(domain.chain_id, domain.contract, signer)
    embargo_end = since + context.settings.ttl_seconds
    statements.set_embargo(
        domain.chain_id, domain.contract, signer, embargo_end, context.account_context.stamp
    )
    return earlier_embargo_end is None or since > earlier_embargo_end


def _log_foreign_signatures(
    context: QuorumContext, foreign_signatures: Sequence[_ForeignSignature]
) -> StepResult:
    signer = context.account_context.sender_account.signer.address
    for foreign_signature in foreign_signatures:
        quorum_metrics.SIGNED_ELSEWHERE.inc()
        structlog.get_logger().critical(
            "unknown_signature_on_chain",
            signer=signer,
            signed=foreign_signature.description,
            round=foreign_signature.round,
            embargoed_until=foreign_signature.time + context.settings.ttl_seconds,
            act="the key was stolen, or the database with this signature was lost; unless you know"
            " that the database was lost, let the admin replace the signer (`setSigners`) and the"
            " vetoer check every proposed kickout",
        )
    descriptions = ", ".join(
        foreign_signature.description for foreign_signature in foreign_signatures
    )
    return StepResult("signs nothing", None, f"{signer} signed elsewhere: {descriptions}")


@dataclass(frozen=True, slots=True)
class SignerEmbargo:
    """The contract's head, and the chain time until which the signer signs nothing.

    A signer whose database was lost is embargoed, because statements in the lost database may
    still land. `embargoed_until` is None if there is no signer.
    """

    round: int
    last_report: Hash
    embargoed_until: int | None


def build_signing_embargo(context: QuorumContext) -> SignerEmbargo:
    """Return the contract's head and the end of an embargo that starts now.

    Raises:
        TransientError: no endpoint answers.
    """
    contract_status = context.fetch_contract_status()
    until = contract_status.block.time + context.settings.ttl_seconds
    has_signer = context.account_context.sender_account.has_signer
    head = contract_status.head
    return SignerEmbargo(head.round, contract_status.last_report, until if has_signer else None)


def store_signing_embargo(
    context: QuorumContext, signer_embargo: SignerEmbargo, actor: str | None
) -> None:
    """Store the embargo of a signer, because statements in its lost database may still land."""
    with context.account_context.write_transaction() as uow:
        build_embargo_writer(context, signer_embargo)(
            uow, context.account_context.stamp._replace(actor=actor)
        )


def build_embargo_writer(
    context: QuorumContext | None, signer_embargo: SignerEmbargo | None
) -> Callable[[UnitOfWork, Stamp], None]:
    """Return a callback that stores the embargo within a commit; without one it does nothing."""

    def write_embargo(uow: UnitOfWork, stamp: Stamp) -> None:
        if context is None or signer_embargo is None or signer_embargo.embargoed_until is None:
            return
        domain, signer = (
            context.account_context.sender_account.domain,
            context.account_context.sender_account.signer.address,
        )
        uow.statements.set_embargo(
            domain.chain_id, domain.contract, signer, signer_embargo.embargoed_until, stamp
        )

    return write_embargo
