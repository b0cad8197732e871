"""The first lines of `status`: what a person has to know when something stands still."""

from collections.abc import Iterator, Sequence

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.domain.reports.report import ReportSettings
from oracle.queries.contract_view import READY_WITHIN_BLOCKS, ChainView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.outbox.outbox_advice import after_pause
from oracle.queries.status import StatusReport
from oracle.queries.text.health import OLD_HEAD_SECONDS
from oracle.queries.text.human_numbers import age, span
from oracle.queries.text.text_tables import in_utc
from oracle.store.reports.hold_repository import ReportHold

Lines = Iterator[tuple[str, str]]

# Tenths of a heartbeat, as the alert has it.
_LATE_TENTHS = 15


def situation(
    seen: StatusReport, chain: ChainView, settings: ReportSettings | None, now: int
) -> Lines:
    """Say what stands still and why, in capital letters, and in a line each what does not.

    `settings` None: there is no oracle contract. `now`: unix seconds of this machine's clock.
    """
    for halt in seen.halts:
        yield "HALTED", f"{halt.name} since block {halt.since_block}: {halt.reason}"
    if seen.refusal is not None:
        yield "REFUSED", f"{seen.refusal.words}; `qos-oracle resync refusal`"
    for endpoint, reason in seen.wrong.items():
        todo = f"`qos-oracle endpoint readmit {endpoint}` lets it in again"
        yield "PROVEN WRONG", f"{endpoint}: {reason}; it is asked nothing; {todo}"
    for dispute in seen.disputes:
        yield "UNPROVEN", dispute.words
    if seen.suspect:
        words = "came from it alone, and another endpoint is still to be asked about them"
        yield "UNAUDITED", f"{seen.suspect} blocks {words}; no kickout rests on them meanwhile"
    yield _index(seen, chain, now)
    yield from _old_head(chain, now)
    if settings is not None:
        yield _last_report(seen, chain, settings.heartbeat_seconds, now)
        yield _contract(chain)
        yield from _senders(seen)
        yield from _waiting(seen)
        yield _kickouts(seen, chain)
        if seen.unregistered:
            yield "registration", _registration(seen)
    yield _lease(seen)


def standstill(endpoints: Sequence[EndpointView]) -> Lines:
    """Say that the daemon is shown no new block, which looks like all being well otherwise."""
    first = next((view for view in endpoints if view.is_stalled), None)
    if first is not None:
        todo = "if the chain itself goes on, name another endpoint"
        yield "STALLED", f"no endpoint shows a new block: {first.name} {first.state}; {todo}"


def lag_of(seen: StatusReport, head: int | None) -> int | None:
    """Return how many blocks the fold is behind the chain's head; None: one is not known."""
    return None if head is None or seen.folded is None else max(0, head - seen.folded.number)


def shown_time(seconds: int) -> str:
    """Write a block's time for people, in UTC."""
    return in_utc(seconds, "%Y-%m-%d %H:%M:%S UTC")


def _old_head(chain: ChainView, now: int) -> Lines:
    """Say that the chain stands by the wall clock: block times alone would never tell."""
    head = chain.head
    if head is not None and now - head.time > OLD_HEAD_SECONDS:
        since = f"the newest block that an endpoint shows is {span(now - head.time)} old"
        yield "OLD-HEAD", f"{since}: the chain stands, who answers does, or our clock is wrong"


def _index(seen: StatusReport, chain: ChainView, now: int) -> tuple[str, str]:
    head = chain.head
    if seen.folded is None:
        return "index", "no block is folded yet; `qos-oracle run --once` indexes them"
    when = f"{shown_time(seen.folded.time)}, {age(seen.folded.time, now)}"
    at = f"folded to block {seen.folded.number}, {when}"
    lag = lag_of(seen, None if head is None else head.number)
    if head is None or lag is None:
        return "NO ENDPOINT", f"{at}; how far behind is unknown: {chain.unknown}"
    name = "BEHIND" if lag > READY_WITHIN_BLOCKS else "index"
    return name, f"{at}; {lag} blocks behind the newest, {head.number}"


