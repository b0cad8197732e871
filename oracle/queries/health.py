"""The health that every reader shows: findings from the database, and those the daemon reported.

Findings that are stored in rows (halts, pauses, faults) are read at once, so that an operator's
action shows without a daemon. Findings that only a running process has (endpoints, lag, disk,
loops) come from the daemon's last report; if that is old, the silent daemon is itself a finding.
"""

from collections.abc import Callable, Iterator

from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.indexer.audit.disputes import disputes_in
from oracle.indexer.block_confirmation import unconfirmed_reason
from oracle.indexer.feeds.feed_faults import fault_text
from oracle.indexer.refused_block import refusal_in
from oracle.indexer.snapshots import state_mismatch
from oracle.queries.contract_view import READY_WITHIN_BLOCKS, ChainView
from oracle.queries.outbox_advice import after_pause
from oracle.queries.status import StatusReport
from oracle.queries.text.human_numbers import behind_text, span
from oracle.store.database import UnitOfWork
from oracle.store.ops.health_repository import ReportedHealth
from oracle.store.ops.lease_repository import LeaseState
from oracle.store.outbox.records import Account, Pause, PauseKind
from oracle.store.reports.hold_repository import ReportHold
from oracle.txmgr.attribution import without_receipt

# Returns the name of the process that holds the lease, or None if no process holds it.
Worker = Callable[[LeaseState], str | None]
# Age of the newest block by the wall clock, in seconds, above which it is a finding without a
# daemon: longer than the block time of any public chain, shorter than a night.
OLD_HEAD_SECONDS = 900
# Age in tenths of a heartbeat above which a report is late, as in the alert.
_LATE_TENTHS = 15


def health_of(uow: UnitOfWork, worker: Worker) -> HealthReport:
    """Return every finding; all interfaces show the same report."""
    stored = list(database_findings(uow))
    covered = {one.condition for one in stored}
    reported = [one for one in daemon_findings(uow, worker) if one.condition not in covered]
    return HealthReport.of([*stored, *reported])


def is_reported_now(uow: UnitOfWork, worker: Worker) -> bool:
    """Return whether a daemon holds the lease and its last report is current."""
    reported = uow.health.get()
    return (
        reported is not None
        and reported.is_fresh
        and worker(uow.lease.current()) == reported.process
    )


def daemon_findings(uow: UnitOfWork, worker: Worker) -> Iterator[HealthFinding]:
    """Yield the findings that the daemon reported, or a finding that it does not report."""
    reported, leader = uow.health.get(), worker(uow.lease.current())
    if leader is None:
        yield HealthFinding(
            Condition.NO_LEADER, "nobody works on this database: no daemon holds its lease"
        )
        if reported is not None:
            yield from _last_exit(reported)
    elif reported is not None and reported.process == leader:
        if reported.is_fresh:
            yield from reported.findings
        else:
            age = span(int(reported.age_seconds))
            yield HealthFinding(
                Condition.DAEMON_SILENT, f"{leader} holds the lease and reported {age} ago last"
            )


def _last_exit(reported: ReportedHealth) -> Iterator[HealthFinding]:
    """Yield why the last daemon ended, unless it was stopped on request."""
    if reported.failure is not None:
        yield HealthFinding(Condition.LAST_EXIT, reported.failure)
    elif reported.ended_at is None:
        found = "; ".join(one.text() for one in reported.findings) or "well"
        yield HealthFinding(
            Condition.LAST_EXIT,
            f"{reported.process} ended without a word (killed, or its machine stopped); "
            f"its last report: {found}",
        )


def database_findings(uow: UnitOfWork) -> Iterator[HealthFinding]:
    """Yield the findings that the database holds, whichever process works on it."""
    for halt in uow.halts.all_closed():
        yield HealthFinding(
            Condition.HALTED, f"{halt.name} since block {halt.since_block}: {halt.reason}"
        )
    refusal = refusal_in(uow)
    if refusal is not None:
        yield HealthFinding(Condition.REFUSED, f"{refusal.words}; `qos-oracle resync refusal`")
    unconfirmed = unconfirmed_reason(uow)
    if unconfirmed is not None:
        yield HealthFinding(Condition.WAITING_WITNESS, unconfirmed)
    yield from _doubts(uow)
    for fault in uow.feed.faults(is_open=True):
        yield HealthFinding(Condition.FEED_FAULT, fault_text(fault))
    yield from _sending_findings(uow)


def _doubts(uow: UnitOfWork) -> Iterator[HealthFinding]:
    """Yield the reasons not to trust stored blocks, or the state folded from them."""
    for endpoint, reason in uow.facts.quarantine.reasons().items():
        todo = f"`qos-oracle endpoint readmit {endpoint}` lets it in again"
        yield HealthFinding(
            Condition.PROVEN_WRONG, f"{endpoint}: {reason}; it is asked nothing; {todo}"
        )
    for dispute in disputes_in(uow):
        yield HealthFinding(Condition.UNPROVEN, dispute.words)
    mismatch = state_mismatch(uow)
    if mismatch is not None:
        yield HealthFinding(Condition.STATE_DIFFERS, mismatch)
    suspect = suspect_blocks(uow)
    if suspect:
        words = "came from it alone, and another endpoint is still to be asked about them"
        yield HealthFinding(
            Condition.UNAUDITED, f"{suspect} blocks {words}; no kickout rests on them meanwhile"
        )


