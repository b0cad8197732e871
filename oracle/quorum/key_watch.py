"""Does our key sign elsewhere? What is on chain with its signature, and that we never signed.

Rounds, and proposals of kickouts. The key was stolen, or a database that knew of them was lost:
what it signed may still land, and beside it a second statement would be two words for one round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from oracle.chain.decode.oracle_logs import pushed_signatures
from oracle.chain.heads import Heads
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Hash
from oracle.quorum.statements import REPORT
from oracle.quorum.unknown_proposals import is_strange, unseen
from oracle.signing.signature_checks import is_signed_by
from oracle.store.database import UnitOfWork
from oracle.telemetry import quorum_metrics
from oracle.txmgr.context import StepResult, TxContext

# Block of the first look, and the digest of the newest round that was looked at.
_SEEN = "own_key_seen"
_LOOKED_BACK = 50


@dataclass(frozen=True, slots=True)
class _Unsigned:
    """A round that we did not sign, and the signatures that its push brought."""

    accepted: RoundAccepted
    signatures: bytes


@dataclass(frozen=True, slots=True)
class _Told:
    """What our key signed elsewhere, in words; `time` of the block that has it."""

    about: str
    round: int
    time: int


def watch_key(desk: TxContext, heads: Heads) -> StepResult | None:
    """Look at what the contract took since the last look; None: none of it is by our key alone.

    Where something is, our key signs nothing for a report's time to live: that is persistent, and
    begins anew with the next. What is from before the first look at the head is not ours to judge:
    this database did not sign it.

    Raises:
        TransientError: no endpoint shows what a proposal was sent with.
    """
    if not desk.publisher.has_signer:
        return None
    return _watch_rounds(desk, heads) or _watch_proposals(desk, heads)


def _watch_proposals(desk: TxContext, heads: Heads) -> StepResult | None:
    with desk.store.reading() as unit:
        look = unseen(desk, unit, heads)
    strange = [one for one in look.fresh if is_strange(desk, one)]
    if look.seen is None:
        return None
    with desk.writing() as unit:
        told = [
            _Told(
                f"kickout of {one.kick.node}, evidence {one.kick.evidence}",
                one.kick.round,
                one.time,
            )
            for one in strange
            if _keep_quiet(desk, unit, one.time)
        ]
        look.done(unit)
    return _tell(desk, told) if told else None


def _watch_rounds(desk: TxContext, heads: Heads) -> StepResult | None:
    with desk.store.reading() as unit:
        newest, seen = unit.rounds.newest_digest() or "", unit.progress.get(_SEEN)
        first = _first_look(desk, unit, heads) if seen is None else None
        since, _, last = (seen or "").partition(" ")
        is_news = seen is not None and last != newest
        found = _unsigned(desk, unit, int(since), last) if is_news else []
    if first is not None:
        with desk.writing() as unit:
            unit.progress.set(_SEEN, first)
    if not is_news:
        return None
    signer = desk.publisher.signer.address
    ours = [
        one.accepted for one in found if is_signed_by(signer, one.accepted.digest, one.signatures)
    ]
    with desk.writing() as unit:
        told = [
            _Told(f"round {one.round}, digest {one.digest}", one.round, one.time)
            for one in ours
            if _keep_quiet(desk, unit, one.time)
        ]
        unit.progress.set(_SEEN, f"{since} {newest}")
    return _tell(desk, told) if told else None


def _first_look(desk: TxContext, unit: UnitOfWork, heads: Heads) -> str | None:
    cursor = unit.cursor.get()
    if cursor is None or not desk.is_at_head(unit, heads):
        return None
    return f"{cursor.number} {unit.rounds.newest_digest() or ''}"


def _unsigned(desk: TxContext, unit: UnitOfWork, since: int, last: str) -> list[_Unsigned]:
    """Return the rounds after `last` that we did not sign; all of them after a reorg took it."""
    rounds = [one for one in unit.rounds.accepted(_LOOKED_BACK) if one.at.block > since]
    digests = [one.digest for one in rounds]
    fresh = rounds[digests.index(Hash(last)) + 1 :] if last in digests else rounds
    return [
        _Unsigned(one, _signatures_of(unit, one))
        for one in fresh
        if not _is_known(desk, unit, one)
    ]


def _is_known(desk: TxContext, unit: UnitOfWork, accepted: RoundAccepted) -> bool:
    contract, signer = desk.publisher.domain.contract, desk.publisher.signer.address
    signed = unit.outbox.signatures.of_round(contract, REPORT, accepted.round)
    return any((one.signer, one.digest) == (signer, accepted.digest) for one in signed)


def _signatures_of(unit: UnitOfWork, accepted: RoundAccepted) -> bytes:
    block = accepted.at.block
    pushes = (one for one in unit.calls.between(block, block) if one.tx == accepted.at.tx)
    push = next(pushes, None)
    return b"" if push is None else pushed_signatures(push)


def _keep_quiet(desk: TxContext, unit: UnitOfWork, since: int) -> bool:
    """Sign nothing for a while; return whether that is news: `outbox adopt` keeps quiet too."""
    domain, signer = desk.publisher.domain, desk.publisher.signer.address
    signatures = unit.outbox.signatures
    quiet = signatures.quiet_until(domain.chain_id, domain.contract, signer)
    until = since + desk.settings.ttl_seconds
    signatures.keep_quiet(domain.chain_id, domain.contract, signer, until, desk.stamp)
    return quiet is None or since > quiet


def _tell(desk: TxContext, told: Sequence[_Told]) -> StepResult:
    signer = desk.publisher.signer.address
    for one in told:
        quorum_metrics.SIGNED_ELSEWHERE.inc()
        structlog.get_logger().critical(
            "signed_elsewhere",
            signer=signer,
            signed=one.about,
            round=one.round,
            quiet_until=one.time + desk.settings.ttl_seconds,
            act="the key was stolen, or a database that knew of it was lost; unless you know the"
            " latter, let the admin replace the signer (`setSigners`), and the vetoer look at"
            " every kickout that is proposed",
        )
    named = ", ".join(one.about for one in told)
    return StepResult("signs nothing", None, f"{signer} signed elsewhere: {named}")
