"""Labels and short texts of a node's page: scores, on-chain state, margins to thresholds."""

from typing import NamedTuple

from oracle.daemon.web.pages.page_frame import NO_NUMBER, format_two_digits
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.reports.lanes import DO_NOT_SELECT
from oracle.domain.scoring.rules import Rules
from oracle.queries.api.node_history import HistoryMark
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.records.node_past import PastEvent
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_duration,
    format_rank,
    format_time,
)

_TONES = ("first", "second")
_SENTENCE_BY_CHANGE = {
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
    "kickout_proposed": "Kickout proposed on chain.",
    "kickout_executed": "Kicked out.",
}


class ScoreLabel(NamedTuple):
    """One task score: its task, its colour and its text."""

    task: str
    tone: str
    words: str


def describe_score(entry: ScoreEntry, rules: Rules) -> ScoreLabel:
    """Return the label of a score's bar; both its colour and its text show the rank."""
    points = f"{entry.score} of {rules.q_max} points, {format_time(entry.time)}"
    if rules.legacy is not None:
        # Two rounds made up the score, each with its own rank.
        return ScoreLabel(entry.task, "first" if entry.score else "none", points)
    if entry.rank is None:
        return ScoreLabel(entry.task, "none", f"No answer: {points}")
    tone = _TONES[entry.rank - 1] if entry.rank <= len(_TONES) else "later"
    return ScoreLabel(entry.task, tone, f"{capitalize_first(format_rank(entry.rank))}: {points}")


def describe_on_chain_score(answer: NodeView) -> tuple[str, str]:
    """Return the on-chain score, and how it compares with the computed score."""
    on_chain = answer.on_chain
    if on_chain is None or (on_chain.qos is None and on_chain.lane != DO_NOT_SELECT):
        return NO_NUMBER, "never reported"
    shown_value = "not selectable" if on_chain.qos is None else format_two_digits(on_chain.qos)
    return shown_value, "✓ up to date" if on_chain.is_current else "pending next report"


def describe_exclusion(answer: NodeView) -> str:
    """Return how far a member is from exclusion, or how long it is excluded."""
    reliability, threshold = (
        format_two_digits(answer.row.reliability),
        format_two_digits(answer.excluded_below),
    )
    if answer.row.back_at is not None:
        time_left = format_duration(answer.row.back_at - answer.as_of.time)
        until = format_time(answer.row.back_at)
        return (
            f"Reliability is {reliability}, below the threshold. Exclusion ends in {time_left}, "
            f"at {until}."
        )
    steps = answer.lift.timeouts
    words = f"Reliability is {reliability}; under {threshold} a node is excluded."
    if not steps:
        return words
    timeouts = capitalize_first(format_count(steps, "timeout"))
    return f"{words} {timeouts} in a row would exclude the node."


def describe_kickout(answer: NodeView) -> str:
    """Return how far a member is from a kickout."""
    kickout = answer.kickout
    if kickout.mean is None:
        return (
            f"A kickout needs {format_count(kickout.pool_size, 'score')}, and there is none yet."
        )
    words = f"The mean of its scores is {format_two_digits(kickout.mean)} points"
    scores_left = kickout.pool_size - kickout.scores
    if answer.row.legacy is not None and not kickout.is_due:
        return (
            f"{words} in this window; from {format_count(kickout.pool_size, 'task')} of a window "
            f"on, a kickout is due under {format_two_digits(kickout.below)}."
        )
    if kickout.is_due:
        return f"{words}, under {format_two_digits(kickout.below)}: a kickout is due."
    if scores_left > 0:
        return (
            f"{words}; a kickout needs a full pool under {format_two_digits(kickout.below)}, and "
            f"{format_count(scores_left, 'score')} {'is' if scores_left == 1 else 'are'} still to "
            "come."
        )
    zero_scores = answer.lift.zeros
    zeros_text = (
        f"; {format_count(zero_scores, 'score')} of zero in a row would do it"
        if zero_scores
        else ""
    )
    return f"{words}; under {format_two_digits(kickout.below)} a kickout is due{zeros_text}."


def describe_mark(mark: HistoryMark) -> str:
    """Return the label of a mark of the chart."""
    cause = capitalize_first(mark.cause.replace("_", " "))
    if mark.before == mark.after:
        return f"{cause}, {format_time(mark.time)}"
    change_text = (
        f"reliability {format_two_digits(mark.before)} to {format_two_digits(mark.after)}"
    )
    return f"{cause}, {format_time(mark.time)}: {change_text}"


def describe_membership_change(change: PastEvent) -> str:
    """Return a sentence about a change of a node's membership."""
    return _SENTENCE_BY_CHANGE[change.what]
