"""Renders the text of `explain --full`, from single tasks to the node's on-chain lane.

Under legacy rules, the text has the tasks of the window, and the factors R, P, B and Q. The JSON
result is built in queries.explanation_view.
"""

from collections.abc import Iterable, Iterator

from oracle.chain.profiles.profile import Token
from oracle.cli.inspect.node_commands import format_lane
from oracle.domain.blocks import Position
from oracle.domain.feed_rows import get_feed_row_key, is_feed_position
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.fold.legacy_round_scores import compute_round_scores
from oracle.domain.fold.working_set import ReliabilityChange, ScoreEntry
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE
from oracle.domain.scoring.legacy_factors import Factors
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.legacy_tally import WindowTally, compute_window_start
from oracle.domain.scoring.reliability import CAUSES, ReliabilityCause
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Ending, GroupMember, Membership
from oracle.queries.explain import Explanation
from oracle.queries.explanation_models import LaneOnChain, SentLane
from oracle.queries.incident_models import describe_incident
from oracle.queries.objection_models import describe_objection_state
from oracle.queries.text.text_tables import format_block_time, sanitize_text
from oracle.systems.crynux.predownload import list_download_requests

# The terminal shows at most this many changes; --json shows all.
_MAX_CHANGES = 50


def render_full_explanation(explanation: Explanation, token: Token) -> Iterator[str]:
    """Yield lines about every task score, every reliability change, and the resulting QoS.

    Fees are shown in the network's token.
    """
    yield f"node {explanation.node.address}"
    as_of_time = format_block_time(explanation.as_of.time)
    rules_title = f"{explanation.rules.name} version {explanation.rules.version}"
    yield f"as of block {explanation.as_of.number}, {as_of_time}; rules {rules_title}"
    yield f"status {explanation.node_scores.status.replace('_', ' ')}"
    yield ""
    if explanation.rules.legacy is None:
        yield from _render_scores(explanation, token)
        yield ""
        yield from _render_reliability(explanation)
    else:
        yield from _render_window_lines(explanation, explanation.rules.legacy, token)
    yield ""
    yield from _render_downloads(explanation)
    yield from _render_qos_result(explanation)


def _render_downloads(explanation: Explanation) -> Iterator[str]:
    downloads = list_download_requests(explanation.node, explanation.as_of.time)
    if downloads:
        yield "Download requests of the last day:"
        for request, state in downloads:
            requested_time = format_block_time(request.requested_at)
            yield f"  {sanitize_text(request.model)}, {requested_time}: {state}"
        yield ""


def _render_scores(explanation: Explanation, token: Token) -> Iterator[str]:
    rules, pool = explanation.rules, explanation.pool
    yield f"Task scores in the pool: {len(pool)} of at most {rules.pool_size}"
    for entry in explanation.scores:
        score_text = (
            f"#{entry.seq} score {entry.score} ({_format_finish_times(explanation, entry)})"
        )
        yield f"  {score_text} at block {entry.at.block}"
        yield f"     task {entry.task} in group {entry.group}"
        yield from _render_earning_lines(explanation, entry, token)
        yield _describe_event_source(explanation, entry.at)
    mean_text = format_decimal(explanation.node_scores.long_term)
    if explanation.scores:
        creator_spread = explanation.creator_spread
        yield (
            f"Creators of these tasks: {creator_spread.creators}; max scores from one creator: "
            f"{creator_spread.max_per_creator}"
        )
    if pool:
        yield f"Long-term score = {sum(pool)} / ({len(pool)} x {rules.q_max}) = {mean_text}"
    else:
        yield f"Long-term score of an empty pool = {mean_text}"


def _format_finish_times(explanation: Explanation, entry: ScoreEntry) -> str:
    """Format the times of the group's ranked members and this score's rank."""
    ranked_members = [
        member
        for member in explanation.members_by_position.get(entry.at, ())
        if member.rank is not None
    ]
    ranked_members.sort(key=lambda member: member.rank or 0)
    finish_times = ", ".join(
        f"{member.elapsed} s{_format_error_note(explanation, member)}" for member in ranked_members
    )
    if entry.rank is not None:
        return f"rank {entry.rank} of {finish_times}"
    elapsed_text = "no result" if entry.elapsed is None else f"{entry.elapsed} s"
    derived_note = ", membership derived" if entry.is_derived else ""
    rejection_note = _format_rejection_note(explanation, entry)
    return f"no rank, {elapsed_text}{derived_note}{rejection_note}; the others: {finish_times}"


