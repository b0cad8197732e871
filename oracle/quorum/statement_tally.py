"""Compares the statements of other reporters with ours.

Disagreement, equivocation, lost quorums.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import structlog

from oracle.bindings.oracle_views import signers_of
from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import Address, Hash
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import REPORT, expiry_reason, statement_of
from oracle.quorum.wire_format import Told, ToldReport
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import JournalSubject, SignedStatement
from oracle.store.reports.hold_repository import DISPUTED
from oracle.store.reports.report_repository import StoredReport
from oracle.telemetry import quorum_metrics


@dataclass(frozen=True, slots=True)
class SignerTally:
    """The statements of the contract's signers about one round that can still land."""

    signers: tuple[Address, ...]
    quorum: int
    ours: frozenset[Address]
    others: dict[Hash, frozenset[Address]]
    # Those whose statements say something else, dead ones and of other blocks too.
    elsewhere: frozenset[Address] = frozenset()

    @property
    def why_hopeless(self) -> str | None:
        """Return why our statement cannot get a quorum, or None if it has one or still may."""
        for digest, signers in self.others.items():
            if len(signers) >= self.quorum:
                return f"{DISPUTED}{_named(signers)} signed {digest}, which is a quorum"
        said = self.ours.union(*self.others.values())
        silent = len([signer for signer in self.signers if signer not in said])
        if len(self.ours) + silent >= self.quorum:
            return None
        against = frozenset[Address]().union(*self.others.values())
        return f"{DISPUTED}{_named(against)} signed otherwise; no quorum of {self.quorum} is left"

    def missing_of(self, number: int) -> str:
        """Return the signature count of a round, and the signers that disagree or are missing."""
        rest = frozenset(self.signers) - self.ours
        parts = {
            "nothing came of": rest - self.elsewhere,
            "something else of": rest & self.elsewhere,
        }
        told = "; ".join(f"{what} {_named(who)}" for what, who in parts.items() if who)
        return f"round {number} has {len(self.ours)} of {self.quorum} signatures: {told}"


def tally(
    context: QuorumContext, record: SignedStatement, contract_status: ContractStatus
) -> SignerTally:
    """Count what is known of the statements about the record's round.

    Raises:
        TransientError: no endpoint says who the signers are.
    """
    signers = signers_of(context.tx.publisher.lines, record.contract, contract_status.block)
    about = (record.contract, record.kind, record.round, record.subject)
    ours: set[Address] = set()
    others: dict[Hash, set[Address]] = {}
    elsewhere: set[Address] = set()
    with context.tx.store.reading() as uow:
        own = [one for one in uow.statements.of_round(*about) if one.expiry_reason is None]
        for said in [*own, *uow.peer_statements.of(*about)]:
            if said.signer not in signers:
                continue
            if said.digest == record.digest:
                ours.add(said.signer)
                continue
            elsewhere.add(said.signer)
            if has_conflict(context, uow, said, contract_status):
                others.setdefault(said.digest, set()).add(said.signer)
    quorum_metrics.know(signers)
    for signer in signers:
        quorum_metrics.SIGNATURES.labels(signer).set(signer in ours)
    held = {digest: frozenset(found) for digest, found in others.items()}
    return SignerTally(
        signers, contract_status.head.quorum, frozenset(ours), held, frozenset(elsewhere)
    )


def has_conflict(
    context: QuorumContext, uow: UnitOfWork, said: SignedStatement, contract_status: ContractStatus
) -> bool:
    """Tell whether a report's statement could land and is none of those that we cut.

    One that we cut ourselves says what we say, at another moment; one of a time from which we
    did not cut every report says nothing that we could judge.
    """
    if said.kind != REPORT or expiry_reason(uow, said, contract_status) is not None:
        return False
    as_of, period = said.as_of_block or 0, _period_of(context, uow, said)
    cut = uow.reports.between(as_of, as_of)
    if not cut and period < uow.reports.complete_from():
        return False
    return all(_digest_of(context, one, contract_status) != said.digest for one in cut)


