"""Formats progress, accounts, pending actions and possible proofs as text."""

from collections.abc import Iterator

from oracle.chain.source import ChainSource
from oracle.domain.blocks import format_block_count
from oracle.domain.coverage import IngestScope, VerificationLevel
from oracle.domain.health import Condition, HealthFinding
from oracle.indexer.audit.unproven_history import describe_unproven_history
from oracle.indexer.reorgs.fork_detection import count_providers
from oracle.indexer.rules_binding import format_rule_set
from oracle.queries.contract_view import HotSetView
from oracle.queries.endpoint_view import EndpointView
from oracle.queries.status_models import CatchingUp, OperatorStatus
from oracle.queries.text.human_numbers import (
    format_age,
    format_duration,
    format_lag,
)
from oracle.queries.text.text_tables import format_block_time, format_utc
from oracle.store.database import Store
from oracle.store.state.rule_set_repository import RuleSet

Line = tuple[str, str]
Lines = Iterator[Line]


def format_progress_lines(
    status: OperatorStatus, heartbeat_seconds: int | None, now: int
) -> Lines:
    """Yield the status lines of the index, the reports, the senders and the kickouts.

    `heartbeat_seconds` is None without an oracle contract. `now` is the time of this machine in
    unix seconds.
    """
    yield "index", _format_index_progress(status, now)
    if heartbeat_seconds is not None:
        yield "last report", _format_last_report(status, heartbeat_seconds, now)
        yield "contract", _format_contract_state(status)
        hot_set = status.contract.hot_set
        if hot_set is not None:
            yield "hot set", _format_hot_set(hot_set)
        yield from _format_senders(status)
        waiting_push = status.push_waits
        if waiting_push is not None:
            yield (
                "push waits",
                f"{waiting_push.reason}; `qos-oracle outbox show {waiting_push.intent}`",
            )
        yield "kickouts", _format_kickouts(status)
    yield "leader", status.lease or "none"


def format_endpoint_lines(status: OperatorStatus) -> Lines:
    """Yield lines about the endpoints in use and the verification levels of blocks."""
    for endpoint in status.endpoints:
        yield "endpoint", _format_endpoint(endpoint)
    level_texts = [f"{count} {level}" for level, count in status.levels.items()]
    yield "blocks read", ", ".join(level_texts) or "none"
    yield "dead letters", str(status.dead_letters)
    reorg = status.last_reorg
    if reorg is not None:
        fork_time = format_block_time(reorg.time)
        yield (
            "last fork",
            f"{format_block_count(reorg.depth)} above block {reorg.ancestor}, {fork_time}",
        )


def format_index_lines(status: OperatorStatus, *, has_dispatch: bool) -> Lines:
    """Yield lines about the content of the index and, with `has_dispatch`, the dispatcher."""
    if status.chain_id is None:
        yield "chain", "not known yet; run `qos-oracle run --once` first"
        return
    yield "chain", f"{status.chain_id}, from block {status.start_block}"
    if status.rules is not None:
        yield "rules", format_rule_set(RuleSet(**dict(status.rules)))
    if status.folded is not None:
        yield "final", "unknown" if status.final is None else f"block {status.final}"
    count_texts = [f"{count} {name.replace('_', ' ')}" for name, count in status.nodes.items()]
    yield "nodes", ", ".join(count_texts) or "none"
    for report in status.reports:
        reason_suffix = f": {report.reason}" if report.reason else ""
        yield "report", f"period {report.period}, {report.state}{reason_suffix}"
    for outbox_count in status.outbox:
        yield "outbox", f"{outbox_count.count} {outbox_count.kind} {outbox_count.state}"
    yield from _format_task_lines(status, has_dispatch=has_dispatch)
    yield "anomalies", str(status.anomalies)


def format_catch_up_progress(progress: CatchingUp, now: int) -> str:
    """Return the number of blocks left, and the estimated end time in UTC."""
    remaining_text = f"{format_block_count(progress.blocks_left)} left"
    if progress.until is None:
        return f"{remaining_text}, none folded within {progress.watched_seconds:.0f} s"
    end_time = format_utc(progress.until, "%Y-%m-%d %H:%M UTC")
    rate_text = f"{progress.blocks_per_second:,.0f} per second"
    return (
        f"{remaining_text} at {rate_text}: {format_duration(progress.until - now)}, until about "
        f"{end_time}"
    )


def _format_index_progress(status: OperatorStatus, now: int) -> str:
    folded_block = status.folded
    if folded_block is None:
        return "no block is folded yet; run `qos-oracle run --once` first"
    progress_text = (
        f"folded to block {folded_block.number}, {format_block_time(folded_block.time)}, "
        f"{format_age(folded_block.time, now)}"
    )
    if status.head is None or status.lag_blocks is None:
        return f"{progress_text}; the lag is unknown: {status.contract.unknown}"
    return f"{progress_text}; {format_lag(status.lag_blocks, status.head)}"


def _format_last_report(status: OperatorStatus, heartbeat_seconds: int, now: int) -> str:
    """Format the last report, read from the contract or, if that is unknown, from the index."""
    contract, newest_time = status.contract, status.head_time
    round_number, age_seconds, source_text = status.round, status.round_age_seconds, "as folded"
    if newest_time is None:
        newest_time = None if status.folded is None else status.folded.time
    if contract.round is not None and status.head_time is not None:
        round_number, source_text = contract.round, "on chain"
        pushed_at = contract.pushed_at
        age_seconds = None if pushed_at is None else status.head_time - pushed_at
    if not round_number or age_seconds is None or newest_time is None:
        return f"no round was accepted yet ({source_text})"
    push_time = newest_time - age_seconds
    clock_age_text = (
        format_age(push_time, now)
        if push_time > now
        else f"by the clock {format_age(push_time, now)}"
    )
    return (
        f"round {round_number}, {format_duration(age_seconds)} old ({source_text}; "
        f"{clock_age_text}); one is due every {format_duration(heartbeat_seconds)} at least"
    )