def _format_rejection_note(explanation: Explanation, entry: ScoreEntry) -> str:
    """Return a note if the group's verdict rejected the node's answer, else an empty text."""
    task = explanation.task_by_key.get(entry.task)
    return ", answer rejected" if task is not None and task.ending is Ending.INVALIDATED else ""


def _format_error_note(explanation: Explanation, member: GroupMember) -> str:
    """Return a note if the group member reported an error, else an empty text."""
    task = explanation.task_by_key.get(member.task)
    return " (an error)" if task is not None and task.error_reported else ""


def _render_reliability(explanation: Explanation) -> Iterator[str]:
    node, rules = explanation.node, explanation.rules
    yield f"Changes of reliability: {len(explanation.changes)}"
    if len(explanation.changes) > _MAX_CHANGES:
        yield f"  the last {_MAX_CHANGES} of them (--json shows all)"
    for previous_change, change in [*_pair_changes_with_previous(explanation.changes)][
        -_MAX_CHANGES:
    ]:
        yield from _render_reliability_change(explanation, change, previous_change)
    reliability_text = format_decimal(explanation.node_scores.reliability)
    if node.base == UNIT:
        yield f"Reliability = {reliability_text}"
        return
    seconds_since_change = max(0, explanation.as_of.time - node.since)
    recovery = _format_recovery_formula(node.base, seconds_since_change, rules)
    yield f"Reliability {recovery} = {reliability_text}"


def _pair_changes_with_previous(
    changes: Iterable[ReliabilityChange],
) -> Iterator[tuple[ReliabilityChange | None, ReliabilityChange]]:
    """Yield each reliability change with the change before it.

    Between two changes, reliability recovers from the value after the earlier one. A void timeout
    is never used as the earlier change, because it did not change reliability.
    """
    previous_change = None
    for change in changes:
        yield previous_change, change
        if change.cause is not ReliabilityCause.TIMEOUT_VOID:
            previous_change = change


def _render_reliability_change(
    explanation: Explanation, change: ReliabilityChange, previous_change: ReliabilityChange | None
) -> Iterator[str]:
    rules = explanation.rules
    if previous_change is not None and previous_change.after < change.before:
        elapsed_seconds = change.time - previous_change.time
        recovery = _format_recovery_formula(previous_change.after, elapsed_seconds, rules)
        yield f"  {recovery} = {format_decimal(change.before)}"
    before_text = format_decimal(change.before)
    after_text = format_decimal(change.after)
    cause_text = CAUSES[change.cause].description
    yield (
        f"  {before_text} -> {after_text} {cause_text} at block "
        f"{change.at.block}{_format_change_rule(explanation, change)}"
    )
    if change.task is not None:
        yield f"     task {change.task}"
    incident = explanation.timeout_marks.incident_by_position.get(change.at)
    if incident is not None:
        incident_text = f"incident {incident.number}, {describe_incident(incident)}"
        yield f"     probably not its fault: {incident_text}"
    yield _describe_event_source(explanation, change.at)


def _format_recovery_formula(base: int, seconds: int, rules: Rules) -> str:
    """Return the formula by which reliability recovers from `base` in the given seconds.

    See docs/reference/scoring-rules.md#reliability.
    """
    return (
        f"recovered in {seconds} s: 1 - (1 - {format_decimal(base)}) x exp(-{seconds} / "
        f"{rules.tau_seconds})"
    )


