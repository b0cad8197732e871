"""The text of `explain --full`: from single tasks to the number on-chain, for one node.

The JSON answer is in queries.explanation_view, the lines for legacy rules in explain_legacy.
"""

from collections.abc import Iterable, Iterator

from oracle.cli.inspect.explain_legacy import earning_lines, window_lines
from oracle.cli.inspect.node_commands import shown_lane
from oracle.domain.blocks import Position
from oracle.domain.feed_rows import is_of_feed, row_of
from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.domain.fold.working_set import CAUSES, ReliabilityCause, ReliabilityChange, ScoreEntry
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, NEVER_REPORTED
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.group import GroupMember
from oracle.domain.state.node import Membership
from oracle.domain.state.task import Ending
from oracle.queries.explain import Explanation, OnChain, ReportedLane
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import foreign
from oracle.systems.crynux.predownload import requests_of

# Limit for the terminal; --json contains every change.
_MOST_CHANGES = 50


def full_lines(told: Explanation) -> Iterator[str]:
    """Yield every task score, every reliability change, and the resulting QoS."""
    yield f"node {told.node.address}"
    when = shown_time(told.as_of.time)
    rules = f"{told.rules.name} version {told.rules.version}"
    yield f"as of block {told.as_of.number}, {when}; rules {rules}"
    yield f"status {told.figures.status.replace('_', ' ')}"
    yield ""
    if told.rules.legacy is None:
        yield from _score_lines(told)
        yield ""
        yield from _reliability_lines(told)
    else:
        yield from window_lines(told, told.rules.legacy)
    yield ""
    yield from _download_lines(told)
    yield from _result_lines(told)


def _download_lines(told: Explanation) -> Iterator[str]:
    asked = requests_of(told.node, told.as_of.time)
    if asked:
        yield "Asked to download in the last day:"
        for each in asked:
            when = shown_time(each.request.asked_at)
            yield f"  {foreign(each.request.model)}, {when}: {each.state}"
        yield ""


def _score_lines(told: Explanation) -> Iterator[str]:
    rules, pool = told.rules, told.pool
    yield f"Task scores in the pool: {len(pool)} of at most {rules.pool_size}"
    for entry in told.scores:
        said = f"#{entry.seq} score {entry.score} ({_race(told, entry)})"
        yield f"  {said} at block {entry.at.block}"
        yield f"     task {entry.task} in group {entry.group}"
        yield from earning_lines(told, entry)
        yield _source(told, entry.at)
    mean = decimal_text(told.figures.long_term)
    if told.scores:
        spread = told.spread
        yield f"Creators of their tasks: {spread.creators}; {spread.most} of the scores from one"
    if pool:
        yield f"Long-term score = {sum(pool)} / ({len(pool)} x {rules.q_max}) = {mean}"
    else:
        yield f"Long-term score of an empty pool = {mean}"


def _race(told: Explanation, entry: ScoreEntry) -> str:
    """Return the times compared in the group, the fastest first, with the rank of this score."""
    ranked = [member for member in told.groups.get(entry.at, ()) if member.rank is not None]
    ranked.sort(key=lambda member: member.rank or 0)
    times = ", ".join(f"{member.elapsed} s{_error(told, member)}" for member in ranked)
    if entry.rank is not None:
        return f"rank {entry.rank} of {times}"
    elapsed = "no result" if entry.elapsed is None else f"{entry.elapsed} s"
    derived = ", a member by what is around" if entry.is_derived else ""
    return f"no rank, {elapsed}{derived}{_wrong(told, entry)}; the others: {times}"


def _wrong(told: Explanation, entry: ScoreEntry) -> str:
    """Return a note if the verdict of the group rejected the answer."""
    task = told.tasks.get(entry.task)
    return ", a wrong answer" if task is not None and task.ending is Ending.INVALIDATED else ""


def _error(told: Explanation, member: GroupMember) -> str:
    """Return a note if the member reported an error, which may rank behind slower results."""
    task = told.tasks.get(member.task)
    return " (an error)" if task is not None and task.error_reported else ""


def _reliability_lines(told: Explanation) -> Iterator[str]:
    node, rules = told.node, told.rules
    yield f"Changes of reliability: {len(told.changes)}"
    if len(told.changes) > _MOST_CHANGES:
        yield f"  the last {_MOST_CHANGES} of them (--json shows all)"
    for last, change in [*_with_last(told.changes)][-_MOST_CHANGES:]:
        yield from _change_lines(told, change, last)
    now = decimal_text(told.figures.reliability)
    if node.base == UNIT:
        yield f"Reliability = {now}"
        return
    seconds = max(0, told.as_of.time - node.since)
    yield f"Reliability {_healing(node.base, seconds, rules)} = {now}"


def _with_last(
    changes: Iterable[ReliabilityChange],
) -> Iterator[tuple[ReliabilityChange | None, ReliabilityChange]]:
    """Pair each change with the change from which reliability recovered.

    Void changes are skipped, because they did not change reliability.
    """
    last = None
    for change in changes:
        yield last, change
        if change.cause is not ReliabilityCause.TIMEOUT_VOID:
            last = change


