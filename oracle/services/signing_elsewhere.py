"""Does our key sign elsewhere? Rounds on chain that carry its signature, and that we never signed.

The key was stolen, or a database that knew of them was lost: either way what it signed may still
land, and a second statement beside it would be two words for one round (case F61).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from oracle.chain.heads import Heads
from oracle.chain.oracle_contract import pushed_signatures
from oracle.domain.contract_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.publisher.signer import WrongSignatureError
from oracle.publisher.signers.checking import Signature
from oracle.services.desk import Desk, Step
from oracle.services.quorum.records import REPORT
from oracle.store.store import Unit
from oracle.telemetry import quorum_metrics

# Block of the first look, and the digest of the newest round that was looked at.
_SEEN = "own_key_seen"
_LOOKED_BACK = 50
_SIGNATURE_BYTES = 65


@dataclass(frozen=True, slots=True)
class _Unsigned:
    """A round that we did not sign, and the signatures that its push brought."""

    accepted: RoundAccepted
    signatures: bytes


def watch_key(desk: Desk, heads: Heads) -> Step | None:
    """Look at the rounds that were accepted since the last look; None: none is by our key alone.

    Where one is, our key signs nothing for a report's time to live: that is persistent, and begins
    anew with the next one. Rounds from before the first look at the head are not ours to judge:
    this database did not sign them.
    """
    if not desk.publisher.has_signer:
        return None
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
    ours = [one.accepted for one in found if _is_by(signer, one)]
    with desk.writing() as unit:
        told = [one for one in ours if _keep_quiet(desk, unit, one)]
        unit.progress.set(_SEEN, f"{since} {newest}")
    return _tell(desk, told) if told else None


def _first_look(desk: Desk, unit: Unit, heads: Heads) -> str | None:
    cursor = unit.cursor.get()
    if cursor is None or not desk.is_at_head(unit, heads):
        return None
    return f"{cursor.number} {unit.rounds.newest_digest() or ''}"


def _unsigned(desk: Desk, unit: Unit, since: int, last: str) -> list[_Unsigned]:
    """Return the rounds after `last` that we did not sign; all of them after a reorg took it."""
    rounds = [one for one in unit.rounds.accepted(_LOOKED_BACK) if one.at.block > since]
    digests = [one.digest for one in rounds]
    fresh = rounds[digests.index(Hash(last)) + 1 :] if last in digests else rounds
    return [
        _Unsigned(one, _signatures_of(unit, one))
        for one in fresh
        if not _is_known(desk, unit, one)
    ]


def _is_known(desk: Desk, unit: Unit, accepted: RoundAccepted) -> bool:
    contract, signer = desk.publisher.domain.contract, desk.publisher.signer.address
    signed = unit.outbox.signatures.of_round(contract, REPORT, accepted.round)
    return any((one.signer, one.digest) == (signer, accepted.digest) for one in signed)


def _signatures_of(unit: Unit, accepted: RoundAccepted) -> bytes:
    block = accepted.at.block
    pushes = (one for one in unit.calls.between(block, block) if one.tx == accepted.at.tx)
    push = next(pushes, None)
    return b"" if push is None else pushed_signatures(push)


def _is_by(signer: Address, found: _Unsigned) -> bool:
    digest = bytes.fromhex(found.accepted.digest[2:])
    told = found.signatures
    for at in range(0, len(told), _SIGNATURE_BYTES):
        try:
            signature = Signature.of(told[at : at + _SIGNATURE_BYTES])
        except WrongSignatureError:
            continue
        if signature.account(digest) == signer:
            return True
    return False


def _keep_quiet(desk: Desk, unit: Unit, accepted: RoundAccepted) -> bool:
    """Sign nothing for a while; return whether that is news: `outbox adopt` keeps quiet too."""
    domain, signer = desk.publisher.domain, desk.publisher.signer.address
    signatures = unit.outbox.signatures
    quiet = signatures.quiet_until(domain.chain_id, domain.contract, signer)
    until = accepted.time + desk.settings.ttl_seconds
    signatures.keep_quiet(domain.chain_id, domain.contract, signer, until, desk.stamp)
    return quiet is None or accepted.time > quiet


def _tell(desk: Desk, rounds: Sequence[RoundAccepted]) -> Step:
    signer = desk.publisher.signer.address
    for one in rounds:
        quorum_metrics.SIGNED_ELSEWHERE.inc()
        structlog.get_logger().critical(
            "signed_elsewhere",
            signer=signer,
            round=one.round,
            digest=one.digest,
            quiet_until=one.time + desk.settings.ttl_seconds,
            act="the key was stolen, or a database that knew of it was lost; unless you know the"
            " latter, let the admin replace the signer (`setSigners`)",
        )
    numbers = ", ".join(str(one.round) for one in rounds)
    return Step("signs nothing", None, f"{signer} signed elsewhere: round {numbers}")
