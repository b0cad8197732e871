"""Publishes signed statements to the other reporters, with all signed fields."""

from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.wire_format import KickMessage, ReportMessage, StatementMessage
from oracle.signing.signer import Statement
from oracle.signing.typed_data import ReportStatement
from oracle.store.outbox.records import SignedStatement


def publish_statement(
    context: QuorumContext, statement: Statement, record: SignedStatement
) -> None:
    """Publish a stored statement on the board, if this reporter serves one."""
    if context.board is not None:
        context.board.publish(_build_message(context, statement, record))


def _build_message(
    context: QuorumContext, statement: Statement, record: SignedStatement
) -> StatementMessage:
    signature = "0x" + record.signature.hex()
    if isinstance(statement, ReportStatement):
        return ReportMessage(
            chain_id=record.chain_id,
            contract=record.contract,
            config=statement.config,
            round=statement.round,
            prev=statement.prev,
            as_of=statement.as_of,
            as_of_hash=statement.as_of_hash,
            deadline=statement.deadline,
            data_hash=statement.data_hash,
            period=(statement.deadline - context.settings.ttl_seconds)
            // context.settings.period_seconds,
            digest=record.digest,
            signer=record.signer,
            signature=signature,
        )
    return KickMessage(
        chain_id=record.chain_id,
        contract=record.contract,
        config=statement.config,
        round=statement.round,
        report=statement.report,
        node=statement.node,
        evidence=statement.evidence,
        deadline=statement.deadline,
        digest=record.digest,
        signer=record.signer,
        signature=signature,
    )
