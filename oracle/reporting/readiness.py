"""Checks whether the indexed state is complete enough to report from.

See docs/explanation/reports.md#when-to-publish; tests/faults/sending/cases.toml#f50.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_HASH
from oracle.domain.reports.round_schedule import Cut
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.reports.report_repository import SUPERSEDED_REASON


def why_blind(
    context: ReportingContext, uow: UnitOfWork, heads: Heads, contract_status: ContractStatus
) -> str | None:
    """Return why nothing may be reported from the indexed state, or None.

    The contract's head is read from the logs and by a call: both must return the same round.
    """
    if not context.tx.is_at_head(uow, heads):
        return "the database is behind the head"
    gap = first_gap(uow)
    if gap is not None:
        return f"block {gap} was never read: `qos-oracle resync gaps`"
    newest = uow.rounds.accepted(1)
    folded = (newest[-1].round, newest[-1].digest) if newest else (0, ZERO_HASH)
    if folded != (contract_status.head.round, contract_status.last_report):
        return f"the logs tell of round {folded[0]}, the contract of {contract_status.head.round}"
    return None


def first_gap(uow: UnitOfWork) -> int | None:
    """Return the lowest block up to the indexed one that was never read, or None."""
    identity, cursor, scope = uow.identity.get(), uow.cursor.get(), uow.coverage.current()
    if identity is None or cursor is None or scope is None:
        return None
    gaps = uow.coverage.gaps(scope.id, identity.start_block, cursor.number)
    return gaps[0].first if gaps else None


def why_waiting(context: ReportingContext) -> str | None:
    """Return why the newest report is held, unsigned, or lacks signatures for long, or None."""
    with context.tx.store.reading() as uow:
        held = uow.holds.waiting()
        if held:
            return f"period {held[-1].period} is held: {held[-1].reason}"
        embargoed_to = _embargo_reason(context, uow) if context.tx.publisher.has_signer else None
        return embargoed_to or context.quorum.missing.why


def _embargo_reason(context: ReportingContext, uow: UnitOfWork) -> str | None:
    domain, signer = context.tx.publisher.domain, context.tx.publisher.signer.address
    until = uow.statements.embargoed_until(domain.chain_id, domain.contract, signer)
    cursor = uow.cursor.get()
    if until is None or (cursor is not None and cursor.time >= until):
        return None
    return (
        f"the signer signs nothing until chain time {until}: what its lost database signed may "
        "still land"
    )


# What a step did that only cleared away what is too old.
MISSED = "report missed"


def in_words(missed: Sequence[tuple[int, str]]) -> str:
    """Format missed periods, ascending, with their reasons; equal neighbours are merged."""
    return "; ".join(_spans(missed))


def _spans(missed: Sequence[tuple[int, str]]) -> Iterator[str]:
    for reason, alike in groupby(missed, key=lambda one: one[1]):
        periods = [period for period, _ in alike]
        first, last = periods[0], periods[-1]
        one = f"period {first}" if first == last else f"{len(periods)} periods, {first} to {last}"
        yield f"{one}: {reason}"


def why_missed(report: Cut, contract_status: ContractStatus) -> str | None:
    """Return why a report can never be accepted any more, or None."""
    head = contract_status.head
    if (head.round, contract_status.last_report) != (report.head_round, report.prev):
        # A lower round is an endpoint that lags behind.
        return SUPERSEDED_REASON if head.round >= report.head_round else None
    if contract_status.block.number + 1 - report.as_of > contract_status.limits.anchor_window:
        return "as-of left the anchor window"
    if contract_status.block.time > report.deadline:
        return "its deadline passed"
    return None
