"""Renders a node's page: a summary sentence, and everything its score is computed from."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fastapi.responses import Response

from oracle.chain.profiles.profile import Token
from oracle.daemon.web.pages.drawings import (
    BROAD,
    NARROW,
    Sample,
    TrendChart,
    build_trend_chart,
    lay_out_bars,
)
from oracle.daemon.web.pages.objection_card import build_objection_values
from oracle.daemon.web.pages.page_frame import (
    NO_NUMBER,
    PageRequest,
    build_frame_values,
    format_two_digits,
    parse_node_prefix,
    render_template,
)
from oracle.daemon.web.pages.proof_card import build_requested_proof_card
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import DO_NOT_SELECT
from oracle.domain.reports.rules_changes import list_pending_changes
from oracle.domain.scoring.node_figures import RECOVERING_BELOW
from oracle.domain.scoring.reliability import (
    CAUSES,
    ReliabilityCause,
    ReliabilityMark,
    list_decrease_causes,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node
from oracle.queries.advice.advice_record import load_advice_record
from oracle.queries.advice.advice_sentences import (
    GPU_TITLES,
    LOSS_TITLES,
    WHAT_IF_TITLES,
    WORK_TITLES,
    explain_gpu_comparison,
    explain_missing_what_if,
    explain_what_if,
    explain_work_share,
    format_gpu_rows,
    format_lost_earnings_rows,
    format_what_if_rows,
    format_work_share_rows,
    summarize_earnings,
    summarize_todays_losses,
    summarize_what_if,
    summarize_work_share,
)
from oracle.queries.advice.kickout_outlook import KickoutOutlook, format_kickout_outlook
from oracle.queries.advice.node_advice import NodeAdvice, build_node_advice
from oracle.queries.api.history_points import HistoryPoint
from oracle.queries.api.node_history import (
    HistoryMark,
    HistoryQuery,
    NodeHistory,
    build_history_with_points,
)
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.node_proof import build_leaf_at_cursor, is_whole_address
from oracle.queries.api.node_view import NodeView, build_node_view
from oracle.queries.api.records.node_past import build_node_past
from oracle.queries.api.rules_history import build_rules_history
from oracle.queries.api.rules_preview_view import build_node_previews
from oracle.queries.api.source import ApiSnapshot, NotFoundError
from oracle.queries.incident_models import format_marked_timeouts
from oracle.queries.node_sentences import (
    NodeSummary,
    format_headline,
    format_qos_interval,
    format_secondary_details,
)
from oracle.queries.node_standing import build_node_summary
from oracle.queries.owner_deadlines import describe_owner_action, list_owner_deadlines
from oracle.queries.proof_sentences import describe_leaf
from oracle.queries.score_periods import list_score_periods, list_total_periods
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_duration,
    format_rank,
    format_time,
)
from oracle.queries.text.reliability_decreases import name_decrease_causes

_NOT_FOUND = 404
# Time ranges in seconds; the range `all` starts when the node was first seen.
_RANGES = {
    "1h": 3_600,
    "6h": 21_600,
    "24h": 86_400,
    "7d": 604_800,
    "30d": 2_592_000,
    "all": None,
}
_DEFAULT_RANGE = "all"
_SCORE_BOX = (1_120, 118)
# If a chart covers at least this time, its time labels are dates without hours.
_DAYS_ONLY_SECONDS = 6 * 86_400
_DAY_SECONDS = 86_400
# The maximum number of points of a chart: one per column.
_MAX_POINTS = 600
_TONES = ("first", "second")
SENTENCE_BY_CHANGE = {
    "joined": "Joined.",
    "pause_asked": "Pause requested; pending until the current task ended.",
    "paused": "Paused.",
    "resumed": "Resumed.",
    "quit_asked": "Quit requested; pending until the current task ended.",
    "quit": "Quit.",
    "slashed": "Slashed.",
    "kicked_out": "Kicked out by the network.",
    "kickout_due": "Kickout due.",
    "kickout_over": "Kickout no longer due.",
    "kickout_accused": "Accused on chain.",
    "kickout_executed": "Kicked out.",
}


class ScoreLabel(NamedTuple):
    """The label of a task score: its task, colour and text."""

    task: str
    tone: str
    words: str


def render_node(snapshot: ApiSnapshot, request: PageRequest) -> Response:
    """Show one node: a summary sentence, and everything its score is computed from."""
    range_name = request.get_query_choice("range", _RANGES) or _DEFAULT_RANGE
    prefix = parse_node_prefix(request.path["address"])
    try:
        node = find_node_by_prefix(snapshot, prefix)
    except NotFoundError:
        if not is_whole_address(prefix):
            raise
        return _render_unknown_address(snapshot, request, Address(prefix))
    node_answer = build_node_view(snapshot, node)
    record = load_advice_record(snapshot, node)
    node_summary = build_node_summary(snapshot, record, node_answer)
    last_time = _find_chart_end_time(snapshot, node)
    range_seconds = _RANGES[range_name]
    first_time = None if range_seconds is None else max(0, last_time - range_seconds)
    history, points = build_history_with_points(
        snapshot, node.address, HistoryQuery(first=first_time, last=last_time, points=_MAX_POINTS)
    )
    node_past = build_node_past(snapshot, node.address)
    advice = build_node_advice(snapshot, record)
    announced_times = _list_rule_start_times(snapshot)
    previews = build_node_previews(snapshot, node.address).previews
    rules_changes = build_rules_history(snapshot).changes if previews else []
    objection_values = build_objection_values(snapshot, node, node_answer.objections)
    subscriptions = snapshot.source.subscriptions
    return render_template(
        "node.html",
        **build_frame_values(snapshot, "Nodes", f"/v1/nodes/{node.address}"),
        node=node_answer,
        **build_score_values(node_answer, node_summary, record.entries),
        history=history,
        past=node_past,
        previews=previews,
        reason_by_rules={change.rules_hash: change.reason for change in rules_changes},
        **objection_values,
        announced_times=announced_times,
        action=describe_owner_action(node_summary, node_answer, objection_values["posted"]),
        deadlines=list_owner_deadlines(
            node_summary, node_answer, objection_values["posted"], announced_times
        ),
        object_until=node_answer.kickout.object_until,
        accused_ready_at=node_summary.kick_at,
        kickout_chip=_choose_kickout_state(node_summary),
        periods=list_score_periods(history, points),
        totals=list_total_periods(history, points),
        starting_score=_find_starting_score(history, points, node_summary.rules),
        recovering_below=RECOVERING_BELOW,
        decrease_nouns=name_decrease_causes(node_summary.rules),
        **build_advice_values(advice, snapshot.source.token),
        contact=snapshot.source.contact,
        has_evidence=request.has_evidence,
        channels=[] if subscriptions is None else subscriptions.terms.channels,
        turns=[(change, SENTENCE_BY_CHANGE[change.what]) for change in node_past.membership],
        charts=build_trend_charts(history, node_summary.rules),
        marks=_build_mark_texts(history, snapshot, node_summary.rules),
        marked_timeouts=describe_marked_timeouts(history),
        marked_scores=count_marked_scores(history, record.entries),
        ranges=list(_RANGES),
        range_name=range_name,
        proof=build_requested_proof_card(snapshot, request, node.address),
        leaf_rows=describe_leaf(build_leaf_at_cursor(snapshot, node)),
    )


def _choose_kickout_state(summary: NodeSummary) -> str | None:
    """Return the kickout state to show instead of the node's own state, if there is one."""
    if summary.is_expelled and summary.node_scores.state != "kicked_out":
        return "expelled"
    if not summary.node_scores.is_kickout_due:
        return None
    if summary.obstacle is not None:
        return "kickout_blocked"
    return "kickout_due" if summary.kick_at is None else "accused"


