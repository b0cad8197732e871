"""Decides when a sent push can no longer land, and when the same push is sent again.

A push can no longer land after a signer was removed or the quorum changed before its inclusion. A
push is sent again if the contract was paused in the block that included it and is open now.
"""

from typing import NamedTuple

from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.ids import Hash
from oracle.quorum.resigning import find_pushed_statement
from oracle.quorum.statements import expiry_reason
from oracle.reporting.reporting_context import PUSH, ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.client.receipts import SimulatedCall, fetch_refusal

_MINED_STATES = frozenset({IntentState.MINED, IntentState.REVERTED})


def hopeless_push_reason(
    uow: UnitOfWork, push: Intent, contract_status: ContractStatus
) -> str | None:
    """Return why a sent push can no longer land, or None if it may still land, or has landed."""
    request = push.request
    accepted = uow.rounds.get_accepted_round(request.round or 0)
    own_push = (request.digest, request.account.address)
    if accepted is not None and (accepted.digest, accepted.transmitter) == own_push:
        return None
    return expiry_reason(uow, find_pushed_statement(uow, push, contract_status), contract_status)


def has_same_statement(push: Intent, other_push: Intent) -> bool:
    """Return whether two pushes carry the same statement."""
    return push.request.digest is not None and push.request.digest == other_push.request.digest


def should_retry_push(context: ReportingContext, push: Intent) -> bool:
    """Return whether a push failed because the contract was paused, so that it may be sent again.

    Call this only while the contract is open. A push that reverted for another reason is not sent,
    and paid for, again. If a reorg revives the failed push, both may land, and the contract
    refuses the later one.
    """
    if push.state not in _MINED_STATES or push.nonce is None:
        return False
    with context.account_context.store.read_transaction() as uow:
        slot = uow.outbox.slots.get_slot(context.account_context.account, push.nonce)
    if slot is None or slot.succeeded is not False or slot.block_number is None:
        return False
    request = push.request
    call = SimulatedCall(request.account.address, request.contract, request.calldata)
    pool_view, decode_refusal = (
        context.account_context.get_synced_pool_view(),
        context.account_context.registry.decode_refusal,
    )
    refusal = fetch_refusal(pool_view, call, slot.block_number, decode_refusal)
    return refusal is not None and refusal.is_pause


# How many of the newest pushes are searched for the pushes of one statement, and the maximum
# number of pushes of one statement.
MAX_SCANNED_PUSHES, MAX_TRIES = 50, 5
# A push that was not sent, because its round was taken or its block reorged, may be retried.
RETRYABLE_STATES = frozenset({IntentState.SUPERSEDED, IntentState.EXPIRED})
# A report whose round another report took counts as missed, even if a reorg frees the round.
_OPEN_STATES = frozenset({ReportState.DUE, ReportState.MISSED})


class AbandonedStatement(NamedTuple):
    """A statement that could still land, but is not pushed any more.

    `deadline` is the chain time from which the next statement may replace it, and `reason` is how
    the last push ended.
    """

    round: int
    period: int
    digest: Hash
    deadline: int
    reason: str


def find_abandoned_statements(uow: UnitOfWork) -> list[AbandonedStatement]:
    """Return the statements whose round is free and whose pushes are used up, newest first."""
    pushes_by_digest: dict[Hash, list[Intent]] = {}
    for push in uow.outbox.intents.list_newest(MAX_SCANNED_PUSHES, kind=PUSH):
        if push.request.digest is not None:
            pushes_by_digest.setdefault(push.request.digest, []).append(push)
    candidates = (
        _find_abandoned_statement(uow, digest, pushes)
        for digest, pushes in pushes_by_digest.items()
    )
    return [statement for statement in candidates if statement is not None]


def _find_abandoned_statement(
    uow: UnitOfWork, digest: Hash, pushes: list[Intent]
) -> AbandonedStatement | None:
    newest = pushes[0]
    period, round_number, deadline = (
        newest.request.period,
        newest.request.round,
        newest.request.deadline,
    )
    if len(pushes) < MAX_TRIES or newest.state not in RETRYABLE_STATES:
        return None
    if period is None or round_number is None or deadline is None:
        return None
    stored, cursor = uow.reports.get(period), uow.cursor.get()
    # If the report was cut again on another block, it has another statement.
    if stored is None or stored.state not in _OPEN_STATES or stored.digest != digest:
        return None
    is_taken = uow.rounds.get_accepted_round(round_number) is not None
    if is_taken or (cursor is not None and cursor.time > deadline):
        return None
    return AbandonedStatement(
        round_number, period, digest, deadline, newest.error_text or newest.state.value
    )
