"""Publishes signed statements to the other reporters, with all signed fields."""

from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.wire_format import Told, ToldKick, ToldReport
from oracle.signing.signer import Statement
from oracle.signing.typed_data import ReportStatement
from oracle.store.outbox.records import SignedStatement


def offer(context: QuorumContext, statement: Statement, signed: SignedStatement) -> None:
    """Publish a stored statement; does nothing if no board is served."""
    if context.board is not None:
        context.board.put(_told(context, statement, signed))


def _told(context: QuorumContext, statement: Statement, signed: SignedStatement) -> Told:
    signature = "0x" + signed.signature.hex()
    if isinstance(statement, ReportStatement):
        return ToldReport(
            chain_id=signed.chain_id,
            contract=signed.contract,
            config=statement.config,
            round=statement.round,
            prev=statement.prev,
            as_of=statement.as_of,
            as_of_hash=statement.as_of_hash,
            deadline=statement.deadline,
            data_hash=statement.data_hash,
            period=(statement.deadline - context.settings.ttl_seconds)
            // context.settings.period_seconds,
            digest=signed.digest,
            signer=signed.signer,
            signature=signature,
        )
    return ToldKick(
        chain_id=signed.chain_id,
        contract=signed.contract,
        config=statement.config,
        round=statement.round,
        report=statement.report,
        node=statement.node,
        evidence=statement.evidence,
        deadline=statement.deadline,
        digest=signed.digest,
        signer=signed.signer,
        signature=signature,
    )
