"""Builds the health report that all interfaces show, from the database and the daemon's report.

Findings that are stored in rows (halts, pauses, faults) are read directly, so that an operator's
action takes effect even if no daemon runs. Findings that only a running process has (endpoints,
lag, disk, loops) come from the daemon's last report. If that report is old, this is a finding
itself.
"""

from collections.abc import Callable, Iterator

from oracle.domain.blocks import format_block_count
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.indexer.audit.unproven_history import load_disputes
from oracle.indexer.block_confirmation import get_confirmation_obstacle, get_refusal
from oracle.indexer.feed_faults import format_fault
from oracle.indexer.state_sample import find_state_mismatch
from oracle.queries.contract_view import READY_WITHIN_BLOCKS, ChainView
from oracle.queries.intent_view import format_resume_action
from oracle.queries.status import count_suspect_blocks
from oracle.queries.status_models import OperatorStatus
from oracle.queries.text.human_numbers import format_duration, format_lag
from oracle.store.database import UnitOfWork
from oracle.store.health_repository import ReportedHealth
from oracle.store.lease_repository import LeaseState
from oracle.store.outbox.records import Account, Pause, PauseKind
from oracle.store.report_repository import ReportHold
from oracle.txmgr.attribution import find_intents_without_receipt

# A function that returns the name of the process that holds the lease, or None.
LeaderLookup = Callable[[LeaseState], str | None]
# Maximum age of the newest block, in seconds of the wall clock. An older block is reported if no
# daemon runs. The value is longer than the block time of any public chain, and shorter than a
# night.
OLD_HEAD_SECONDS = 900
# Age at which a report is late, in tenths of a heartbeat. The alert uses the same value.
_LATE_HEARTBEAT_TENTHS = 15


def build_health_report(uow: UnitOfWork, find_leader: LeaderLookup) -> HealthReport:
    """Build the health report from the findings of the daemon and of the database."""
    stored_findings = list(list_database_findings(uow))
    covered_conditions = {finding.condition for finding in stored_findings}
    reported_findings = [
        finding
        for finding in list_daemon_findings(uow, find_leader)
        if finding.condition not in covered_conditions
    ]
    return HealthReport.from_findings([*stored_findings, *reported_findings])


def has_current_health_report(uow: UnitOfWork, find_leader: LeaderLookup) -> bool:
    """Return whether a daemon holds the lease and reported its health recently."""
    daemon_report = uow.health.get()
    return (
        daemon_report is not None
        and daemon_report.is_fresh
        and find_leader(uow.lease.get_state()) == daemon_report.process
    )


def list_daemon_findings(uow: UnitOfWork, find_leader: LeaderLookup) -> Iterator[HealthFinding]:
    """Yield the daemon's findings, or a single finding if no daemon is reporting."""
    daemon_report = uow.health.get()
    leader = find_leader(uow.lease.get_state())
    if leader is None:
        yield HealthFinding(Condition.NO_LEADER, "no daemon holds the lease of this database")
        if daemon_report is not None:
            yield from _list_exit_findings(daemon_report)
    elif daemon_report is not None and daemon_report.process == leader:
        if daemon_report.is_fresh:
            yield from daemon_report.findings
        else:
            age_text = format_duration(int(daemon_report.age_seconds))
            yield HealthFinding(
                Condition.DAEMON_SILENT,
                f"{leader} holds the lease, but last reported {age_text} ago",
            )


def _list_exit_findings(daemon_report: ReportedHealth) -> Iterator[HealthFinding]:
    """Yield why the last daemon ended, unless an operator stopped it."""
    if daemon_report.failure is not None:
        yield HealthFinding(Condition.LAST_EXIT, daemon_report.failure)
    elif daemon_report.ended_at is None:
        last_findings = (
            "; ".join(finding.format_line() for finding in daemon_report.findings) or "no findings"
        )
        yield HealthFinding(
            Condition.LAST_EXIT,
            f"{daemon_report.process} ended without a reason (killed, or its machine stopped); "
            f"its last report: {last_findings}",
        )


def list_database_findings(uow: UnitOfWork) -> Iterator[HealthFinding]:
    """Yield the findings that can be read from the database without a daemon."""
    for halt in uow.halts.list_open_halts():
        yield HealthFinding(
            Condition.HALTED, f"{halt.name} since block {halt.since_block}: {halt.reason}"
        )
    refusal = get_refusal(uow)
    if refusal is not None:
        yield HealthFinding(
            Condition.REFUSED, f"{refusal.reason}; see `qos-oracle resync refusal`"
        )
    confirmation_obstacle = get_confirmation_obstacle(uow)
    if confirmation_obstacle is not None:
        yield HealthFinding(Condition.WAITING_WITNESS, confirmation_obstacle)
    yield from _list_integrity_findings(uow)
    for fault in uow.feed.list_faults(is_open=True):
        yield HealthFinding(Condition.FEED_FAULT, format_fault(fault))
    yield from _list_sending_findings(uow)


def _list_integrity_findings(uow: UnitOfWork) -> Iterator[HealthFinding]:
    """Yield the reasons not to trust the stored blocks or the state folded from them."""
    for endpoint, reason in uow.facts.quarantine.get_reason_by_endpoint().items():
        readmit_hint = f"`qos-oracle endpoint readmit {endpoint}` readmits it"
        yield HealthFinding(
            Condition.PROVEN_WRONG, f"{endpoint} is not used: {reason}; {readmit_hint}"
        )
    for dispute in load_disputes(uow):
        yield HealthFinding(Condition.UNPROVEN, dispute.message)
    mismatch = find_state_mismatch(uow)
    if mismatch is not None:
        yield HealthFinding(Condition.STATE_DIFFERS, mismatch)
    suspect_count = count_suspect_blocks(uow)
    if suspect_count:
        audit_text = (
            "came only from endpoints proven wrong; no other endpoint has confirmed it yet"
        )
        yield HealthFinding(
            Condition.UNAUDITED,
            f"data of {format_block_count(suspect_count)} {audit_text}, and until then no kickout "
            "is based on it",
        )