def _format_change_rule(explanation: Explanation, change: ReliabilityChange) -> str:
    """Return, in brackets, the rule that an event applied to the node's reliability."""
    rules = explanation.rules
    if change.cause is ReliabilityCause.TIMEOUT_VOID:
        task = None if change.task is None else explanation.task_by_key.get(change.task)
        limit_text = "" if task is None else f" of {task.timeout} s"
        return f" (the task's limit{limit_text} is below {rules.least_timeout_seconds} s)"
    cause_info = CAUSES[change.cause]
    factor_rule = cause_info.find_factor_rule(change.before, rules)
    if factor_rule is not None:
        factor_text = _format_decimal(getattr(rules, factor_rule))
        if cause_info.first_factor_rules is None or factor_rule == cause_info.factor_rule:
            return f" (x {factor_text})"
        min_reliability_text = _format_decimal(getattr(rules, cause_info.first_factor_rules[1]))
        return f" (x {factor_text}, because H was at least {min_reliability_text})"
    if cause_info.increase_rule is not None:
        return f" (+ {_format_decimal(getattr(rules, cause_info.increase_rule))}, at most to 1)"
    return ""


def _format_decimal(units: int) -> str:
    return format_decimal(units).rstrip("0").rstrip(".")


def _describe_event_source(explanation: Explanation, position: Position) -> str:
    if is_feed_position(position):
        return f"     row {get_feed_row_key(position)[1]} of the feed, which has no proof"
    return (
        f"     transaction {explanation.transaction_by_position.get(position, 'unknown')}, log "
        f"{position.log}"
    )


def _render_qos_result(explanation: Explanation) -> Iterator[str]:
    rules, qos = explanation.rules, explanation.node_scores.qos
    if qos is None:
        yield "QoS: none, the node is not a member"
    elif rules.legacy is not None:
        yield f"QoS = Q = {format_decimal(qos)}"
    else:
        yield f"QoS = long-term score x reliability = {format_decimal(qos)}"
    if explanation.lane == DO_NOT_SELECT:
        reason = _describe_unselectable_reason(explanation)
        yield f"Lane in a report of this block: do not select ({reason})"
    else:
        formula = f"floor(QoS x 10000) + 2 = {explanation.lane - LOWEST_SCORE} + 2"
        yield f"Lane in a report of this block: {explanation.lane} = {formula}"
    for interval in explanation.kickouts:
        until_text = (
            "still" if interval.closed_at is None else f"until block {interval.closed_at.block}"
        )
        yield f"Kickout due since block {interval.opened_at.block}, {until_text}"
        hold_reason = explanation.hold_reason if interval.closed_at is None else None
        if hold_reason is not None:
            yield f"     held for an operator: {hold_reason}"
    yield from _render_objections(explanation)
    if explanation.reported_lane is not None:
        yield from _render_sent_report(explanation.reported_lane)
    yield render_on_chain_score_line(explanation, explanation.on_chain_lane)


def _render_objections(explanation: Explanation) -> Iterator[str]:
    for entry in explanation.objections:
        state = describe_objection_state(entry)
        yield f"     objection {entry.seq} (block {entry.at.block}, {entry.reason}): {state}"
    if explanation.objection_delay is not None:
        yield f"     not accused yet by this reporter: {explanation.objection_delay.reason}"


def _render_sent_report(sent_lane: SentLane) -> Iterator[str]:
    round_text = f"Round {sent_lane.round} is as of this block"
    if sent_lane.lane is None:
        yield f"{round_text}; its leaves are no longer stored"
    else:
        yield f"{round_text}, with lane {sent_lane.lane}, accepted in block {sent_lane.block}"
    yield f"     transaction {sent_lane.transaction or 'unknown'}, log {sent_lane.log}"


def _describe_unselectable_reason(explanation: Explanation) -> str:
    node = explanation.node
    if node.membership is not Membership.MEMBER:
        return f"it is {node.membership.value.replace('_', ' ')}"
    if node.paused:
        return "it is paused"
    if explanation.node_scores.is_excluded:
        return f"its reliability is below {format_decimal(explanation.rules.exclude_exit)}"
    return "it has no QoS"


def render_on_chain_score_line(explanation: Explanation, state: LaneOnChain | None) -> str:
    """Return the line about the node's score in the contract."""
    if state is None:
        return "On chain: no accepted round up to this block contains the node, or none is kept"
    full_text = (
        f"On chain as of block {explanation.as_of.number}, seat {state.seat}: lane {state.lane} "
        f"({format_lane(state.lane)}) in round {state.round}, as of block {state.as_of}"
    )
    if explanation.reported_lane is not None or state.lane == explanation.lane:
        return full_text
    return f"{full_text}; see --round {state.round} for how it was computed"


