"""Brings a statement once more: with other signatures, or with more gas.

A push or a proposal that is refused for its signatures gets others, once: a signer may have been
removed, or the quorum changed, since they were gathered.
See docs/reference/rpc-requirements.md#contract-errors.
See docs/reference/rpc-requirements.md#contract-errors.
"""

from collections.abc import Callable
from dataclasses import replace

from oracle.bindings.contract_errors import OF_SIGNATURES
from oracle.bindings.qos_oracle import ContractStatus, propose_call, push_call
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH
from oracle.quorum.collector import signatures
from oracle.quorum.quorum_context import QuorumContext
from oracle.quorum.statements import REPORT
from oracle.signing.signer import Statement
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent, SignedStatement
from oracle.txmgr.call_registry import Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.client.receipts import OUT_OF_GAS

_OTHERS = ":signatures"
_AGAIN = ":again"
_TRIES = 3
# A statement that a call brings, and its record; None: its report is gone.
Said = tuple[Statement, SignedStatement] | None


def signed_by_others(
    context: QuorumContext,
    call: Intent,
    said_by: Callable[[ContractStatus], Said],
    result: PreflightResult,
    heads: Heads,
) -> Decision | None:
    """Gather other signatures for a refused call; None: it is not refused for those it has.

    Or it was tried with others already, or there are none.

    Raises:
        TransientError: no endpoint says who the signers are.
    """
    request, name = call.request, None if result.refusal is None else result.refusal.name
    if name not in OF_SIGNATURES or request.dedup_key.endswith(_OTHERS):
        return None
    contract_status = context.contract_status()
    said = said_by(contract_status)
    if said is None or said[1].digest != request.digest:
        return None
    statement, record = said
    gathered = signatures(context, record, contract_status)
    if gathered is None:
        # Others may still sign; at its deadline it ends by itself.
        few = "fewer of the contract's signers than its quorum have signed it"
        return Decision.wait_a_block(heads, ("BadSignature", few))
    calldata = (
        push_call(statement, contract_status.head.config_count, gathered)
        if isinstance(statement, ReportStatement)
        else propose_call(statement, gathered)
    )
    if calldata == request.calldata:
        return None
    again = replace(
        request, calldata=calldata, dedup_key=request.dedup_key + _OTHERS, not_before=None
    )
    return Decision.replace(again, ("signed by others", result.reason))


def with_more_gas(failed: Intent, heads: Heads) -> CallRequest | None:
    """Return the same statement once more where only the gas was too little; None: it was not."""
    request = failed.request
    is_over = request.deadline is not None and heads.latest.time > request.deadline
    if failed.error_class != OUT_OF_GAS or is_over or request.dedup_key.count(_AGAIN) >= _TRIES:
        return None
    return replace(request, dedup_key=request.dedup_key + _AGAIN, not_before=None)


def statement_behind(
    uow: UnitOfWork, push: Intent, contract_status: ContractStatus
) -> SignedStatement:
    """Return what the push says, as it was signed or told; else as its own row has it."""
    request = push.request
    about = (request.contract, REPORT, request.round or 0)
    said = [*uow.statements.of_round(*about), *uow.peer_statements.of(*about)]
    known = next((one for one in said if one.digest == request.digest), None)
    if known is not None:
        return known
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
        # Not known: not held against it.
        prev_digest=contract_status.last_report,
        as_of_block=request.as_of_block,
        as_of_hash=request.as_of_hash,
        config=contract_status.config,
    )
