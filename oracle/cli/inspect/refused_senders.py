"""Senders that `run --publish` would refuse at its start, detected for read-only commands."""

from dataclasses import replace

from oracle.daemon.compose import Index, fresh_endpoints
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.queries.contract_view import ChainView
from oracle.queries.health import pause_finding
from oracle.queries.status import StatusReport
from oracle.store.outbox.records import Pause, PauseKind
from oracle.txmgr.nonce_sync import why_refused

# A read-only command waits only briefly.
_SECONDS = 3.0


def with_refused(index: Index, seen: StatusReport) -> StatusReport:
    """Mark as paused each sender whose nonce is ahead on-chain, or whose nonces are lost.

    `run` refuses such a sender at its start, before it can store a pause: an old copy of the
    database shows no problem by itself.
    """
    with fresh_endpoints(index.config, index.chain) as pool:
        lines = pool.view(_SECONDS)
        reasons = {
            account: why_refused(index.store, lines, account)
            for account, pause in seen.accounts.items()
            if pause is None
        }
    refused = {
        account: Pause(PauseKind.FOREIGN, reason)
        for account, reason in reasons.items()
        if reason is not None
    }
    return replace(seen, accounts={**seen.accounts, **refused})


def refused_findings(seen: StatusReport) -> list[HealthFinding]:
    """Return a finding for each paused sender, including those that `run` would refuse."""
    return [
        pause_finding(account, pause)
        for account, pause in seen.accounts.items()
        if pause is not None
    ]


def without_advice(health: HealthReport, looked: ChainView) -> HealthReport:
    """Return the health without the advice to send ether if the chain could not be queried.

    The endpoint may serve another chain, on which the sender accounts never existed.
    """
    if looked.head is not None:
        return health
    unknown = f"what it has now is unknown: {looked.unknown}"
    return HealthReport(
        tuple(
            finding._replace(detail=f"{finding.detail.rpartition('; send ether')[0]}; {unknown}")
            if finding.condition is Condition.SENDER_FUNDS
            else finding
            for finding in health.findings
        )
    )
