"""Builds the database records of statements to sign or collect, with an empty signature."""

from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.report import Report
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.signing_round import round_expiry_reason
from oracle.signing.typed_data import KickStatement, ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import SignedStatement

REPORT, KICK = "report", "kick"


def build_report_statement(report: Report, contract_status: ContractStatus) -> ReportStatement:
    """Return a report's statement for the next round, under the configuration in force."""
    return ReportStatement(
        config=contract_status.config,
        round=contract_status.head.round + 1,
        prev=report.prev,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        deadline=report.deadline,
        blob=report.data,
    )


def build_report_record(context: QuorumContext, statement: ReportStatement) -> SignedStatement:
    """Return the record of a report's statement; the signer is zero if we have no key."""
    return SignedStatement(
        chain_id=context.account_context.sender_account.domain.chain_id,
        contract=context.account_context.sender_account.domain.contract,
        signer=_get_own_signer(context),
        kind=REPORT,
        round=statement.round,
        subject="",
        digest=statement.compute_digest(context.account_context.sender_account.domain),
        signature=b"",
        expires_at=statement.deadline,
        prev_digest=statement.prev,
        as_of_block=statement.as_of,
        as_of_hash=statement.as_of_hash,
        config=statement.config,
    )


def build_kick_record(context: QuorumContext, statement: KickStatement) -> SignedStatement:
    """Return the record of a kickout's statement; its subject is the node."""
    return SignedStatement(
        chain_id=context.account_context.sender_account.domain.chain_id,
        contract=context.account_context.sender_account.domain.contract,
        signer=_get_own_signer(context),
        kind=KICK,
        round=statement.round,
        subject=statement.node,
        digest=statement.compute_digest(context.account_context.sender_account.domain),
        signature=b"",
        expires_at=statement.deadline,
        prev_digest=statement.report,
        config=statement.config,
    )


def _get_own_signer(context: QuorumContext) -> Address:
    return (
        context.account_context.sender_account.signer.address
        if context.account_context.sender_account.has_signer
        else ZERO_ADDRESS
    )


def expiry_reason(
    uow: UnitOfWork, record: SignedStatement, contract_status: ContractStatus
) -> str | None:
    """Return why a statement can no longer land, as a `pub_signature` reason, or None.

    Time and height are those of the last indexed block; the chain's are never lower.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return None
    if cursor.time > record.expires_at:
        return "expired"
    config = uow.rounds.get_contract_settings().config
    if config is not None and record.config is not None and record.config != config.digest:
        # The contract counts configurations, so an old one never becomes valid again.
        return "config_replaced"
    if record.as_of_block is not None:
        return _report_expiry_reason(uow, record, contract_status)
    # A kickout is signed on a round, whose digest is stored in `prev_digest`.
    report = record.prev_digest
    return None if report is None else round_expiry_reason(uow, record.round, report)


def _report_expiry_reason(
    uow: UnitOfWork, record: SignedStatement, contract_status: ContractStatus
) -> str | None:
    cursor, as_of = uow.cursor.get(), record.as_of_block or 0
    height = 0 if cursor is None else cursor.number
    own_block = uow.blocks.get_canonical(as_of)
    is_next_round = contract_status.head.round == record.round - 1
    reasons = {
        "expired": height + 1 - as_of > contract_status.limits.anchor_window,
        "round_taken": uow.rounds.get_accepted_round(record.round) is not None,
        "prev_reorged": is_next_round and contract_status.last_report != record.prev_digest,
        "as_of_reorged": own_block is not None and own_block.hash != record.as_of_hash,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)