def _list_rule_start_times(snapshot: ApiSnapshot) -> list[int]:
    """Return the earliest start time of each announced rule set, in ascending order.

    Times are in unix seconds.
    """
    changes = snapshot.uow.rounds.get_contract_settings().rules_changes
    return sorted(
        change.scheduled.ready_at
        for change in list_pending_changes(changes)
        if change.scheduled is not None
    )


def _render_unknown_address(
    snapshot: ApiSnapshot, request: PageRequest, address: Address
) -> Response:
    """Show that an address is not a node.

    The page proves the absence if a round was accepted. The status is 404, as for every other
    object that was not found.
    """
    return render_template(
        "absence.html",
        status=_NOT_FOUND,
        **build_frame_values(snapshot, "Nodes"),
        address=address,
        proof=build_requested_proof_card(snapshot, request, address),
    )


def _find_chart_end_time(snapshot: ApiSnapshot, node: Node) -> int:
    """Return the unix time at which a node's chart ends: now, or when the node left."""
    last_change = snapshot.uow.memberships.find_effective_change(node.address)
    is_member = node.membership is Membership.MEMBER
    return snapshot.cursor.time if last_change is None or is_member else last_change.time


def build_score_values(
    node_view: NodeView, node_summary: NodeSummary, scores: Sequence[ScoreEntry]
) -> dict[str, Any]:
    """Build the template values of a node: its sentences, scores and thresholds.

    Reliability, mean and thresholds are decimals.
    """
    rules = node_summary.rules
    (qos, chain_words) = describe_on_chain_score(node_view)
    slot_count = max(node_view.pool_size, len(scores))
    score_bars = lay_out_bars(
        [entry.score for entry in scores], slot_count, _SCORE_BOX, rules.q_max
    )
    return {
        "headline": format_headline(node_summary),
        "interval": None
        if node_view.interval is None
        else format_qos_interval(node_view.interval),
        "details": format_secondary_details(node_summary),
        "on_chain": qos,
        "on_chain_label": chain_words,
        "exclusion": describe_exclusion(node_view),
        "kickout": describe_kickout(node_view, node_summary.kickout),
        "reliability": node_view.row.reliability / UNIT,
        "exclude_below": node_view.excluded_below / UNIT,
        "mean": (node_view.kickout.mean or 0) / UNIT,
        "kick_below": node_view.kickout.below / UNIT,
        "best_score": rules.q_max,
        "bars": [
            (bar, build_score_label(entry, rules))
            for bar, entry in zip(score_bars, scores, strict=False)
        ],
    }


