"""The health that every reader shows: what the database holds, and what the daemon reported.

What stands in rows (halts, pauses, faults) is read from them at once, so that an operator's act is
seen without a daemon. What only a running process can tell (endpoints, lag, disk, loops) is the
daemon's last report; where that is old, the daemon itself is the finding.
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

# Tells who works on the database, as the lease stands; None: nobody does.
Worker = Callable[[LeaseState], str | None]
# A newest block older than this by the wall clock, in seconds, where no daemon watches the chain:
# longer than any public chain takes for a block, shorter than a night.
OLD_HEAD_SECONDS = 900
# Tenths of a heartbeat, as the alert has it.
_LATE_TENTHS = 15


def health_of(uow: UnitOfWork, worker: Worker) -> HealthReport:
    """Return everything that is wrong, as every door shows it."""
    stored = list(database_findings(uow))
    covered = {one.condition for one in stored}
    reported = [one for one in daemon_findings(uow, worker) if one.condition not in covered]
    return HealthReport.of([*stored, *reported])


def is_reported_now(uow: UnitOfWork, worker: Worker) -> bool:
    """Tell whether a daemon works and its last report speaks of now."""
    reported = uow.health.get()
    return (
        reported is not None
        and reported.is_fresh
        and worker(uow.lease.current()) == reported.process
    )


def daemon_findings(uow: UnitOfWork, worker: Worker) -> Iterator[HealthFinding]:
    """Yield what the daemon reported, or that it does not report."""
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
    """Yield what the last daemon died of, unless it was told to end."""
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
    """Yield what stands in the database, whoever works on it."""
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
    """Yield what stored blocks, or the state folded from them, should not be trusted for."""
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
    """Count the blocks of endpoints proven wrong that no other endpoint was asked about."""
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
    """Return why a sender sends nothing, and what to do."""
    is_poor = pause.kind is PauseKind.FUNDS
    return HealthFinding(
        Condition.SENDER_FUNDS if is_poor else Condition.PAUSED_SENDER,
        f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}); "
        f"{after_pause(account, pause)}",
    )


def dispute_text(holds: list[ReportHold]) -> str:
    """Return one line for reports that another reporter disputes, by period; one at least."""
    newest, before = holds[-1], len(holds) - 1
    since = f" (and {before} before it, since period {holds[0].period})" if before else ""
    return (
        f"period {newest.period}{since}: {newest.reason}; "
        f"`qos-oracle report show --period {newest.period}`, compare it with theirs; it ends when "
        "a later report lands that says what ours does"
    )


def report_age(chain: ChainView) -> int | None:
    """Return how old the contract's last report is in block time; None: unknown, or none yet."""
    told, head = chain.contract, chain.head
    if told is None or head is None or not told.round:
        return None
    return head.time - told.pushed_at


def is_late(seconds: int, heartbeat_seconds: int) -> bool:
    """Tell whether a report of this age is late."""
    return 10 * seconds > _LATE_TENTHS * heartbeat_seconds


def report_findings(chain: ChainView, heartbeat_seconds: int | None) -> list[HealthFinding]:
    """Return what is wrong with what the contract holds; `heartbeat_seconds` None: no report."""
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
    """Return what one look at the chain finds wrong, where no daemon reports.

    `heartbeat_seconds` None: there is no oracle contract. `now`: unix seconds of this machine.
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
