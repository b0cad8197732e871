"""Signs at most one statement for each round that the contract could still accept.

See docs/explanation/transactions.md#i11.
"""

from dataclasses import replace

from oracle.bindings.qos_roots import RootsStatus
from oracle.errors import TransientError
from oracle.indexer.feed_faults import find_fault_blocking_publication
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import (
    find_expiry_reason,
    find_final_block,
    may_both_land,
    publish_statement,
)
from oracle.signing.signer import SignerRefusedError, WrongSignatureError
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement
from oracle.telemetry import quorum_metrics
from oracle.telemetry.logger import get_logger


def sign_once(
    context: QuorumContext,
    statement: ReportStatement,
    record: SignedStatement,
    contract_status: RootsStatus,
) -> SignedStatement | None:
    """Sign a statement, and store it before it is published.

    A statement that is already stored is returned without another request to the signer. `record`
    is the database record of the statement (`quorum.statements`). The result is None if an earlier
    statement of this round may still be accepted on chain, if a fault of the feed prevents
    publishing, if the signer is embargoed, or if it backs off after a refusal. Do not call this
    function inside a database transaction, because the signer may be on another machine.

    Raises:
        InputError: there is no signer.
        TransientError: the signer cannot be reached, refused, or returned a wrong signature.
        FatalError: the lease was lost.
    """
    with context.account_context.store.read_transaction() as uow:
        earlier_statement = uow.statements.find_live(record)
        is_signed = earlier_statement is not None and earlier_statement.digest == record.digest
        if not is_signed and not _can_sign_statement(uow, record, contract_status):
            return None
    if earlier_statement is not None and is_signed:
        publish_statement(context, earlier_statement)
        return earlier_statement
    if context.account_context.sender_account.signer_backoff.get_remaining_seconds() > 0:
        return None
    context.account_context.sender_account.pool_view.check_chain(record.chain_id)
    signature = _request_signature(context, statement)
    signed_statement = replace(
        record, signer=context.account_context.sender_account.signer.address, signature=signature
    )
    with context.account_context.write_transaction() as uow:
        # Check again in the transaction that stores the statement, because the database may have
        # changed while the signature was being requested.
        earlier_statement = uow.statements.find_live(record)
        if not _can_sign_statement(uow, record, contract_status):
            return None
        if earlier_statement is not None:
            reason = find_expiry_reason(uow, earlier_statement, contract_status) or "expired"
            uow.statements.mark_expired(
                earlier_statement.digest, reason, context.account_context.stamp
            )
        uow.statements.add(signed_statement, context.account_context.stamp)
    publish_statement(context, signed_statement)
    return signed_statement


def _request_signature(context: QuorumContext, statement: ReportStatement) -> bytes:
    """Request the signature; a refusal or a wrong signature starts a backoff."""
    backoff = context.account_context.sender_account.signer_backoff
    try:
        signature = context.account_context.sender_account.signer.sign_statement(
            statement, context.account_context.sender_account.domain
        )
    except (SignerRefusedError, WrongSignatureError) as error:
        backoff.start(None)
        context.missing.refusal_reason = f"nothing is signed: {error}"
        retry_text = f"the request is repeated in {backoff.get_remaining_seconds():.0f} s"
        raise TransientError(f"nothing is signed: {error}; {retry_text}") from error
    backoff.reset()
    context.missing.refusal_reason = None
    return signature


def _can_sign_statement(
    uow: UnitOfWork,
    record: SignedStatement,
    contract_status: RootsStatus,
) -> bool:
    if find_fault_blocking_publication(uow) is not None:
        # If rows of the feed contradict each other or are missing, the scores may be wrong.
        return False
    embargo_end = uow.statements.find_embargo_end(record.chain_id, record.contract, record.signer)
    final_block = find_final_block(uow)
    if embargo_end is not None and (final_block is None or final_block.time < embargo_end):
        return False
    # Peers may have returned statements that another process signed with this reporter's key. They
    # conflict with this statement, too.
    statements_of_peers = [
        peer_statement
        for peer_statement in uow.peer_statements.list_for_round(record.contract, record.round)
        if peer_statement.signer == record.signer and peer_statement.digest != record.digest
    ]
    # Check even statements marked as expired. The block because of which a statement was marked
    # may have come from a single endpoint, and may have left the chain.
    own_statements = [
        own_statement
        for own_statement in uow.statements.list_for_round(record.contract, record.round)
        if own_statement.signer == record.signer and own_statement.digest != record.digest
    ]
    for other_statement in [*statements_of_peers, *own_statements]:
        if may_both_land(uow, record, other_statement, contract_status):
            _log_conflict_refusal(record, other_statement)
            return False
    return True


def _log_conflict_refusal(record: SignedStatement, earlier_statement: SignedStatement) -> None:
    """Log that a statement was not signed because an earlier one may still be accepted.

    See tests/faults/sending/cases.toml#f61.
    """
    quorum_metrics.REFUSED.inc()
    get_logger().warning(
        "conflicting_statement_refused",
        round=record.round,
        signed=earlier_statement.digest,
        asked=record.digest,
    )