def _render_window_lines(
    explanation: Explanation, legacy_rules: LegacyRules, token: Token
) -> Iterator[str]:
    """Yield lines about the tasks in the current window and the node's factors."""
    factors = explanation.node_scores.factors
    if factors is None:
        return
    start_time = format_block_time(compute_window_start(factors.tally.window, legacy_rules))
    yield f"Task scores in the window that began {start_time}: {factors.tally.tasks}"
    yield from _render_tasks(explanation, token)
    yield _format_node_score(factors.tally)
    yield f"Member in this window for {factors.tally.online_seconds} s"
    if explanation.node.membership is Membership.MEMBER:
        yield ""
        yield from _render_factors(explanation, factors, legacy_rules)


def _render_tasks(explanation: Explanation, token: Token) -> Iterator[str]:
    for entry in explanation.scores:
        yield f"  #{entry.seq} score {entry.score} at block {entry.at.block}"
        yield f"     task {entry.task}{_describe_round_ranks(explanation, entry)}"
        yield from _render_earning_lines(explanation, entry, token)
        transaction_hash = explanation.transaction_by_position.get(entry.at, "unknown")
        yield f"     transaction {transaction_hash}, log {entry.at.log}"


def _render_earning_lines(
    explanation: Explanation, entry: ScoreEntry, token: Token
) -> Iterator[str]:
    """Yield what the node earned from the task of a score, if known."""
    earning = explanation.compute_earning(entry)
    if earning is not None:
        yield f"     {earning.to_text(token)}"


def _describe_round_ranks(explanation: Explanation, entry: ScoreEntry) -> str:
    """Return the node's ranks in both rounds of a task.

    An open submission counts for both rounds.
    """
    runs = explanation.get_task_runs(entry)
    if not runs and entry.rank is not None:
        return f": rank {entry.rank} in both rounds, {entry.elapsed} s"
    scores = compute_round_scores(runs, explanation.rules)
    for run, round_scores in zip(runs, scores, strict=False):
        if run.node == explanation.node.address:
            commitment_text = _format_rank(
                round_scores.commitment_rank, round_scores.commitment_score
            )
            disclosure_text = _format_rank(
                round_scores.disclosure_rank, round_scores.disclosure_score
            )
            return f": commitment {commitment_text}, disclosure {disclosure_text}"
    return ""


def _format_rank(rank: int | None, score: int) -> str:
    return f"no submission ({score})" if rank is None else f"rank {rank} ({score})"


def _format_node_score(tally: WindowTally) -> str:
    if tally.node_score is None:
        return "Node score: none, no task ended in this window"
    return f"Node score = {tally.total} / {tally.tasks} = {format_decimal(tally.node_score)}"


def _render_factors(
    explanation: Explanation, factors: Factors, legacy_rules: LegacyRules
) -> Iterator[str]:
    peers = explanation.population.peers
    if peers is None:
        return
    node = explanation.node
    vram_text = _format_quantity(node.gpu_vram, "GB")
    timeout_text = _format_quantity(node.timeout, "s")
    yield f"R = {format_decimal(factors.size)} ({vram_text} of at most {peers.max_vram} GB)"
    timeout_range = f"{legacy_rules.least_timeout_seconds} to {peers.max_timeout} s"
    promptness_text = format_decimal(factors.promptness)
    yield f"P = {promptness_text} (timeout {timeout_text}, range {timeout_range})"
    if factors.speed is None:
        yield "B = none (no node score), counts as 0"
    else:
        best_score_text = format_decimal(peers.max_node_score)
        yield f"B = {format_decimal(factors.speed)} (the best node score is {best_score_text})"
    a, b, c = legacy_rules.vram_weight, legacy_rules.timeout_weight, legacy_rules.speed_weight
    formula_text = f"{format_decimal(a)} R + {format_decimal(b)} P + {format_decimal(c)} B"
    yield f"Q = {formula_text} = {format_decimal(factors.combined)}"
    incentive_share = explanation.population.shares.get(node.address)
    if incentive_share is not None:
        yield f"Incentive share so far = {format_decimal(incentive_share)}"


def _format_quantity(quantity: int | None, unit: str) -> str:
    return "unknown" if quantity is None else f"{quantity} {unit}"
