"""One round, one signature: a second one only when the first can no longer land.

See docs/explanation/transactions.md#i11.
"""

from dataclasses import replace

import structlog

from oracle.bindings.qos_oracle import ContractStatus
from oracle.errors import TransientError
from oracle.indexer.feeds.feed_faults import holding
from oracle.quorum.offering import offer
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import expiry_reason
from oracle.signing.signer import SignerRefusedError, Statement, WrongSignatureError
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement
from oracle.telemetry import quorum_metrics


def sign_once(
    context: QuorumContext, statement: Statement, record: SignedStatement, now: ContractStatus
) -> SignedStatement | None:
    """Return our signed statement, which is stored before anybody sees it.

    The same statement again is the one that is stored: nothing is signed twice. `record` says
    what is written down of it (`records`), `now` how the contract stands. None: an earlier
    statement of this round may still land, or the signer signs nothing because its database was
    lost, or rests because it refused. Ask it outside of transactions: it may be another machine.

    Raises:
        InputError: there is no signer.
        TransientError: it cannot be reached now, refused, or its answer is not its signature.
        FatalError: the lease was lost.
    """
    with context.tx.store.reading() as uow:
        earlier = uow.statements.live(record)
        is_signed = earlier is not None and earlier.digest == record.digest
        if not is_signed and not _may_sign(uow, record, earlier, now):
            return None
    if earlier is not None and is_signed:
        offer(context, statement, earlier)
        return earlier
    if context.tx.publisher.signer_backoff.left() > 0:
        return None
    context.tx.publisher.lines.check_chain(record.chain_id)
    signature = _asked(context, statement)
    signed = replace(record, signer=context.tx.publisher.signer.address, signature=signature)
    with context.tx.writing() as uow:
        # Looked at once more, in the commit that makes it known.
        earlier = uow.statements.live(record)
        if not _may_sign(uow, record, earlier, now):
            return None
        if earlier is not None:
            reason = expiry_reason(uow, earlier, now) or "expired"
            uow.statements.mark_expired(earlier.digest, reason, context.tx.stamp)
        uow.statements.add(signed, context.tx.stamp)
    offer(context, statement, signed)
    return signed


def _asked(context: QuorumContext, statement: Statement) -> bytes:
    """Request the signature; after a refusal or a wrong answer the signer backs off."""
    rest = context.tx.publisher.signer_backoff
    try:
        signature = context.tx.publisher.signer.sign_statement(
            statement, context.tx.publisher.domain
        )
    except (SignerRefusedError, WrongSignatureError) as error:
        rest.begin(None)
        seconds = f"asked again in {rest.left():.0f} s"
        raise TransientError(f"nothing is signed: {error}; {seconds}") from error
    rest.end()
    return signature


def _may_sign(
    uow: UnitOfWork, record: SignedStatement, earlier: SignedStatement | None, now: ContractStatus
) -> bool:
    if holding(uow) is not None:
        # What rests on a feed that contradicts itself is nobody's to sign.
        return False
    embargoed_to = uow.statements.embargoed_until(record.chain_id, record.contract, record.signer)
    cursor = uow.cursor.get()
    if embargoed_to is not None and (cursor is None or cursor.time < embargoed_to):
        return False
    about = (record.contract, record.kind, record.round, record.subject)
    # What our key signed in another process, as a peer shows it, is ours to the contract too.
    elsewhere = [
        one
        for one in uow.peer_statements.of(*about)
        if one.signer == record.signer and one.digest != record.digest
    ]
    for said in [*elsewhere, *([] if earlier is None else [earlier])]:
        if expiry_reason(uow, said, now) is None:
            _refuse(record, said)
            return False
    return True


def _refuse(record: SignedStatement, earlier: SignedStatement) -> None:
    """Log that a conflicting statement was refused while the first may land.

    See tests/faults/sending/cases.toml#f61.
    """
    quorum_metrics.REFUSED.labels(record.kind).inc()
    structlog.get_logger().warning(
        "conflicting_statement_refused",
        kind=record.kind,
        round=record.round,
        subject=record.subject,
        signed=earlier.digest,
        asked=record.digest,
    )