def build_advice_values(advice: NodeAdvice, token: Token) -> dict[str, Any]:
    """Build the template values of a node's advice: sentences and table cells."""
    what_if, work, money = advice.what_if, advice.work, advice.money
    return {
        "what_if": None
        if what_if is None
        else {
            "summary": summarize_what_if(what_if),
            "titles": WHAT_IF_TITLES,
            "cells": format_what_if_rows(what_if, token),
            "assumption": explain_what_if(what_if),
            "gpu_titles": GPU_TITLES,
            "gpu_cells": format_gpu_rows(what_if, token),
            "gpus": explain_gpu_comparison(what_if),
        },
        "no_what_if": None if what_if is not None else explain_missing_what_if(advice),
        "work": None
        if work is None
        else {
            "summary": summarize_work_share(work),
            "is_enough": 4 * work.received * UNIT >= 3 * work.expected,
            "titles": WORK_TITLES,
            "cells": format_work_share_rows(work),
            "assumption": explain_work_share(work),
        },
        "money": {
            "summary": summarize_earnings(money, token),
            "losses_today": summarize_todays_losses(money, token),
            "titles": LOSS_TITLES,
            "cells": format_lost_earnings_rows(money, token),
            "has_fees": money.tasks > 0,
            "assumption": money.assumption,
        },
    }


def _find_starting_score(
    history: NodeHistory, points: Sequence[HistoryPoint], rules: Rules
) -> int | None:
    """Return a new node's initial QoS, if the history starts with it."""
    has_joined = any(
        mark.cause == ReliabilityCause.JOINED and mark.time <= history.first
        for mark in history.marks
    )
    if not (has_joined and points) or points[0].long_term != rules.new_node_long_term:
        return None
    return points[0].qos


