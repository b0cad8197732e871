"""Builds the records and messages of signed reports, and finds stored records.

Before a statement is signed, its record has an empty signature. If the contract's signers or rules
are replaced, the contract accepts no earlier statement any more, so the report is signed again
(docs/explanation/reports.md#change-of-configuration). In this package, a statement *can land* if
the contract may still accept it.
"""

from dataclasses import replace

from oracle.bindings.qos_roots import RootsStatus, decode_push_report_call
from oracle.chain.heads import Heads
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.report import Report
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.wire_format import ReportMessage
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    Account,
    CallRequest,
    Intent,
    IntentState,
    SignedStatement,
)
from oracle.txmgr.client.receipts import OUT_OF_GAS

# Each retry of a failed call adds this suffix to the call's dedup key. There are at most this many
# retries.
_RETRY_SUFFIX, _MAX_RETRIES = ":again", 3
_IN_FLIGHT_STATES = (IntentState.ASSIGNED, IntentState.LIVE)


def build_report_statement(report: Report, contract_status: RootsStatus) -> ReportStatement:
    """Build a report's statement for the next round, under the contract's configuration."""
    return ReportStatement(
        config=contract_status.config,
        round=contract_status.head.round + 1,
        prev=report.prev,
        as_of=report.as_of.number,
        as_of_hash=report.as_of.hash,
        deadline=report.deadline,
        root=report.root,
    )


def build_statement_record(context: QuorumContext, statement: ReportStatement) -> SignedStatement:
    """Build a record of a report's statement.

    Without a key, the signer of the record is the zero address.
    """
    sender_account = context.account_context.sender_account
    return SignedStatement(
        chain_id=sender_account.domain.chain_id,
        contract=sender_account.domain.contract,
        signer=sender_account.signer.address if sender_account.has_signer else ZERO_ADDRESS,
        round=statement.round,
        digest=statement.compute_digest(sender_account.domain),
        signature=b"",
        config=statement.config,
        prev=statement.prev,
        as_of_block=statement.as_of,
        as_of_hash=statement.as_of_hash,
        deadline=statement.deadline,
        root=statement.root,
    )


def is_report_in_flight(uow: UnitOfWork, account: Account) -> bool:
    """Return whether a signed report has a nonce and may be mined before other calls.

    An accepted report starts a new round, which invalidates the proofs that other calls carry.
    """
    intents = uow.outbox.intents.list_in_states(account, _IN_FLIGHT_STATES)
    return any(intent.request.digest is not None for intent in intents)


def list_round_statements(
    uow: UnitOfWork, contract: Address, round_number: int
) -> list[SignedStatement]:
    """Return a round's stored statements, own statements first.

    Expired statements are included.
    """
    return [
        *uow.statements.list_for_round(contract, round_number),
        *uow.peer_statements.list_for_round(contract, round_number),
    ]


def find_final_block(uow: UnitOfWork) -> BlockRef | None:
    """Return the highest stored final block, if there is one.

    A second provider has confirmed this block, so no single endpoint can pretend that it is later
    than it is. The newest indexed block, in contrast, may have been invented by one endpoint.
    """
    cursor = uow.cursor.get()
    if cursor is None or cursor.final_number is None:
        return None
    return uow.blocks.find_highest_up_to(cursor.final_number)


def find_expiry_reason(
    uow: UnitOfWork, record: SignedStatement, contract_status: RootsStatus
) -> str | None:
    """Return why a statement can no longer land, or None if it may still land.

    Time and height are those of the final block, because the chain can never be behind it. The
    anchor window is read from the indexed events, because a single endpoint returned
    `contract_status`. If no indexed event has set the window, only the deadline ends a statement.
    """
    return _find_expiry_reason(uow, record, contract_status, find_final_block(uow))