def _list_sending_findings(uow: UnitOfWork) -> Iterator[HealthFinding]:
    for account in uow.outbox.counts.get_nonce_progress_by_account():
        pause = uow.outbox.accounts.find_pause(account)
        if pause is not None:
            yield build_pause_finding(account, pause)
        for call in find_intents_without_receipt(uow, account):
            hint = (
                "run `qos-oracle endpoint probe`, or add an endpoint that serves "
                "eth_getTransactionReceipt"
            )
            yield HealthFinding(Condition.UNPROVEN, f"{call.error_text}; {hint}")
    waiting_holds = list(uow.holds.list_awaiting_operator())
    for hold in waiting_holds:
        if not hold.is_disputed:
            action_text = (
                "the next report is computed again"
                if hold.has_wrong_leaves
                else f"see `qos-oracle report show --period {hold.period}`, then run "
                "`qos-oracle report release`"
            )
            yield HealthFinding(
                Condition.HELD, f"period {hold.period}: {hold.reason}; {action_text}"
            )
    disputed_holds = [hold for hold in waiting_holds if hold.is_disputed]
    if disputed_holds:
        yield HealthFinding(Condition.HELD, format_disputed_reports(disputed_holds))


def build_pause_finding(account: Account, pause: Pause) -> HealthFinding:
    """Return the finding about a paused sender, with the action that resumes it."""
    lacks_funds = pause.kind is PauseKind.FUNDS
    return HealthFinding(
        Condition.SENDER_FUNDS if lacks_funds else Condition.PAUSED_SENDER,
        f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}); "
        f"{format_resume_action(account, pause)}",
    )


def format_disputed_reports(holds: list[ReportHold]) -> str:
    """Return one line about the reports that another reporter disputes.

    `holds` is not empty, and is in the order of periods.
    """
    newest_hold = holds[-1]
    earlier_count = len(holds) - 1
    earlier_text = (
        f" (and {earlier_count} before it, since period {holds[0].period})"
        if earlier_count
        else ""
    )
    return (
        f"period {newest_hold.period}{earlier_text}: {newest_hold.reason}; compare "
        f"`qos-oracle report show --period {newest_hold.period}` with the other reporter's; the "
        "hold ends when a later report lands that equals this reporter's"
    )


def compute_report_age(chain: ChainView) -> int | None:
    """Return the seconds since the contract's last report, or None if unknown."""
    contract, head = chain.contract, chain.head
    if contract is None or head is None or not contract.round:
        return None
    return head.time - contract.pushed_at


def is_report_late(age_seconds: int, heartbeat_seconds: int) -> bool:
    return 10 * age_seconds > _LATE_HEARTBEAT_TENTHS * heartbeat_seconds


def list_contract_findings(chain: ChainView, heartbeat_seconds: int | None) -> list[HealthFinding]:
    """Return the health findings about the oracle contract.

    `heartbeat_seconds` is None if no reports are expected.
    """
    findings = []
    age_seconds = compute_report_age(chain)
    paused_until = chain.paused_until
    contract = chain.contract
    if (
        heartbeat_seconds is not None
        and age_seconds is not None
        and is_report_late(age_seconds, heartbeat_seconds)
    ):
        heartbeat_text = format_duration(heartbeat_seconds)
        findings.append(
            HealthFinding(
                Condition.REPORT_LATE,
                f"the last report is {format_duration(age_seconds)} old; a report is due at "
                f"least every {heartbeat_text}",
            )
        )
    if paused_until is not None:
        findings.append(
            HealthFinding(
                Condition.PAUSED,
                f"the contract accepts no report until {paused_until} (chain time)",
            )
        )
    elif contract is not None and contract.kicks_paused:
        findings.append(
            HealthFinding(Condition.PAUSED, "the contract's pauser has paused kickouts")
        )
    return findings


def list_chain_findings(
    status: OperatorStatus, chain: ChainView, heartbeat_seconds: int | None, now: int
) -> list[HealthFinding]:
    """Return the findings from one read of the chain, for commands that run without a daemon.

    `heartbeat_seconds` is None without an oracle contract. `now` is the time of this machine in
    unix seconds.
    """
    findings, head = [], chain.head
    if head is None and status.folded is not None:
        findings.append(
            HealthFinding(
                Condition.NO_ENDPOINT,
                f"the lag is unknown: {chain.unknown_reason}",
            )
        )
    if head is not None and (status.lag_blocks or 0) > READY_WITHIN_BLOCKS:
        findings.append(
            HealthFinding(Condition.BEHIND, format_lag(status.lag_blocks or 0, head.number))
        )
    if head is not None and now - head.time > OLD_HEAD_SECONDS:
        age_text = (
            f"the newest block that an endpoint shows is {format_duration(now - head.time)} old"
        )
        findings.append(
            HealthFinding(
                Condition.OLD_HEAD,
                f"{age_text}: the chain or the endpoint is stalled, or this host's clock is wrong",
            )
        )
    return [*findings, *list_contract_findings(chain, heartbeat_seconds)]
