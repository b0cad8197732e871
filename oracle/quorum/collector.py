"""Collects the signatures of a quorum of signers, for a push or a proposal."""

from collections.abc import Collection

from oracle.bindings.qos_oracle import ContractStatus, get_signers
from oracle.domain.ids import Address
from oracle.quorum.gatherer import fetch_peer_statements
from oracle.quorum.quorum_context import QuorumContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement


def collect_signatures(
    context: QuorumContext, record: SignedStatement, contract_status: ContractStatus
) -> bytes | None:
    """Return the signatures of a quorum (65 bytes each, ordered by signer), or None if too few.

    A signature of exactly `record.digest`, our own or from a peer, counts if its signer is a
    current signer of the contract. Peers are queried while there are too few.

    Raises:
        TransientError: no endpoint returns the signers.
    """
    signers = get_signers(
        context.account_context.sender_account.pool_view,
        context.account_context.sender_account.domain.contract,
        contract_status.block,
    )
    signature_by_signer = _load_counted_signatures(context, record, signers)
    if len(signature_by_signer) < contract_status.head.quorum and fetch_peer_statements(
        context, record, contract_status
    ):
        signature_by_signer = _load_counted_signatures(context, record, signers)
    if len(signature_by_signer) < contract_status.head.quorum:
        return None
    return b"".join(
        signature_by_signer[signer]
        for signer in sorted(signature_by_signer)[: contract_status.head.quorum]
    )


def unknown_signer_reason(context: QuorumContext, contract_status: ContractStatus) -> str | None:
    """Return why our signer's statements do not count, or None if the contract lists it.

    Raises:
        TransientError: no endpoint returns the signers.
    """
    own_signer = context.account_context.sender_account.signer.address
    if own_signer in get_signers(
        context.account_context.sender_account.pool_view,
        context.account_context.sender_account.domain.contract,
        contract_status.block,
    ):
        return None
    return (
        f"our signer {own_signer} is not a signer of the contract, so its signatures do not count"
    )


def _load_counted_signatures(
    context: QuorumContext, record: SignedStatement, signers: Collection[Address]
) -> dict[Address, bytes]:
    with context.account_context.store.read_transaction() as uow:
        signature_by_signer = load_signatures(uow, record)
    return {
        signer: signature_by_signer[signer] for signer in signature_by_signer if signer in signers
    }


def load_signatures(uow: UnitOfWork, record: SignedStatement) -> dict[Address, bytes]:
    """Return every stored signature of this digest, by signer."""
    round_key = (record.contract, record.kind, record.round, record.subject)
    statements = [
        *uow.peer_statements.list_for_round(*round_key),
        *(
            own_statement
            for own_statement in uow.statements.list_for_round(*round_key)
            if own_statement.expiry_reason is None
        ),
    ]
    return {
        statement.signer: statement.signature
        for statement in statements
        if statement.digest == record.digest
    }