def _format_hot_set(hot_set: HotSetView) -> str:
    if not hot_set.rounds_behind:
        return "as of the last round"
    round_noun = "round" if hot_set.rounds_behind == 1 else "rounds"
    word_noun = "word" if hot_set.words_left == 1 else "words"
    lag_text = f"{hot_set.rounds_behind} {round_noun} behind"
    return f"{lag_text}, {hot_set.words_left} {word_noun} left to bring"


def _format_contract_state(status: OperatorStatus) -> str:
    contract = status.contract
    if contract.round is None or status.head_time is None:
        return f"unknown: {contract.unknown}"
    if contract.paused_until is not None:
        seconds_left = contract.paused_until - status.head_time
        pause_text = (
            f"until {format_block_time(contract.paused_until)}, for "
            f"{format_duration(seconds_left)} of chain time"
        )
        return f"the contract accepts no report {pause_text}; its admin may resume it"
    kickout_text = (
        ", but no kickouts: its pauser has stopped them" if contract.kicks_paused else ""
    )
    return f"accepts reports{kickout_text}"


def _format_senders(status: OperatorStatus) -> Lines:
    for sender in status.senders:
        if sender.paused is None:
            yield "sender", f"{sender.address} may send"
    if not status.senders:
        yield "sender", "none has sent anything from this database yet"


def _format_kickouts(status: OperatorStatus) -> str:
    refused_count = status.kickouts_refused
    refused_text = f", {refused_count} refused by the network" if refused_count else ""
    accused = status.kickouts_accused
    counts_text = f"{status.kickouts_due} due, {len(accused)} accused{refused_text}"
    if not accused:
        return counts_text
    ready_at, node = min((kickout.ready_at or 0, kickout.node) for kickout in accused)
    is_ready = status.head_time is not None and status.head_time >= ready_at
    readiness_text = "ready since" if is_ready else "ready at"
    return f"{counts_text}, the first {node}, {readiness_text} {format_block_time(ready_at)}"


def _format_endpoint(endpoint: EndpointView) -> str:
    head_text = "" if endpoint.head is None else f", at block {endpoint.head}"
    # An idle endpoint is rarely queried. It is therefore unknown whether it lags right now.
    lag_text = (
        f" at the last request, {endpoint.lag_blocks} behind the newest"
        if endpoint.lag_blocks
        else ""
    )
    return f"{endpoint.endpoint}{head_text}{lag_text}, {endpoint.state}"


def _format_task_lines(status: OperatorStatus, *, has_dispatch: bool) -> Lines:
    """Yield lines about the tasks waiting for dispatch, and the dispatcher's account."""
    yield "tasks", f"{status.tasks_waiting} waiting"
    if has_dispatch or status.draws_standing:
        oldest_block = status.oldest_draw_block
        oldest_text = "" if oldest_block is None else f", the oldest of block {oldest_block}"
        yield "draws", f"{status.draws_standing} active{oldest_text}"
    if has_dispatch:
        dispatcher = status.dispatcher
        yield (
            "dispatcher",
            "no key: no task is started" if dispatcher is None else dispatcher.to_text(),
        )


def load_proof_status(
    store: Store, source: ChainSource, scope: IngestScope
) -> tuple[list[HealthFinding], list[Line]]:
    """Return findings about unproven history, and lines about which proofs are possible."""
    findings, lines = _build_proof_status(store, source, scope)
    return findings, [*_format_provider_warning(source), *lines]


def _format_provider_warning(source: ChainSource) -> list[Line]:
    """Return a warning line if one provider could forge the chain unnoticed."""
    if count_providers(source) > 1:
        return []
    provider_count = len(source.get_providers())
    provider_text = (
        "one endpoint" if provider_count == 1 else f"one provider ({provider_count} endpoints)"
    )
    risk_text = f"there is only {provider_text}, so a forged chain would go unnoticed"
    return [("witness", f"unwitnessed: {risk_text}; add another provider to [chain] endpoints")]


def _build_proof_status(
    store: Store, source: ChainSource, scope: IngestScope
) -> tuple[list[HealthFinding], list[Line]]:
    with store.read_transaction() as uow:
        unproven_reason = describe_unproven_history(source, uow, scope)
    if unproven_reason is not None:
        return [HealthFinding(Condition.UNPROVEN, unproven_reason)], []
    level = source.get_history_level()
    if level < VerificationLevel.BLOOMED:
        proof_text = "the headers cannot prove it yet, or [verify] does not require a proof"
        return [], [("proof", f"history is unproven: {proof_text}")]
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        final_block = -1 if cursor is None or cursor.final_number is None else cursor.final_number
        unreached_block_count = uow.coverage.count_blocks_below_level(
            scope.id, level, 0, final_block
        )
    proof_text = f"every block of history can be verified as {level.name.lower()}"
    if not unreached_block_count:
        return [], [("proof", proof_text)]
    unreached_text = (
        f"{format_block_count(unreached_block_count)} below the level that can be reached: "
        f"{proof_text}; `run` rereads them"
    )
    return [HealthFinding(Condition.UNPROVEN, unreached_text)], []
