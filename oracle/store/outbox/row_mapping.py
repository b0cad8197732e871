"""Converts between the records of the outbox and the rows of its tables."""

from typing import Any

from sqlalchemy import Row

from oracle.domain.ids import Address, Hash
from oracle.store.outbox.records import (
    Account,
    Attempt,
    AttemptReason,
    CallRequest,
    Intent,
    IntentState,
    NonceSlot,
    NonceState,
    SignedCall,
    SignedStatement,
)


def encode_request_row(request: CallRequest) -> dict[str, str | int | None]:
    return {
        "chain_id": request.account.chain_id,
        "sender": request.account.address,
        "contract": request.contract,
        "kind": request.kind,
        "dedup_key": request.dedup_key,
        "subject": request.subject,
        "period": request.period,
        "round": request.round,
        "as_of_block": request.as_of_block,
        "as_of_hash": request.as_of_hash,
        "digest": request.digest,
        "calldata": request.calldata,
        "priority": request.priority,
        "not_before": request.not_before,
        "deadline": request.deadline,
        "exclusive_key": request.exclusive_key,
    }


def decode_intent_row(row: Row[Any]) -> Intent:
    request = CallRequest(
        account=Account(row.chain_id, Address(row.sender)),
        contract=Address(row.contract),
        kind=row.kind,
        dedup_key=row.dedup_key,
        calldata=row.calldata,
        subject=row.subject,
        period=row.period,
        round=row.round,
        as_of_block=row.as_of_block,
        as_of_hash=None if row.as_of_hash is None else Hash(row.as_of_hash),
        digest=None if row.digest is None else Hash(row.digest),
        priority=row.priority,
        not_before=row.not_before,
        deadline=row.deadline,
        exclusive_key=row.exclusive_key,
    )
    return Intent(
        id=row.id,
        request=request,
        state=IntentState(row.state),
        nonce=row.nonce,
        gas_limit=row.gas_limit,
        max_cost_wei=row.max_cost_wei,
        error_class=row.error_class,
        error_text=row.error_text,
        superseded_by=row.superseded_by,
        created_at=row.created_at,
        updated_at=row.updated_at,
        replaces=row.replaces,
        yielded_at=row.yielded_at,
    )


def decode_slot_row(row: Row[Any]) -> NonceSlot:
    return NonceSlot(
        account=Account(row.chain_id, Address(row.sender)),
        nonce=row.nonce,
        intent_id=row.intent_id,
        state=NonceState(row.state),
        won_attempt=row.won_attempt,
        block_number=row.block_number,
        block_hash=None if row.block_hash is None else Hash(row.block_hash),
        succeeded=None if row.receipt_status is None else bool(row.receipt_status),
        gas_used=row.gas_used,
        gas_price_wei=row.gas_price_wei,
        opened_block=row.opened_block,
        opened_at=row.opened_at,
        last_bump_block=row.last_bump_block,
        mined_at=row.mined_at,
        finalised_at=row.finalised_at,
    )


def decode_attempt_row(row: Row[Any]) -> Attempt:
    return Attempt(
        id=row.id,
        nonce=row.nonce,
        intent_id=row.intent_id,
        seq=row.seq,
        signed=SignedCall(
            Hash(row.tx_hash), bytes(row.raw_tx), row.max_fee_wei, row.tip_wei, row.gas_limit
        ),
        sends=row.sends,
        last_sent_block=row.last_sent_block,
        last_error_class=row.last_error_class,
        last_error_text=row.last_error_text,
        reason=AttemptReason(row.reason),
        signed_at=row.signed_at,
        first_sent_block=row.first_sent_block,
        first_sent_at=row.first_sent_at,
        last_sent_at=row.last_sent_at,
    )


def encode_statement_row(statement: SignedStatement) -> dict[str, Any]:
    return {
        "chain_id": statement.chain_id,
        "contract": statement.contract,
        "signer": statement.signer,
        "round": statement.round,
        "digest": statement.digest,
        "config": statement.config,
        "prev": statement.prev,
        "as_of_block": statement.as_of_block,
        "as_of_hash": statement.as_of_hash,
        "deadline": statement.deadline,
        "root": statement.root,
        "signature": statement.signature,
    }


def decode_statement_row(row: Row[Any], expiry_reason: str | None) -> SignedStatement:
    return SignedStatement(
        chain_id=row.chain_id,
        contract=Address(row.contract),
        signer=Address(row.signer),
        round=row.round,
        digest=Hash(row.digest),
        signature=bytes(row.signature),
        config=Hash(row.config),
        prev=Hash(row.prev),
        as_of_block=row.as_of_block,
        as_of_hash=Hash(row.as_of_hash),
        deadline=row.deadline,
        root=Hash(row.root),
        expiry_reason=expiry_reason,
    )
