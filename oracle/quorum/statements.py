"""Builds the records and messages of statements, and finds stored statements.

Before a statement is signed, its record has an empty signature. If signers or rules are replaced,
earlier statements can no longer land, and the report is signed again
(docs/explanation/reports.md#change-of-configuration).
"""

from dataclasses import replace
from typing import TypeAlias

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address
from oracle.domain.reports.report import Report
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.signing_round import find_round_expiry_reason
from oracle.quorum.wire_format import KickMessage, ReportMessage, StatementMessage
from oracle.signing.typed_data import KickStatement, ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, SignedStatement
from oracle.txmgr.client.receipts import OUT_OF_GAS

REPORT, KICK = "report", "kick"
# The statements that the contract QoSOracle takes.
LaneStatement: TypeAlias = ReportStatement | KickStatement
# The suffix that each repetition of a call adds to its dedup key, and the maximum number of
# repetitions.
_RETRY_SUFFIX, _MAX_RETRIES = ":again", 3


def build_report_statement(report: Report, contract_status: ContractStatus) -> ReportStatement:
    """Return a report's statement for the next round, under the contract's configuration."""
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


def list_round_statements(
    uow: UnitOfWork, contract: Address, kind: str, round_number: int, subject: str = ""
) -> list[SignedStatement]:
    """Return the stored statements of a round, including expired ones: ours, then the peers'."""
    round_key = (contract, kind, round_number, subject)
    return [
        *uow.statements.list_for_round(*round_key),
        *uow.peer_statements.list_for_round(*round_key),
    ]


def _get_own_signer(context: QuorumContext) -> Address:
    return (
        context.account_context.sender_account.signer.address
        if context.account_context.sender_account.has_signer
        else ZERO_ADDRESS
    )


def find_expiry_reason(
    uow: UnitOfWork, record: SignedStatement, contract_status: ContractStatus
) -> str | None:
    """Return why a statement can no longer land, as a `pub_signature` reason, or None if it may.

    The time and height of the last indexed block are used; those of the chain are never lower.
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
        return _find_report_expiry_reason(uow, record, contract_status)
    # A kickout is signed on a round, whose digest is stored in `prev_digest`.
    report = record.prev_digest
    return None if report is None else find_round_expiry_reason(uow, record.round, report)


def _find_report_expiry_reason(
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


def publish_statement(
    context: QuorumContext, statement: LaneStatement, record: SignedStatement
) -> None:
    """Publish a stored statement on the board, if this reporter serves one."""
    if context.board is not None:
        context.board.publish(_build_message(context, statement, record))


def _build_message(
    context: QuorumContext, statement: LaneStatement, record: SignedStatement
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


def build_retry_with_more_gas(failed_call: Intent, heads: Heads) -> CallRequest | None:
    """Return a call with the same statement if the failed one ran out of gas, else None."""
    request = failed_call.request
    is_over = request.deadline is not None and heads.latest.time > request.deadline
    if (
        failed_call.error_class != OUT_OF_GAS
        or is_over
        or request.dedup_key.count(_RETRY_SUFFIX) >= _MAX_RETRIES
    ):
        return None
    return replace(request, dedup_key=request.dedup_key + _RETRY_SUFFIX, not_before=None)


def find_pushed_statement(
    uow: UnitOfWork, push: Intent, contract_status: ContractStatus
) -> SignedStatement:
    """Return the stored statement of a push, or one built from its request if none is stored."""
    request = push.request
    statements = list_round_statements(uow, request.contract, REPORT, request.round or 0)
    statement = next(
        (candidate for candidate in statements if candidate.digest == request.digest), None
    )
    if statement is not None:
        return statement
    return SignedStatement(
        chain_id=request.account.chain_id,
        contract=request.contract,
        signer=ZERO_ADDRESS,
        kind=REPORT,
        round=request.round or 0,
        subject="",
        digest=request.digest or ZERO_HASH,
        signature=b"",
        expires_at=request.deadline or 0,
        # The request does not store the previous digest, so the current one is assumed.
        prev_digest=contract_status.last_report,
        as_of_block=request.as_of_block,
        as_of_hash=request.as_of_hash,
        config=contract_status.config,
    )
