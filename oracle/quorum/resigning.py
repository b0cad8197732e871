"""Retries a statement with more gas, and finds the statement behind a push.

New signatures do not repair a failed push: if signers or rules were replaced, earlier statements
can no longer land, and the report is signed again
(docs/explanation/reports.md#change-of-configuration).
"""

from dataclasses import replace

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH
from oracle.quorum.statements import REPORT
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, SignedStatement
from oracle.txmgr.client.receipts import OUT_OF_GAS

_RETRY_SUFFIX = ":again"
_MAX_RETRIES = 3


def build_retry_with_more_gas(failed: Intent, heads: Heads) -> CallRequest | None:
    """Return a call with the same statement if the failed one ran out of gas, else None."""
    request = failed.request
    is_over = request.deadline is not None and heads.latest.time > request.deadline
    if (
        failed.error_class != OUT_OF_GAS
        or is_over
        or request.dedup_key.count(_RETRY_SUFFIX) >= _MAX_RETRIES
    ):
        return None
    return replace(request, dedup_key=request.dedup_key + _RETRY_SUFFIX, not_before=None)


def find_pushed_statement(
    uow: UnitOfWork, push: Intent, contract_status: ContractStatus
) -> SignedStatement:
    """Return the statement of a push as stored (ours or a peer's), else built from its request."""
    request = push.request
    round_key = (request.contract, REPORT, request.round or 0)
    statements = [
        *uow.statements.list_for_round(*round_key),
        *uow.peer_statements.list_for_round(*round_key),
    ]
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
