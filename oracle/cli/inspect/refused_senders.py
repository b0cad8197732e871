"""Which senders a start of `run --publish` would refuse, for who only looks."""

from dataclasses import replace

from oracle.daemon.compose import Index, fresh_endpoints
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.queries.contract_view import ChainView
from oracle.queries.health import pause_finding
from oracle.queries.status import StatusReport
from oracle.store.outbox.records import Pause, PauseKind
from oracle.txmgr.nonce_sync import why_refused

# Who only looks does not wait for long.
_SECONDS = 3.0


def with_refused(index: Index, seen: StatusReport) -> StatusReport:
    """Put a pause on each sender that the chain has overtaken, or whose nonces are lost.

    `run` refuses it at its start, before it can write that down: an old copy of the database says
    itself that all is well.
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
    """Return the paused senders, with those that `run` would refuse."""
    return [
        pause_finding(account, pause)
        for account, pause in seen.accounts.items()
        if pause is not None
    ]


def without_advice(health: HealthReport, looked: ChainView) -> HealthReport:
    """Return the health without the advice to send ether, where the chain could not be asked.

    The endpoint may show another chain, on which no account of ours ever had anything.
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