def _last_report(
    seen: StatusReport, chain: ChainView, heartbeat: int, now: int
) -> tuple[str, str]:
    """Say it as the contract has it; where that is unknown, as it was folded."""
    number, seconds, since = seen.round, seen.round_age, "as folded"
    told, head = chain.contract, chain.head
    newest = head or seen.folded
    if told is not None and head is not None:
        number, since = told.round, "on chain"
        seconds = head.time - told.pushed_at if told.round else None
    if not number or seconds is None or newest is None:
        return "last report", f"no round was accepted yet ({since})"
    is_late = 10 * seconds > _LATE_TENTHS * heartbeat
    pushed = newest.time - seconds
    by_clock = age(pushed, now) if pushed > now else f"by the clock {age(pushed, now)}"
    said = (
        f"round {number}, {span(seconds)} old ({since}; {by_clock}); "
        f"one is due every {span(heartbeat)} at least"
    )
    return ("REPORT-LATE" if is_late else "last report"), said


def _contract(chain: ChainView) -> tuple[str, str]:
    told, head, until = chain.contract, chain.head, chain.paused_until
    if told is None or head is None:
        return "contract", f"unknown: {chain.unknown}"
    if until is not None:
        left = until - head.time
        when = f"until {shown_time(until)}, for {span(left)} of chain time"
        return "PAUSED", f"the contract takes no report {when}; its admin may resume it"
    kicks = ", but no kickouts: its pauser has stopped them" if told.kicks_paused else ""
    return ("PAUSED" if kicks else "contract"), f"takes reports{kicks}"


def _senders(seen: StatusReport) -> Lines:
    for account, pause in seen.accounts.items():
        if pause is None:
            yield "sender", f"{account.address} may send"
            continue
        todo = after_pause(account, pause)
        told = f"{account.address} sends nothing: {pause.reason} ({pause.kind.value}); {todo}"
        yield "PAUSED-SENDER", told
    if not seen.accounts:
        yield "sender", "nothing was ever sent from this database"


def _waiting(seen: StatusReport) -> Lines:
    for hold in seen.held:
        if not hold.is_disputed:
            told = f"period {hold.period}: {hold.reason}"
            show = f"`qos-oracle report show --period {hold.period}`"
            yield "HELD", f"{told}; {show}, then `report release`"
    disputed = [hold for hold in seen.held if hold.is_disputed]
    if disputed:
        yield "HELD", told_of_dispute(disputed)
    for told in seen.unproven:
        todo = "`qos-oracle endpoint probe`, or name one that serves eth_getTransactionReceipt"
        yield "UNPROVEN", f"{told}; {todo}"
    push = seen.push
    if push is not None and push.error_text is not None:
        yield "push waits", f"{push.error_text}; `qos-oracle outbox show {push.id}`"


def told_of_dispute(holds: Sequence[ReportHold]) -> str:
    """Say it once: a reporter that differs in every round holds one period after the other.

    `holds` are those that are disputed, by period; there is one at least.
    """
    newest, before = holds[-1], len(holds) - 1
    since = f" (and {before} before it, since period {holds[0].period})" if before else ""
    return (
        f"period {newest.period}{since}: {newest.reason}; "
        f"`qos-oracle report show --period {newest.period}`, compare it with theirs; it ends when "
        "a later report lands that says what ours does"
    )


def _kickouts(seen: StatusReport, chain: ChainView) -> tuple[str, str]:
    refused = f", {seen.kicks_refused} refused by the network" if seen.kicks_refused else ""
    told = f"{seen.kickouts_due} due, {len(seen.kicks)} proposed{refused}"
    if not seen.kicks:
        return "kickouts", told
    first = min(seen.kicks, key=lambda kick: kick.ready_at)
    now = None if chain.head is None else chain.head.time
    state = "ready since" if now is not None and now >= first.ready_at else "ready at"
    return "kickouts", f"{told}, the first {first.node}, {state} {shown_time(first.ready_at)}"


def _registration(seen: StatusReport) -> str:
    gas = seen.unregistered * REGISTRATION_GAS
    return f"{seen.unregistered} nodes have no index in the contract yet, {gas} gas in all"


def _lease(seen: StatusReport) -> tuple[str, str]:
    if seen.lease is None:
        return "NO-LEADER", "nobody works on this database: no daemon holds its lease"
    return "worked on by", seen.lease