def build_trend_charts(history: NodeHistory, rules: Rules) -> list[TrendChart]:
    """Build the charts for wide and narrow screens.

    The list is empty if there are no samples.
    """
    samples = [
        Sample(time, float(qos), float(long_term), float(reliability))
        for time, qos, long_term, reliability in history.rows
    ]
    plotted_decreases = _select_plotted_changes(history, ReliabilityMark.DECREASE)
    plotted_increases = _select_plotted_changes(history, ReliabilityMark.INCREASE)
    exclusion_spans = [
        (mark.time, mark.back_at) for mark in history.marks if mark.back_at is not None
    ]
    exclusion_threshold = rules.exclude_enter / UNIT
    charts = (
        build_trend_chart(
            samples,
            exclusion_threshold,
            width,
            decreases=plotted_decreases,
            increases=plotted_increases,
            excluded=exclusion_spans,
        )
        for width in (BROAD, NARROW)
    )
    return [chart for chart in charts if chart is not None]


def _select_plotted_changes(
    history: NodeHistory, mark: ReliabilityMark
) -> list[tuple[int, float, int]]:
    """Return the reliability changes that the chart shows with this mark.

    Each change is its time, the new reliability and its index in the history; changes without
    effect are left out.
    """
    return [
        (change.time, float(change.after), index)
        for index, change in enumerate(history.marks)
        if CAUSES[ReliabilityCause(change.cause)].mark is mark and change.before != change.after
    ]


def _build_legend(causes: Iterable[ReliabilityCause]) -> str:
    return ", ".join(dict.fromkeys(CAUSES[cause].noun for cause in causes))


def _build_mark_texts(history: NodeHistory, snapshot: ApiSnapshot, rules: Rules) -> dict[str, Any]:
    return {
        "labels": [describe_chart_mark(mark) for mark in history.marks],
        "by_incident": {
            index for index, mark in enumerate(history.marks) if mark.incident is not None
        },
        "tick_format": _choose_tick_format(history.first, history.last),
        "now_text": "now" if history.last == snapshot.cursor.time else "",
        "falls": _build_legend(list_decrease_causes(rules)),
        "rises": _build_legend(
            cause for cause, info in CAUSES.items() if info.mark is ReliabilityMark.INCREASE
        ),
        "limit": format_two_digits(rules.exclude_enter),
    }


def _choose_tick_format(first: int, last: int) -> str:
    """Return the format of the chart's time labels: hours, days, or both."""
    if last - first >= _DAYS_ONLY_SECONDS:
        return "%d %b"
    return "%H:%M" if first // _DAY_SECONDS == last // _DAY_SECONDS else "%d %b %H:%M"


def build_score_label(entry: ScoreEntry, rules: Rules) -> ScoreLabel:
    """Build the label of a score's bar, which shows the rank as colour and text."""
    points_text = f"{entry.score} of {rules.q_max} points, {format_time(entry.time)}"
    if rules.legacy is not None:
        # The score comes from two rounds, each with its own rank, so there is no single rank.
        return ScoreLabel(entry.task, "first" if entry.score else "none", points_text)
    if entry.rank is None:
        return ScoreLabel(entry.task, "none", f"No answer: {points_text}")
    label_tone = _TONES[entry.rank - 1] if entry.rank <= len(_TONES) else "later"
    return ScoreLabel(
        entry.task, label_tone, f"{capitalize_first(format_rank(entry.rank))}: {points_text}"
    )


def describe_on_chain_score(node_view: NodeView) -> tuple[str, str]:
    """Return a text with the on-chain score, and a text on whether it is up to date."""
    on_chain = node_view.on_chain
    if on_chain is None or (on_chain.qos is None and on_chain.lane != DO_NOT_SELECT):
        return NO_NUMBER, "never reported"
    shown_value = "not selectable" if on_chain.qos is None else format_two_digits(on_chain.qos)
    return shown_value, "✓ up to date" if on_chain.is_current else "pending next report"


