"""Detects on-chain signatures of our key that this database did not create.

Rounds and kickout proposals are checked. Either the key was stolen, or a database was lost whose
statements may still land and conflict with new ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from oracle.chain.decode.oracle_logs import pushed_signatures
from oracle.chain.heads import Heads
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import REPORT
from oracle.quorum.unknown_proposals import is_strange, unseen
from oracle.signing.signature_checks import is_signed_by
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.telemetry import quorum_metrics
from oracle.txmgr.context import StepResult

# Block of the first look, and the digest of the newest round that was looked at.
_SEEN = "own_key_seen"
_LOOKED_BACK = 50


@dataclass(frozen=True, slots=True)
class _ForeignSignature:
    """A foreign signature of our key, described for the log; `time` is that of its block."""

    about: str
    round: int
    time: int


def watch_key(context: QuorumContext, heads: Heads) -> StepResult | None:
    """Look at what the contract took since the last look; None: none of it is by our key alone.

    Where something is, our key signs nothing for a report's time to live: that is persistent, and
    begins anew with the next. What is from before the first look at the head is not ours to judge:
    this database did not sign it.

    Raises:
        TransientError: no endpoint shows what a proposal was sent with.
    """
    if not context.tx.publisher.has_signer:
        return None
    return _watch_rounds(context, heads) or _watch_proposals(context, heads)


def _watch_proposals(context: QuorumContext, heads: Heads) -> StepResult | None:
    with context.tx.store.reading() as uow:
        look = unseen(context, uow, heads)
    strange = [one for one in look.fresh if is_strange(context, one)]
    if look.seen is None:
        return None
    with context.tx.writing() as uow:
        told = [
            _ForeignSignature(
                f"kickout of {one.kick.node}, evidence {one.kick.evidence}",
                one.kick.round,
                one.time,
            )
            for one in strange
            if _block_signing(context, uow, one.time)
        ]
        look.store_progress(uow)
    return _tell(context, told) if told else None


def _watch_rounds(context: QuorumContext, heads: Heads) -> StepResult | None:
    with context.tx.store.reading() as uow:
        newest, seen = uow.rounds.newest_digest() or "", uow.bookmarks.get(_SEEN)
        first = _first_look(context, uow, heads) if seen is None else None
        since, _, last = (seen or "").partition(" ")
        is_news = seen is not None and last != newest
        signatures_of = _unsigned_rounds(context, uow, int(since), last) if is_news else {}
    if first is not None:
        with context.tx.writing() as uow:
            uow.bookmarks.set(_SEEN, first)
    if not is_news:
        return None
    signer = context.tx.publisher.signer.address
    ours = [
        accepted
        for accepted, signatures in signatures_of.items()
        if is_signed_by(signer, accepted.digest, signatures)
    ]
    with context.tx.writing() as uow:
        told = [
            _ForeignSignature(f"round {one.round}, digest {one.digest}", one.round, one.time)
            for one in ours
            if _block_signing(context, uow, one.time)
        ]
        uow.bookmarks.set(_SEEN, f"{since} {newest}")
    return _tell(context, told) if told else None


def _first_look(context: QuorumContext, uow: UnitOfWork, heads: Heads) -> str | None:
    cursor = uow.cursor.get()
    if cursor is None or not context.tx.is_at_head(uow, heads):
        return None
    return f"{cursor.number} {uow.rounds.newest_digest() or ''}"


def _unsigned_rounds(
    context: QuorumContext, uow: UnitOfWork, since: int, last: str
) -> Mapping[RoundAccepted, bytes]:
    """Return the rounds after `last` that we did not sign, with the signatures of their pushes.

    All of them after a reorg took `last`.
    """
    rounds = [one for one in uow.rounds.accepted(_LOOKED_BACK) if one.at.block > since]
    digests = [one.digest for one in rounds]
    fresh = rounds[digests.index(Hash(last)) + 1 :] if last in digests else rounds
    return {one: _signatures_of(uow, one) for one in fresh if not _is_known(context, uow, one)}


def _is_known(context: QuorumContext, uow: UnitOfWork, accepted: RoundAccepted) -> bool:
    contract, signer = context.tx.publisher.domain.contract, context.tx.publisher.signer.address
    signed = uow.statements.of_round(contract, REPORT, accepted.round)
    return any((one.signer, one.digest) == (signer, accepted.digest) for one in signed)


def _signatures_of(uow: UnitOfWork, accepted: RoundAccepted) -> bytes:
    block = accepted.at.block
    pushes = (one for one in uow.calls.between(block, block) if one.tx == accepted.at.tx)
    push = next(pushes, None)
    return b"" if push is None else pushed_signatures(push)


def _block_signing(context: QuorumContext, uow: UnitOfWork, since: int) -> bool:
    """Embargo the signer for a while; return whether the embargo is new or longer."""
    domain, signer = context.tx.publisher.domain, context.tx.publisher.signer.address
    signatures = uow.statements
    embargoed_to = signatures.embargoed_until(domain.chain_id, domain.contract, signer)
    until = since + context.settings.ttl_seconds
    signatures.embargo(domain.chain_id, domain.contract, signer, until, context.tx.stamp)
    return embargoed_to is None or since > embargoed_to


def _tell(context: QuorumContext, told: Sequence[_ForeignSignature]) -> StepResult:
    signer = context.tx.publisher.signer.address
    for one in told:
        quorum_metrics.SIGNED_ELSEWHERE.inc()
        structlog.get_logger().critical(
            "unknown_signature_on_chain",
            signer=signer,
            signed=one.about,
            round=one.round,
            embargoed_until=one.time + context.settings.ttl_seconds,
            act="the key was stolen, or a database that knew of it was lost; unless you know the"
            " latter, let the admin replace the signer (`setSigners`), and the vetoer look at"
            " every kickout that is proposed",
        )
    named = ", ".join(one.about for one in told)
    return StepResult("signs nothing", None, f"{signer} signed elsewhere: {named}")


@dataclass(frozen=True, slots=True)
class SignerHistory:
    """The contract, and until when (chain time) the signer is to sign nothing; None: no signer.

    For whoever lost a database: what it signed may still land.
    """

    round: int
    last_report: Hash
    embargoed_until: int | None


def signing_of(context: QuorumContext) -> SignerHistory:
    """Return how the contract stands, and how long the signer is to rest.

    Raises:
        TransientError: no endpoint answers.
    """
    contract_status = context.contract_status()
    until = contract_status.block.time + context.settings.ttl_seconds
    has_signer = context.tx.publisher.has_signer
    head = contract_status.head
    return SignerHistory(head.round, contract_status.last_report, until if has_signer else None)


def back_off_signer(context: QuorumContext, signing: SignerHistory, actor: str | None) -> None:
    """Do what is to be done for a signer alone: what it signed and lost may still land."""
    with context.tx.writing() as uow:
        resting(context, signing)(uow, context.tx.stamp._replace(actor=actor))


def resting(
    context: QuorumContext | None, signing: SignerHistory | None
) -> Callable[[UnitOfWork, Stamp], None]:
    """Return a callback that stores the embargo within a commit; it does nothing without one."""

    def write(uow: UnitOfWork, stamp: Stamp) -> None:
        if context is None or signing is None or signing.embargoed_until is None:
            return
        domain, signer = context.tx.publisher.domain, context.tx.publisher.signer.address
        uow.statements.embargo(
            domain.chain_id, domain.contract, signer, signing.embargoed_until, stamp
        )

    return write