def may_both_land(
    uow: UnitOfWork,
    new_statement: SignedStatement,
    earlier_statement: SignedStatement,
    contract_status: RootsStatus,
) -> bool:
    """Return whether the contract could accept both statements on the same chain.

    One endpoint may have invented the newest blocks. If they are the reason why the earlier
    statement can no longer land, the new statement is permitted only if it commits to the same
    blocks, because the contract then rejects it on a chain without these blocks.
    """
    reason = find_expiry_reason(uow, earlier_statement, contract_status)
    final_block = find_final_block(uow)
    final_number = -1 if final_block is None else final_block.number
    accepted_round = uow.rounds.find_accepted_round(earlier_statement.round)
    config = uow.rounds.get_contract_settings().config
    is_excluded_by_reason = {
        None: False,
        "expired": True,
        "config_replaced": config is not None and new_statement.config == config.digest,
        "round_taken": accepted_round is not None and accepted_round.at.block <= final_number,
        "prev_reorged": new_statement.prev == contract_status.last_root,
        "as_of_reorged": earlier_statement.as_of_block
        <= max(final_number, new_statement.as_of_block),
    }
    return not is_excluded_by_reason[reason]


def find_unproven_expiry_reason(
    uow: UnitOfWork, record: SignedStatement, contract_status: RootsStatus
) -> str | None:
    """Return why a statement can no longer land as of the newest indexed block.

    The result is None if it still may. One endpoint may have invented this block. Therefore the
    result is used only to compare reporters, and never permits another signature.
    """
    return _find_expiry_reason(uow, record, contract_status, uow.blocks.find_newest())


def _find_expiry_reason(
    uow: UnitOfWork,
    record: SignedStatement,
    contract_status: RootsStatus,
    block: BlockRef | None,
) -> str | None:
    own_block = uow.blocks.find_canonical(record.as_of_block)
    settings = uow.rounds.get_contract_settings()
    config = settings.config
    is_next_round = contract_status.head.round == record.round - 1
    is_expired_by_reason = {
        "expired": block is not None
        and (
            block.time > record.deadline
            or (
                settings.limits is not None
                and block.number + 1 - record.as_of_block > settings.limits.limits.anchor_window
            )
        ),
        # The contract numbers its configurations, so an old configuration never becomes valid
        # again.
        "config_replaced": config is not None and record.config != config.digest,
        "round_taken": uow.rounds.find_accepted_round(record.round) is not None,
        # Either a reorg removed the previous round, or its root was withdrawn.
        "prev_reorged": is_next_round and contract_status.last_root != record.prev,
        "as_of_reorged": own_block is not None and own_block.hash != record.as_of_hash,
    }
    return next(
        (reason for reason, is_expired in is_expired_by_reason.items() if is_expired), None
    )


def publish_statement(context: QuorumContext, record: SignedStatement) -> None:
    """Publish a stored statement on the board if this reporter serves one."""
    if context.board is not None:
        context.board.publish(_build_message(context, record))


def _build_message(context: QuorumContext, record: SignedStatement) -> ReportMessage:
    return ReportMessage(
        chain_id=record.chain_id,
        contract=record.contract,
        config=record.config,
        round=record.round,
        prev=record.prev,
        as_of=record.as_of_block,
        as_of_hash=record.as_of_hash,
        deadline=record.deadline,
        root=record.root,
        period=(record.deadline - context.report_settings.ttl_seconds)
        // context.report_settings.period_seconds,
        digest=record.digest,
        signer=record.signer,
        signature="0x" + record.signature.hex(),
    )


def build_retry_with_more_gas(failed_call: Intent, heads: Heads) -> CallRequest | None:
    """Build a retry of a call that ran out of gas, with the same statement.

    The result is None after any other failure, after the deadline, or after too many retries.
    """
    request = failed_call.request
    is_past_deadline = request.deadline is not None and heads.latest.time > request.deadline
    if (
        failed_call.error_class != OUT_OF_GAS
        or is_past_deadline
        or request.dedup_key.count(_RETRY_SUFFIX) >= _MAX_RETRIES
    ):
        return None
    return replace(request, dedup_key=request.dedup_key + _RETRY_SUFFIX, not_before=None)


def load_pushed_statement(
    context: QuorumContext, uow: UnitOfWork, push: Intent, contract_status: RootsStatus
) -> SignedStatement:
    """Return the stored statement of a push, or else decode it from the call."""
    request = push.request
    statements = list_round_statements(uow, request.contract, request.round or 0)
    statement = next(
        (candidate for candidate in statements if candidate.digest == request.digest), None
    )
    if statement is not None:
        return statement
    # The calldata contains neither the configuration nor the previous root. Assume that both are
    # the current ones.
    pushed_statement = decode_push_report_call(
        request.calldata, contract_status.config, contract_status.last_root
    )
    return build_statement_record(context, pushed_statement)
