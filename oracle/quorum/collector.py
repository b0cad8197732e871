"""Gathers what a push or a proposal needs: the signatures of a quorum of the signers."""

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
    """Return 65 bytes of each of as many signers as the quorum, by address; None: too few yet.

    Counted are our own signature and those that peers told us, of exactly `record.digest`, by
    those who are the contract's signers at this moment: one that was removed counts no more.
    Peers are asked as long as there are too few of these.

    Raises:
        TransientError: no endpoint says who the signers are.
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
    """Tell why nobody counts what our signer signs; None: it is one of the contract's.

    Raises:
        TransientError: no endpoint says who the signers are.
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
    """Return every signature of this digest that we hold, by signer."""
    about = (record.contract, record.kind, record.round, record.subject)
    said = [
        *uow.peer_statements.of(*about),
        *(one for one in uow.statements.of_round(*about) if one.expiry_reason is None),
    ]
    return {one.signer: one.signature for one in said if one.digest == record.digest}
