"""Finds the senders that `run --publish` would refuse at its start, for read-only commands."""

from dataclasses import replace

from oracle.daemon.compose import Index, open_fresh_endpoints
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.queries.contract_view import ChainView
from oracle.queries.health import build_pause_finding
from oracle.queries.status import StatusReport
from oracle.store.outbox.records import Pause, PauseKind
from oracle.txmgr.nonce_sync import start_refusal_reason

# A read-only command waits only briefly.
_TIMEOUT_SECONDS = 3.0


def add_refused_senders(index: Index, status_report: StatusReport) -> StatusReport:
    """Mark as paused each sender whose nonce is ahead on-chain, or whose nonces are lost.

    `run` refuses such a sender at its start, before it can store a pause, so the pause is not in
    the database; an old copy of a database, for example, shows no problem by itself.
    """
    with open_fresh_endpoints(index.config, index.chain) as pool:
        pool_view = pool.view(_TIMEOUT_SECONDS)
        reason_by_account = {
            account: start_refusal_reason(index.store, pool_view, account)
            for account, pause in status_report.pause_by_account.items()
            if pause is None
        }
    pause_by_account = {
        account: Pause(PauseKind.FOREIGN, reason)
        for account, reason in reason_by_account.items()
        if reason is not None
    }
    return replace(
        status_report, pause_by_account={**status_report.pause_by_account, **pause_by_account}
    )


def list_paused_findings(status_report: StatusReport) -> list[HealthFinding]:
    """Return a finding for each paused sender, including those that `run` would refuse."""
    return [
        build_pause_finding(account, pause)
        for account, pause in status_report.pause_by_account.items()
        if pause is not None
    ]


def remove_funding_advice(health: HealthReport, chain_view: ChainView) -> HealthReport:
    """Return the health, without the advice to send ether if the chain could not be queried.

    The endpoint may serve another chain, on which the sender accounts never existed.
    """
    if chain_view.head is not None:
        return health
    unknown_note = f"the present balance is unknown: {chain_view.unknown_reason}"
    return HealthReport(
        tuple(
            finding._replace(
                detail=f"{finding.detail.rpartition('; send ether')[0]}; {unknown_note}"
            )
            if finding.condition is Condition.SENDER_FUNDS
            else finding
            for finding in health.findings
        )
    )