def suspect_blocks(uow: UnitOfWork) -> int:
    """Count the blocks of endpoints proven wrong that no other endpoint has confirmed yet."""
    scope = uow.coverage.current()
    return 0 if scope is None else uow.facts.quarantine.blocks(scope.id)


def _sending_findings(uow: UnitOfWork) -> Iterator[HealthFinding]:
    for account in uow.outbox.counts.accounts():
        pause = uow.outbox.accounts.paused_because(account)
        if pause is not None:
            yield pause_finding(account, pause)
        for call in without_receipt(uow, account):
            todo = "`qos-oracle endpoint probe`, or name one that serves eth_getTransactionReceipt"
            yield HealthFinding(Condition.UNPROVEN, f"{call.error_text}; {todo}")
    waiting = list(uow.holds.waiting())
    for hold in waiting:
        if not hold.is_disputed:
            told = f"period {hold.period}: {hold.reason}"
            show = f"`qos-oracle report show --period {hold.period}`"
            yield HealthFinding(Condition.HELD, f"{told}; {show}, then `report release`")
    disputed = [hold for hold in waiting if hold.is_disputed]
    if disputed:
        yield HealthFinding(Condition.HELD, dispute_text(disputed))


def pause_finding(account: Account, pause: Pause) -> HealthFinding:
    """Return the finding for a paused sender, with the action that resumes it."""
    is_poor = pause.kind is PauseKind.FUNDS
    return HealthFinding(
        Condition.SENDER_FUNDS if is_poor else Condition.PAUSED_SENDER,
        f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}); "
        f"{after_pause(account, pause)}",
    )


def dispute_text(holds: list[ReportHold]) -> str:
    """Return one line for the reports that another reporter disputes.

    `holds`: by period, at least one.
    """
    newest, before = holds[-1], len(holds) - 1
    since = f" (and {before} before it, since period {holds[0].period})" if before else ""
    return (
        f"period {newest.period}{since}: {newest.reason}; "
        f"`qos-oracle report show --period {newest.period}`, compare it with theirs; it ends when "
        "a later report lands that says what ours does"
    )


def report_age(chain: ChainView) -> int | None:
    """Return the age of the contract's last report in block time, or None if there is none."""
    told, head = chain.contract, chain.head
    if told is None or head is None or not told.round:
        return None
    return head.time - told.pushed_at


def is_late(seconds: int, heartbeat_seconds: int) -> bool:
    """Return whether a report of this age is late."""
    return 10 * seconds > _LATE_TENTHS * heartbeat_seconds


def report_findings(chain: ChainView, heartbeat_seconds: int | None) -> list[HealthFinding]:
    """Return the findings about the contract; `heartbeat_seconds` None: no report is due."""
    found = []
    age, until, contract = report_age(chain), chain.paused_until, chain.contract
    if heartbeat_seconds is not None and age is not None and is_late(age, heartbeat_seconds):
        due = span(heartbeat_seconds)
        found.append(
            HealthFinding(
                Condition.REPORT_LATE,
                f"the last report is {span(age)} old; one is due every {due} at least",
            )
        )
    if until is not None:
        found.append(
            HealthFinding(
                Condition.PAUSED, f"the contract takes no report until {until} (chain time)"
            )
        )
    elif contract is not None and contract.kicks_paused:
        found.append(
            HealthFinding(Condition.PAUSED, "no kickouts: the contract's pauser has stopped them")
        )
    return found


def findings_from_chain_view(
    seen: StatusReport, chain: ChainView, heartbeat_seconds: int | None, now: int
) -> list[HealthFinding]:
    """Return the findings of one reading of the chain, for use while no daemon reports.

    `heartbeat_seconds` is None without an oracle contract. `now`: unix seconds of this machine.
    """
    found, head = [], chain.head
    lag = seen.lag_to(head)
    if head is None and seen.folded is not None:
        found.append(
            HealthFinding(Condition.NO_ENDPOINT, f"how far behind is unknown: {chain.unknown}")
        )
    if head is not None and lag is not None and lag > READY_WITHIN_BLOCKS:
        found.append(HealthFinding(Condition.BEHIND, behind_text(lag, head.number)))
    if head is not None and now - head.time > OLD_HEAD_SECONDS:
        since = f"the newest block that an endpoint shows is {span(now - head.time)} old"
        found.append(
            HealthFinding(
                Condition.OLD_HEAD,
                f"{since}: the chain stands, who answers does, or our clock is wrong",
            )
        )
    return [*found, *report_findings(chain, heartbeat_seconds)]
