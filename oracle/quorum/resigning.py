"""What becomes of a call that does not work now, signatures before all.

A push or a proposal that is refused for its signatures gets others, once: a signer may have been
removed, or the quorum changed, since they were gathered.
See docs/reference/rpc-requirements.md#contract-errors.
"""

import re
from dataclasses import replace

from oracle.bindings.contract_errors import OF_SIGNATURES
from oracle.bindings.qos_oracle import ContractStatus, proposal_in, propose_call, push_call
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH
from oracle.quorum.collector import signatures
from oracle.quorum.statements import REPORT, kick_record, report_record, statement_of
from oracle.signing.signer import Statement
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    CallRequest,
    Intent,
    IntentKind,
    IntentState,
    SignedStatement,
)
from oracle.telemetry.txmgr_metrics import TOO_BIG
from oracle.txmgr.budget import role
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import not_now, wait
from oracle.txmgr.signing_queue import gas_of_block

_SIGNED = frozenset({IntentKind.PUSH, IntentKind.PROPOSE_KICK})
_AGAIN = ":signatures"
# What clients say of a call that takes more gas than a block has.
_TOO_MUCH_GAS = re.compile(
    r"out ?of ?gas|gas required exceeds|exceeds block gas|gas too high", re.IGNORECASE
)


def refused(
    context: TxContext, intent: Intent, verdict: PreflightResult, heads: Heads
) -> StepResult | None:
    """Follow the table of refusals; None: it waits already, for the same reason.

    Raises:
        TransientError: no endpoint says who the signers are.
    """
    if verdict.outcome is PreflightOutcome.UNKNOWN and _TOO_MUCH_GAS.search(verdict.reason):
        TOO_BIG.labels(role(context)).set(1)
        text = f"a block has {gas_of_block(context)} gas: {verdict.reason}"
        return wait(context, intent, heads, ("too_big", text))
    name = None if verdict.refusal is None else verdict.refusal.name
    is_signed = intent.wish.kind in _SIGNED
    if not is_signed or name not in OF_SIGNATURES or intent.wish.dedup_key.endswith(_AGAIN):
        return not_now(context, intent, verdict, heads)
    return _collect_again(context, intent, verdict, heads)


def statement_behind(uow: UnitOfWork, push: Intent, standing: ContractStatus) -> SignedStatement:
    """Return what the push says, as it was signed or told; else as its own row has it."""
    wish = push.wish
    about = (wish.contract, REPORT, wish.round or 0)
    said = [*uow.outbox.signatures.of_round(*about), *uow.outbox.peers.of(*about)]
    known = next((one for one in said if one.digest == wish.digest), None)
    if known is not None:
        return known
    return SignedStatement(
        chain_id=wish.account.chain_id,
        contract=wish.contract,
        signer=ZERO_ADDRESS,
        kind=REPORT,
        round=wish.round or 0,
        subject="",
        digest=wish.digest or ZERO_HASH,
        signature=b"",
        expires_at=wish.deadline or 0,
        # Not known: not held against it.
        prev_digest=standing.last_report,
        as_of_block=wish.as_of_block,
        as_of_hash=wish.as_of_hash,
    )


def _collect_again(
    context: TxContext, intent: Intent, verdict: PreflightResult, heads: Heads
) -> StepResult | None:
    wish = intent.wish
    standing = context.standing()
    said = _said_by(context, wish, standing)
    if said is None or said[1].digest != wish.digest:
        return not_now(context, intent, verdict, heads)
    statement, record = said
    gathered = signatures(context, record, standing)
    if gathered is None:
        # Others may still sign; at its deadline it ends by itself.
        few = "fewer of the contract's signers than its quorum have signed it"
        return wait(context, intent, heads, ("BadSignature", few))
    calldata = (
        push_call(statement, gathered)
        if isinstance(statement, ReportStatement)
        else propose_call(statement, gathered)
    )
    if calldata == wish.calldata:
        return not_now(context, intent, verdict, heads)
    again = replace(wish, calldata=calldata, dedup_key=wish.dedup_key + _AGAIN, not_before=None)
    with context.writing() as uow:
        intents = uow.outbox.intents
        intents.end(intent, IntentState.SUPERSEDED, verdict.reason, context.stamp)
        added = intents.add(again, context.stamp)
    did = f"{wish.kind} signed by others"
    return StepResult(did, added, f"instead of intent {intent.id}: {verdict.reason}")


def _said_by(
    context: TxContext, wish: CallRequest, standing: ContractStatus
) -> tuple[Statement, SignedStatement] | None:
    """Return the statement that a call brings, and its record; None: its report is gone."""
    if wish.kind is IntentKind.PROPOSE_KICK:
        proposal = proposal_in(wish.calldata)
        return proposal, kick_record(context, proposal, wish.subject)
    with context.store.reading() as uow:
        stored = None if wish.period is None else uow.reports.at(wish.period)
    if stored is None:
        return None
    report = statement_of(stored.report, standing)
    return report, report_record(context, report)