def has_differed(
    context: QuorumContext, uow: UnitOfWork, said: SignedStatement, contract_status: ContractStatus
) -> bool:
    """Tell whether a statement that can no longer land said otherwise than we, of the same block.

    One on top of another report than ours, or of a block of another fork, says nothing of us.
    """
    as_of = said.as_of_block or 0
    for one in uow.reports.between(as_of, as_of) if said.kind == REPORT else ():
        ours = (one.report.as_of.hash, one.report.prev, one.report.head_round + 1)
        digest = _digest_of(context, one, contract_status)
        # Under rules that were changed since, ours would be another one too.
        is_ours = one.digest in {None, digest}
        if ours == (said.as_of_hash, said.prev_digest, said.round) and is_ours:
            return digest != said.digest
    return False


def compare(
    context: QuorumContext,
    uow: UnitOfWork,
    received: tuple[SignedStatement, Told],
    contract_status: ContractStatus,
) -> None:
    """Report a statement that conflicts with ours or with its signer's earlier ones."""
    said = received[0]
    earlier = [
        one
        for one in uow.peer_statements.of(said.contract, said.kind, said.round, said.subject)
        if one.signer == said.signer and one.digest != said.digest
    ]
    is_alive = expiry_reason(uow, said, contract_status) is None
    if context.tx.publisher.has_signer and said.signer == context.tx.publisher.signer.address:
        quorum_metrics.EQUIVOCATION.labels(said.signer).inc()
        _note(context, uow, "unknown_signature_from_peer", received)
    elif is_alive and any(expiry_reason(uow, one, contract_status) is None for one in earlier):
        quorum_metrics.EQUIVOCATION.labels(said.signer).inc()
        _note(context, uow, "signer_equivocated", received, {"ours": earlier[0].digest})
    if has_conflict(context, uow, said, contract_status) or has_differed(
        context, uow, said, contract_status
    ):
        quorum_metrics.DISAGREEMENT.labels(said.signer).inc()
        _note(
            context,
            uow,
            "report_digest_mismatch",
            received,
            _own_statement_values(context, uow, said, contract_status),
        )


def _digest_of(
    context: QuorumContext, stored: StoredReport, contract_status: ContractStatus
) -> Hash:
    statement = statement_of(stored.report, contract_status)
    # Its own round, should another have followed.
    statement = replace(statement, round=stored.report.head_round + 1)
    return statement.digest(context.tx.publisher.domain)


def _period_of(context: QuorumContext, uow: UnitOfWork, said: SignedStatement) -> int:
    """Return the period that a statement is of, where it was made by our settings."""
    block = uow.blocks.at(said.as_of_block or 0)
    time = said.expires_at - context.settings.ttl_seconds if block is None else block.time
    return time // context.settings.period_seconds


def _own_statement_values(
    context: QuorumContext, uow: UnitOfWork, said: SignedStatement, contract_status: ContractStatus
) -> dict[str, str | int]:
    """Return what we say as of the same block; nothing: no period ended there."""
    as_of = said.as_of_block or 0
    cut = uow.reports.between(as_of, as_of)
    if not cut:
        return {}
    return {
        "ours": _digest_of(context, cut[0], contract_status),
        "our_period": cut[0].report.period,
        "our_data_hash": statement_of(cut[0].report, contract_status).data_hash,
    }


def _note(
    context: QuorumContext,
    uow: UnitOfWork,
    event: str,
    received: tuple[SignedStatement, Told],
    ours: Mapping[str, str | int] = MappingProxyType({}),
) -> None:
    said, told = received
    instead = ours.get("ours", "anything of ours")
    detail = f"{said.signer} signed {said.digest} for {said.kind} {said.round}, not {instead}"
    uow.outbox.journal.write(event, context.tx.stamp, JournalSubject(), detail)
    theirs = (
        {"period": told.period, "data_hash": told.data_hash}
        if isinstance(told, ToldReport)
        else {}
    )
    structlog.get_logger().error(
        event,
        signer=said.signer,
        kind=said.kind,
        round=said.round,
        theirs=said.digest,
        as_of=said.as_of_block,
        as_of_hash=said.as_of_hash,
        deadline=said.expires_at,
        **theirs,
        **{"ours": "", **ours},
    )


def _named(signers: frozenset[Address]) -> str:
    return ", ".join(sorted(signers))
