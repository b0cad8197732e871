"""Collects the signatures of a quorum of signers, for a push or a proposal."""

from collections.abc import Collection

from oracle.bindings.oracle_views import signers_of
from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import Address
from oracle.quorum.gatherer import ask_peers
from oracle.quorum.quorum_context import QuorumContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement


def signatures(
    context: QuorumContext, record: SignedStatement, contract_status: ContractStatus
) -> bytes | None:
    """Return the signatures of a quorum (65 bytes each, ordered by signer), or None if too few.

    Signatures of exactly `record.digest` count, our own and those from peers, if their signer is a
    current signer of the contract. Peers are queried while there are too few.

    Raises:
        TransientError: no endpoint returns the signers.
    """
    signers = signers_of(
        context.tx.publisher.lines, context.tx.publisher.domain.contract, contract_status.block
    )
    counted = _counted(context, record, signers)
    if len(counted) < contract_status.head.quorum and ask_peers(context, record, contract_status):
        counted = _counted(context, record, signers)
    if len(counted) < contract_status.head.quorum:
        return None
    return b"".join(counted[signer] for signer in sorted(counted)[: contract_status.head.quorum])


def why_not_counted(context: QuorumContext, contract_status: ContractStatus) -> str | None:
    """Return why our signer's statements do not count, or None if the contract lists it.

    Raises:
        TransientError: no endpoint returns the signers.
    """
    ours = context.tx.publisher.signer.address
    if ours in signers_of(
        context.tx.publisher.lines, context.tx.publisher.domain.contract, contract_status.block
    ):
        return None
    return f"our signer {ours} is none of the contract's signers: what it signs counts for nothing"


def _counted(
    context: QuorumContext, record: SignedStatement, signers: Collection[Address]
) -> dict[Address, bytes]:
    with context.tx.store.reading() as uow:
        found = gathered(uow, record)
    return {signer: found[signer] for signer in found if signer in signers}


def gathered(uow: UnitOfWork, record: SignedStatement) -> dict[Address, bytes]:
    """Return every stored signature of this digest, by signer."""
    about = (record.contract, record.kind, record.round, record.subject)
    said = [
        *uow.peer_statements.of(*about),
        *(one for one in uow.statements.of_round(*about) if one.expiry_reason is None),
    ]
    return {one.signer: one.signature for one in said if one.digest == record.digest}
