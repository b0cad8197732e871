"""The first lines of `status`: how far index, reports and senders are, by one look."""

from collections.abc import Iterator

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.domain.reports.report import ReportSettings
from oracle.queries.contract_view import ChainView
from oracle.queries.status import StatusReport
from oracle.queries.text.human_numbers import age, behind_text, span
from oracle.queries.text.text_tables import in_utc

Lines = Iterator[tuple[str, str]]


def situation(
    seen: StatusReport, chain: ChainView, settings: ReportSettings | None, now: int
) -> Lines:
    """Say in a line each how far index, reports, senders and kickouts are.

    `settings` None: there is no oracle contract. `now`: unix seconds of this machine's clock.
    """
    yield "index", _index(seen, chain, now)
    if settings is not None:
        yield "last report", _last_report(seen, chain, settings.heartbeat_seconds, now)
        yield "contract", _contract(chain)
        yield from _senders(seen)
        push = seen.push
        if push is not None and push.error_text is not None:
            yield "push waits", f"{push.error_text}; `qos-oracle outbox show {push.id}`"
        yield "kickouts", _kickouts(seen, chain)
        if seen.unregistered:
            yield "registration", _registration(seen)
    yield "worked on by", seen.lease or "nobody"


def shown_time(seconds: int) -> str:
    """Write a block's time for people, in UTC."""
    return in_utc(seconds, "%Y-%m-%d %H:%M:%S UTC")


def _index(seen: StatusReport, chain: ChainView, now: int) -> str:
    head = chain.head
    if seen.folded is None:
        return "no block is folded yet; `qos-oracle run --once` indexes them"
    when = f"{shown_time(seen.folded.time)}, {age(seen.folded.time, now)}"
    at = f"folded to block {seen.folded.number}, {when}"
    lag = seen.lag_to(head)
    if head is None or lag is None:
        return f"{at}; how far behind is unknown: {chain.unknown}"
    return f"{at}; {behind_text(lag, head.number)}"


def _last_report(seen: StatusReport, chain: ChainView, heartbeat: int, now: int) -> str:
    """Say it as the contract has it; where that is unknown, as it was folded."""
    number, seconds, since = seen.network.round, seen.network.round_age_seconds, "as folded"
    told, head = chain.contract, chain.head
    newest = head or seen.folded
    if told is not None and head is not None:
        number, since = told.round, "on chain"
        seconds = head.time - told.pushed_at if told.round else None
    if not number or seconds is None or newest is None:
        return f"no round was accepted yet ({since})"
    pushed = newest.time - seconds
    by_clock = age(pushed, now) if pushed > now else f"by the clock {age(pushed, now)}"
    return (
        f"round {number}, {span(seconds)} old ({since}; {by_clock}); "
        f"one is due every {span(heartbeat)} at least"
    )


def _contract(chain: ChainView) -> str:
    told, head, until = chain.contract, chain.head, chain.paused_until
    if told is None or head is None:
        return f"unknown: {chain.unknown}"
    if until is not None:
        left = until - head.time
        when = f"until {shown_time(until)}, for {span(left)} of chain time"
        return f"the contract takes no report {when}; its admin may resume it"
    kicks = ", but no kickouts: its pauser has stopped them" if told.kicks_paused else ""
    return f"takes reports{kicks}"


def _senders(seen: StatusReport) -> Lines:
    for account, pause in seen.accounts.items():
        if pause is None:
            yield "sender", f"{account.address} may send"
    if not seen.accounts:
        yield "sender", "nothing was ever sent from this database"


def _kickouts(seen: StatusReport, chain: ChainView) -> str:
    refused = f", {seen.kicks_refused} refused by the network" if seen.kicks_refused else ""
    told = f"{seen.network.kickouts_due} due, {len(seen.kicks)} proposed{refused}"
    if not seen.kicks:
        return told
    first = min(seen.kicks, key=lambda kick: kick.ready_at)
    now = None if chain.head is None else chain.head.time
    state = "ready since" if now is not None and now >= first.ready_at else "ready at"
    return f"{told}, the first {first.node}, {state} {shown_time(first.ready_at)}"


def _registration(seen: StatusReport) -> str:
    gas = seen.unregistered * REGISTRATION_GAS
    return f"{seen.unregistered} nodes have no index in the contract yet, {gas} gas in all"