def describe_exclusion(node_view: NodeView) -> str:
    """Describe how far a member is from exclusion, or when its exclusion ends."""
    reliability_text = format_two_digits(node_view.row.reliability)
    exclusion_threshold_text = format_two_digits(node_view.excluded_below)
    if node_view.row.back_at is not None:
        time_left_text = format_duration(node_view.row.back_at - node_view.as_of.time)
        exclusion_end_text = format_time(node_view.row.back_at)
        return (
            f"Reliability is {reliability_text}, below the threshold. Exclusion ends in "
            f"{time_left_text}, "
            f"at {exclusion_end_text}."
        )
    timeout_count = node_view.lift.timeouts
    sentence = (
        f"Reliability is {reliability_text}; under {exclusion_threshold_text} a node is excluded."
    )
    if not timeout_count:
        return sentence
    timeouts_text = capitalize_first(format_count(timeout_count, "timeout"))
    streak_suffix = "" if timeout_count == 1 else " in a row"
    return f"{sentence} {timeouts_text}{streak_suffix} would exclude the node."


def describe_kickout(node_view: NodeView, outlook: KickoutOutlook | None) -> str:
    """Describe how far a member is from a kickout, and when one is likely."""
    margin = _describe_kickout_margin(node_view)
    if outlook is None or not outlook.scores:
        return margin
    forecast_assumption = (
        f"if they go like its last {format_count(outlook.recent_scores, 'score')}"
    )
    return f"{margin} {format_kickout_outlook(outlook)[:-1]}, {forecast_assumption}."


def _describe_kickout_margin(node_view: NodeView) -> str:
    kickout = node_view.kickout
    if kickout.mean is None:
        return (
            f"A kickout needs {format_count(kickout.pool_size, 'score')}, and there is none yet."
        )
    margin_text = f"The mean of its scores is {format_two_digits(kickout.mean)} points"
    scores_left = kickout.pool_size - kickout.scores
    if node_view.row.legacy is not None and not kickout.is_due:
        return (
            f"{margin_text} in this window; from {format_count(kickout.pool_size, 'task')} of a "
            f"window on, a kickout is due under {format_two_digits(kickout.below)}."
        )
    if kickout.is_due:
        return f"{margin_text}, under {format_two_digits(kickout.below)}: a kickout is due."
    if scores_left > 0:
        return (
            f"{margin_text}; a kickout needs a full pool under "
            f"{format_two_digits(kickout.below)}, and {format_count(scores_left, 'score')} "
            f"{'is' if scores_left == 1 else 'are'} still to come."
        )
    zero_score_count = node_view.lift.zeros
    zeros_text = (
        f", and {format_count(zero_score_count, 'score')} of zero"
        f"{'' if zero_score_count == 1 else ' in a row'} would make it due"
        if zero_score_count
        else ""
    )
    return f"{margin_text}; a kickout is due under {format_two_digits(kickout.below)}{zeros_text}."


def describe_marked_timeouts(history: NodeHistory) -> str | None:
    """Return a heading with the number of timeouts that happened during incidents.

    The result is None if there are none.
    """
    marked_count = sum(mark.incident is not None for mark in history.marks)
    return format_marked_timeouts(marked_count) if marked_count else None


def count_marked_scores(history: NodeHistory, entries: Sequence[ScoreEntry]) -> int:
    """Count the scores of tasks that timed out during incidents."""
    unanswered_tasks = {entry.task for entry in entries if entry.elapsed is None}
    marked_tasks = {mark.task for mark in history.marks if mark.incident is not None}
    return len(unanswered_tasks & marked_tasks)


def describe_chart_mark(mark: HistoryMark) -> str:
    """Return the label of a chart mark."""
    cause_text = capitalize_first(mark.cause.replace("_", " "))
    if mark.incident is not None:
        cause_text = f"{cause_text}, probably not its fault"
    if mark.before == mark.after:
        return f"{cause_text}, {format_time(mark.time)}"
    change_text = (
        f"reliability {format_two_digits(mark.before)} to {format_two_digits(mark.after)}"
    )
    return f"{cause_text}, {format_time(mark.time)}: {change_text}"
