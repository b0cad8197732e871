"""`status` as text: the progress of index, reports and senders, and pending actions."""

from collections.abc import Iterator

from oracle.indexer.rules_binding import shown
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.status_models import CatchingUp, OperatorStatus
from oracle.queries.text.human_numbers import age, behind_text, blocks, span
from oracle.queries.text.text_tables import in_utc
from oracle.store.state.rule_set_repository import RuleSet

Lines = Iterator[tuple[str, str]]


def situation(status: OperatorStatus, heartbeat_seconds: int | None, now: int) -> Lines:
    """Yield the progress of index, reports, senders and kickouts, one line each.

    `heartbeat_seconds` is None without an oracle contract. `now`: unix seconds of this machine.
    """
    yield "index", _index_text(status, now)
    if heartbeat_seconds is not None:
        yield "last report", _last_report_text(status, heartbeat_seconds, now)
        yield "contract", _contract_text(status)
        yield from _senders(status)
        push = status.push_waits
        if push is not None:
            yield "push waits", f"{push.reason}; `qos-oracle outbox show {push.intent}`"
        yield "kickouts", _kickouts_text(status)
        if status.nodes_without_index:
            nodes = f"{status.nodes_without_index} nodes have no index in the contract yet"
            yield "registration", f"{nodes}, {status.registration_gas} gas in all"
    yield "worked on by", status.lease or "nobody"


def reading_lines(status: OperatorStatus) -> Lines:
    """Yield the endpoints that are read, and the verification levels of their blocks."""
    for endpoint in status.endpoints:
        yield "endpoint", _endpoint_text(endpoint)
    levels = [f"{count} {level}" for level, count in status.levels.items()]
    yield "blocks read", ", ".join(levels) or "none"
    yield "dead letters", str(status.dead_letters)
    reorg = status.last_reorg
    if reorg is not None:
        when = shown_time(reorg.time)
        yield "last fork", f"{reorg.depth} blocks above block {reorg.ancestor}, {when}"


def index_lines(status: OperatorStatus, *, has_dispatch: bool) -> Lines:
    """Yield the content of the index; `has_dispatch`: whether tasks are dispatched."""
    if status.chain_id is None:
        yield "chain", "not known yet; `qos-oracle run --once` indexes it"
        return
    yield "chain", f"{status.chain_id}, from block {status.start_block}"
    if status.rules is not None:
        yield "rules", shown(RuleSet(**dict(status.rules)))
    if status.folded is not None:
        yield "final", "unknown" if status.final is None else f"block {status.final}"
    counts = [f"{count} {name.replace('_', ' ')}" for name, count in status.nodes.items()]
    yield "nodes", ", ".join(counts) or "none"
    for report in status.reports:
        reason = f": {report.reason}" if report.reason else ""
        yield "report", f"period {report.period}, {report.state}{reason}"
    for calls in status.outbox:
        yield "outbox", f"{calls.count} {calls.kind} {calls.state}"
    yield from _task_lines(status, has_dispatch=has_dispatch)
    yield "anomalies", str(status.anomalies)


def catching_up_text(progress: CatchingUp, now: int) -> str:
    """Return the number of blocks left and the estimated end, by this machine's clock."""
    left = f"{blocks(progress.blocks_left)} left"
    if progress.until is None:
        return f"{left}, none folded within {progress.watched_seconds:.0f} s"
    until = in_utc(progress.until, "%Y-%m-%d %H:%M UTC")
    rate = f"{progress.blocks_per_second:,.0f} a second"
    return f"{left} at {rate}: {span(progress.until - now)}, until about {until}"


def shown_time(seconds: int) -> str:
    """Return a block's time as text, in UTC."""
    return in_utc(seconds, "%Y-%m-%d %H:%M:%S UTC")


def _index_text(status: OperatorStatus, now: int) -> str:
    folded = status.folded
    if folded is None:
        return "no block is folded yet; `qos-oracle run --once` indexes them"
    at = f"folded to block {folded.number}, {shown_time(folded.time)}, {age(folded.time, now)}"
    if status.head is None or status.lag_blocks is None:
        return f"{at}; how far behind is unknown: {status.contract.unknown}"
    return f"{at}; {behind_text(status.lag_blocks, status.head)}"


def _last_report_text(status: OperatorStatus, heartbeat_seconds: int, now: int) -> str:
    """Return the last report as the contract has it, or as folded if the contract is not known."""
    contract, newest = status.contract, status.head_time
    number, seconds, since = status.round, status.round_age_seconds, "as folded"
    if newest is None:
        newest = None if status.folded is None else status.folded.time
    if contract.round is not None and status.head_time is not None:
        number, since = contract.round, "on chain"
        pushed_at = contract.pushed_at
        seconds = None if pushed_at is None else status.head_time - pushed_at
    if not number or seconds is None or newest is None:
        return f"no round was accepted yet ({since})"
    pushed = newest - seconds
    by_clock = age(pushed, now) if pushed > now else f"by the clock {age(pushed, now)}"
    return (
        f"round {number}, {span(seconds)} old ({since}; {by_clock}); "
        f"one is due every {span(heartbeat_seconds)} at least"
    )


def _contract_text(status: OperatorStatus) -> str:
    contract = status.contract
    if contract.round is None or status.head_time is None:
        return f"unknown: {contract.unknown}"
    if contract.paused_until is not None:
        left = contract.paused_until - status.head_time
        when = f"until {shown_time(contract.paused_until)}, for {span(left)} of chain time"
        return f"the contract takes no report {when}; its admin may resume it"
    kicks = ", but no kickouts: its pauser has stopped them" if contract.kicks_paused else ""
    return f"takes reports{kicks}"


def _senders(status: OperatorStatus) -> Lines:
    for sender in status.senders:
        if sender.paused is None:
            yield "sender", f"{sender.address} may send"
    if not status.senders:
        yield "sender", "nothing was ever sent from this database"


def _kickouts_text(status: OperatorStatus) -> str:
    refused = status.kickouts_refused
    by_network = f", {refused} refused by the network" if refused else ""
    proposals = status.kickouts_proposed
    counts = f"{status.kickouts_due} due, {len(proposals)} proposed{by_network}"
    if not proposals:
        return counts
    first = min(proposals, key=lambda proposal: proposal.ready_at)
    is_ready = status.head_time is not None and status.head_time >= first.ready_at
    state = "ready since" if is_ready else "ready at"
    return f"{counts}, the first {first.node}, {state} {shown_time(first.ready_at)}"


def _endpoint_text(endpoint: EndpointView) -> str:
    head = "" if endpoint.head is None else f", at block {endpoint.head}"
    # An idle endpoint is rarely queried, so whether it lags now is not known.
    lag = (
        f" when it was asked last, {endpoint.lag_blocks} below the newest"
        if endpoint.lag_blocks
        else ""
    )
    return f"{endpoint.endpoint}{head}{lag}, {endpoint.state}"


def _task_lines(status: OperatorStatus, *, has_dispatch: bool) -> Lines:
    """Yield the tasks that wait for dispatch, and the account of the dispatcher."""
    yield "tasks", f"{status.tasks_waiting} waiting"
    if has_dispatch or status.draws_standing:
        oldest = status.oldest_draw_block
        since = "" if oldest is None else f", the oldest of block {oldest}"
        yield "draws", f"{status.draws_standing} standing{since}"
    if has_dispatch:
        account = status.dispatcher
        yield (
            "dispatcher",
            "no key: nothing is started" if account is None else account.text(),
        )
