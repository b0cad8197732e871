"""What is written down of a statement to be signed or gathered, its signature still empty."""

from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.report import Report
from oracle.signing.typed_data import KickStatement, ReportStatement
from oracle.store.outbox.records import SignedStatement
from oracle.txmgr.context import TxContext

REPORT, KICK = "report", "kick"


def kick_subject(index: int | str) -> str:
    """Return what a kickout of a lane is filed under."""
    return f"ix={index}"


def statement_of(report: Report, standing: ContractStatus) -> ReportStatement:
    """Bind a report to the round that it would become, under the rules in force."""
    return ReportStatement(
        round=standing.head.round + 1,
        rules=standing.head.rules,
        rules_hash=standing.rules_hash,
        prev=report.prev,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        deadline=report.deadline,
        records=report.records,
    )


def report_record(context: TxContext, statement: ReportStatement) -> SignedStatement:
    """Return the record of a report's statement; its signer is ours, zero where we have none."""
    return SignedStatement(
        chain_id=context.publisher.domain.chain_id,
        contract=context.publisher.domain.contract,
        signer=_signer(context),
        kind=REPORT,
        round=statement.round,
        subject="",
        digest=statement.digest(context.publisher.domain),
        signature=b"",
        expires_at=statement.deadline,
        prev_digest=statement.prev,
        as_of_block=statement.as_of,
        as_of_hash=statement.as_of_hash,
    )


def kick_record(context: TxContext, statement: KickStatement, subject: str) -> SignedStatement:
    """Return the record of a kickout's statement; `subject` names its lane (`ix=7`)."""
    return SignedStatement(
        chain_id=context.publisher.domain.chain_id,
        contract=context.publisher.domain.contract,
        signer=_signer(context),
        kind=KICK,
        round=statement.round,
        subject=subject,
        digest=statement.digest(context.publisher.domain),
        signature=b"",
        expires_at=statement.deadline,
        prev_digest=statement.report,
    )


def _signer(context: TxContext) -> Address:
    return context.publisher.signer.address if context.publisher.has_signer else ZERO_ADDRESS
