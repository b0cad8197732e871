"""Compares what others signed with what we would: disagreement, equivocation, and when to stop."""

from dataclasses import dataclass

import structlog

from oracle.domain.ids import Address, Hash
from oracle.publisher.contract import Standing
from oracle.publisher.membership import signers_of
from oracle.services.desk import Desk
from oracle.services.quorum.dying import why_dead
from oracle.services.quorum.records import REPORT, statement_of
from oracle.store.outbox_rows import About, SignedStatement
from oracle.store.store import Unit
from oracle.telemetry import quorum_metrics


@dataclass(frozen=True, slots=True)
class Tally:
    """Who of the contract's signers said what about one round, as far as it can still land."""

    signers: tuple[Address, ...]
    quorum: int
    ours: frozenset[Address]
    others: dict[Hash, frozenset[Address]]

    @property
    def why_hopeless(self) -> str | None:
        """Tell why our statement cannot get a quorum; None: it has one, or still may."""
        for digest, signers in self.others.items():
            if len(signers) >= self.quorum:
                return f"disagreement: {_named(signers)} signed {digest}, which is a quorum"
        said = self.ours.union(*self.others.values())
        silent = len([signer for signer in self.signers if signer not in said])
        if len(self.ours) + silent >= self.quorum:
            return None
        against = frozenset[Address]().union(*self.others.values())
        return (
            f"disagreement: {_named(against)} signed otherwise; no quorum of {self.quorum} is left"
        )


def tally(desk: Desk, record: SignedStatement, standing: Standing) -> Tally:
    """Count what is known of the statements about the record's round.

    Raises:
        TransientError: no endpoint says who the signers are.
    """
    signers = signers_of(desk.publisher.lines, record.contract, standing.block)
    about = (record.contract, record.kind, record.round, record.subject)
    ours: set[Address] = set()
    others: dict[Hash, set[Address]] = {}
    with desk.store.reading() as unit:
        own = [one for one in unit.outbox.signatures.of_round(*about) if one.dead_why is None]
        for said in [*own, *unit.outbox.peers.of(*about)]:
            if said.signer not in signers:
                continue
            if said.digest == record.digest:
                ours.add(said.signer)
            elif differs(desk, unit, said, standing):
                others.setdefault(said.digest, set()).add(said.signer)
    for signer in signers:
        quorum_metrics.SIGNATURES.labels(signer).set(signer in ours)
    held = {digest: frozenset(found) for digest, found in others.items()}
    return Tally(signers, standing.head.quorum, frozenset(ours), held)


def differs(desk: Desk, unit: Unit, said: SignedStatement, standing: Standing) -> bool:
    """Tell whether a report's statement could land and is none of those that we cut.

    One that we cut ourselves says what we say, at another moment.
    """
    if said.kind != REPORT or why_dead(unit, said, standing) is not None:
        return False
    as_of = said.as_of_block or 0
    return all(
        statement_of(stored.report, standing).digest(desk.publisher.domain) != said.digest
        for stored in unit.reports.between(as_of, as_of)
    )


def compare(desk: Desk, unit: Unit, said: SignedStatement, standing: Standing) -> None:
    """Tell of a statement that is not ours, or not its signer's only one; none is kept yet."""
    earlier = [
        one
        for one in unit.outbox.peers.of(said.contract, said.kind, said.round, said.subject)
        if one.signer == said.signer and one.digest != said.digest
    ]
    is_alive = why_dead(unit, said, standing) is None
    if is_alive and any(why_dead(unit, one, standing) is None for one in earlier):
        quorum_metrics.EQUIVOCATION.labels(said.signer).inc()
        _note(desk, unit, "equivocation", said, earlier[0].digest)
    if differs(desk, unit, said, standing):
        quorum_metrics.DISAGREEMENT.labels(said.signer).inc()
        _note(desk, unit, "disagreement", said, _ours(desk, unit, said, standing))


def _ours(desk: Desk, unit: Unit, said: SignedStatement, standing: Standing) -> str:
    """Return the digest of what we say as of the same block; empty: no period ended there."""
    as_of = said.as_of_block or 0
    cut = unit.reports.between(as_of, as_of)
    return statement_of(cut[0].report, standing).digest(desk.publisher.domain) if cut else ""


def _note(desk: Desk, unit: Unit, event: str, said: SignedStatement, ours: str) -> None:
    detail = f"{said.signer} signed {said.digest} for {said.kind} {said.round}, not {ours}"
    unit.outbox.journal.write(event, desk.stamp, About(), detail)
    structlog.get_logger().error(
        event,
        signer=said.signer,
        kind=said.kind,
        round=said.round,
        theirs=said.digest,
        ours=ours,
        as_of=said.as_of_block,
        as_of_hash=said.as_of_hash,
        deadline=said.expires_at,
    )


def _named(signers: frozenset[Address]) -> str:
    return ", ".join(sorted(signers))
