"""Checks whether the indexed state is complete enough for a report.

See docs/explanation/reports.md#when-to-publish; tests/faults/sending/cases.toml#f50.
"""

from oracle.bindings.qos_roots import RootsStatus
from oracle.chain.heads import Heads
from oracle.quorum.quorum_context import find_status_mismatch
from oracle.quorum.statements import find_final_block
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import PauseKind
from oracle.txmgr.context import AccountContext


def find_reporting_obstacle(
    context: ReportingContext, uow: UnitOfWork, heads: Heads, contract_status: RootsStatus
) -> str | None:
    """Return why the indexed state must not be reported, or None if it may be.

    The contract's last round and its settings are known from the logs and from calls, and both
    must be equal.
    """
    if not context.account_context.is_at_head(uow, heads):
        return "the database is behind the head"
    unread_block = find_first_unread_block(uow)
    if unread_block is not None:
        return f"block {unread_block} was never read: `qos-oracle resync gaps`"
    return find_status_mismatch(uow, contract_status)


def find_first_unread_block(uow: UnitOfWork) -> int | None:
    """Return the lowest block up to the last folded block that was never read, if any."""
    identity = uow.identity.get()
    cursor = uow.cursor.get()
    scope = uow.coverage.get_current_scope()
    if identity is None or cursor is None or scope is None:
        return None
    gaps = uow.coverage.list_gaps(scope.id, identity.start_block, cursor.number)
    return gaps[0].first if gaps else None


def find_unsent_report_reason(context: ReportingContext) -> str | None:
    """Return why the newest report is held, unsigned or unsent, or lacks signatures.

    The result is None if the report is not held up. A refusal of a key is a reason, although the
    daemon requests the key again within a minute.
    """
    with context.account_context.store.read_transaction() as uow:
        waiting_holds = uow.holds.list_awaiting_operator()
        if waiting_holds:
            return f"period {waiting_holds[-1].period} is held: {waiting_holds[-1].reason}"
        embargo_text = (
            _find_embargo_reason(context, uow)
            if context.account_context.sender_account.has_signer
            else None
        )
        return (
            embargo_text
            or context.quorum.missing.reason
            or _find_refusal_reason(context.account_context, uow)
        )


def _find_refusal_reason(context: AccountContext, uow: UnitOfWork) -> str | None:
    if not context.sender_account.has_payer:
        return None
    pause = uow.outbox.accounts.find_pause(context.account)
    if pause is None or pause.kind is not PauseKind.SIGNER or not pause.is_temporary:
        return None
    return f"{context.account.address} sends nothing: {pause.reason}"


def _find_embargo_reason(context: ReportingContext, uow: UnitOfWork) -> str | None:
    domain = context.account_context.sender_account.domain
    signer = context.account_context.sender_account.signer.address
    embargo_end = uow.statements.find_embargo_end(domain.chain_id, domain.contract, signer)
    final_block = find_final_block(uow)
    if embargo_end is None or (final_block is not None and final_block.time >= embargo_end):
        return None
    return (
        f"the signer signs nothing until chain time {embargo_end} is final, because statements "
        "from its lost database may still land"
    )