def _change_lines(
    told: Explanation, change: ReliabilityChange, last: ReliabilityChange | None
) -> Iterator[str]:
    rules = told.rules
    if last is not None and last.after < change.before:
        seconds = change.time - last.time
        yield f"  {_healing(last.after, seconds, rules)} = {decimal_text(change.before)}"
    before, after = decimal_text(change.before), decimal_text(change.after)
    words = CAUSES[change.cause].words
    yield f"  {before} -> {after} {words} at block {change.at.block}{_step(told, change)}"
    if change.task is not None:
        yield f"     task {change.task}"
    yield _source(told, change.at)


def _healing(base: int, seconds: int, rules: Rules) -> str:
    """Return the formula by which H recovers from `base` within some seconds.

    See docs/reference/scoring-rules.md#reliability.
    """
    return (
        f"healed in {seconds} s: 1 - (1 - {decimal_text(base)}) x "
        f"exp(-{seconds} / {rules.tau_seconds})"
    )


def _step(told: Explanation, change: ReliabilityChange) -> str:
    """Return the rule by which an event changed H, in brackets."""
    rules, info = told.rules, CAUSES[change.cause]
    if change.cause is ReliabilityCause.TIMEOUT_VOID:
        task = None if change.task is None else told.tasks.get(change.task)
        limit = "" if task is None else f" of {task.timeout} s"
        return f" (the task's limit{limit} is below {rules.least_timeout_seconds} s)"
    if change.cause is ReliabilityCause.TIMED_OUT:
        first = rules.first_penalty
        if first is not None and change.before >= rules.first_penalty_from:
            return f" (x {_short(first)}, the first after a good time)"
    if info.factor_rule is not None:
        return f" (x {_short(getattr(rules, info.factor_rule))})"
    if info.increase_rule is not None:
        return f" (+ {_short(getattr(rules, info.increase_rule))}, at most to 1)"
    return ""


def _short(units: int) -> str:
    return decimal_text(units).rstrip("0").rstrip(".")


def _source(told: Explanation, at: Position) -> str:
    if is_of_feed(at):
        return f"     row {row_of(at)[1]} of the feed, which has no proof"
    return f"     transaction {told.transactions.get(at, 'unknown')}, log {at.log}"


def _result_lines(told: Explanation) -> Iterator[str]:
    rules, qos = told.rules, told.figures.qos
    if qos is None:
        yield "QoS: none, it is no member"
    elif rules.legacy is not None:
        yield f"QoS = Q = {decimal_text(qos)}"
    else:
        yield f"QoS = long-term score x reliability = {decimal_text(qos)}"
    if told.lane == DO_NOT_SELECT:
        yield f"A report as of this block says: do not select ({_why_not(told)})"
    else:
        steps = f"floor(QoS x 10000) + 2 = {told.lane - LOWEST_SCORE} + 2"
        yield f"A report as of this block says: lane {told.lane} = {steps}"
    for interval in told.kickouts:
        until = (
            "still" if interval.closed_at is None else f"until block {interval.closed_at.block}"
        )
        yield f"Kickout due since block {interval.opened_at.block}, {until}"
        held = told.held_reason if interval.closed_at is None else None
        if held is not None:
            yield f"     held for a person: {held}"
    if told.sent is not None:
        yield from _sent_lines(told.sent)
    yield on_chain_line(told, told.on_chain)


def _sent_lines(sent: ReportedLane) -> Iterator[str]:
    said = f"Round {sent.round} speaks of this block"
    if sent.lane is None:
        yield f"{said} and leaves the node's lane as it was"
    else:
        yield f"{said} and wrote lane {sent.lane} in block {sent.at.block}"
    yield f"     transaction {sent.transaction or 'unknown'}, log {sent.at.log}"


def _why_not(told: Explanation) -> str:
    node = told.node
    if node.membership is not Membership.MEMBER:
        return f"it is {node.membership.value.replace('_', ' ')}"
    if node.paused:
        return "it is paused"
    if told.figures.is_excluded:
        return f"its reliability is below {decimal_text(told.rules.exclude_exit)}"
    return "it has no QoS"


def on_chain_line(told: Explanation, found: OnChain | None) -> str:
    """Return the line about the node's score in the contract."""
    if found is None:
        return "On chain: the oracle contract does not know the node"
    place = f"On chain as of block {told.as_of.number}, index {found.index}"
    if found.lane == NEVER_REPORTED or found.word is None:
        return f"{place}: no report yet"
    said = f"{place}: lane {found.lane} ({shown_lane(found.lane)}) since round {found.word.round}"
    since = f"{said}, which speaks of block {found.as_of}"
    if told.sent is not None or found.lane == told.lane:
        return since
    return f"{since}; see --round {found.word.round} for how it was made"
