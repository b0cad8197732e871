"""The texts on a node's page beside its sentences: scores, on-chain state, distances."""

from typing import NamedTuple

from oracle.daemon.web.pages.page_frame import NOTHING, two_digits
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.reports.lanes import DO_NOT_SELECT
from oracle.domain.scoring.rules import Rules
from oracle.queries.api.node_history import HistoryMark
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.records.node_past import PastEvent
from oracle.queries.text.human_numbers import capital, counted, moment, rank_text, span

_TONES = ("first", "second")
_TURNS = {
    "joined": "It joined.",
    "pause_asked": "It asked to pause, and had a task to end first.",
    "paused": "It paused.",
    "resumed": "It resumed.",
    "quit_asked": "It asked to quit, and had a task to end first.",
    "quit": "It quit.",
    "slashed": "It was slashed.",
    "kicked_out": "The network kicked it out.",
    "kickout_due": "Its kickout was due.",
    "kickout_over": "Its kickout was no longer due.",
    "kickout_proposed": "Its kickout was proposed on chain.",
    "kickout_executed": "It was kicked out.",
}


class ScoreWords(NamedTuple):
    """One task score: its task, its colour and its text."""

    task: str
    tone: str
    words: str


def score_words(entry: ScoreEntry, rules: Rules) -> ScoreWords:
    """Return the label of a score's bar; both its colour and its text show the rank."""
    points = f"{entry.score} of {rules.q_max} points, {moment(entry.time)}"
    if rules.legacy is not None:
        # Two rounds made up the score, each with its own rank.
        return ScoreWords(entry.task, "first" if entry.score else "none", points)
    if entry.rank is None:
        return ScoreWords(entry.task, "none", f"No answer: {points}")
    tone = _TONES[entry.rank - 1] if entry.rank <= len(_TONES) else "later"
    return ScoreWords(entry.task, tone, f"{capital(rank_text(entry.rank))}: {points}")


def on_chain_words(answer: NodeView) -> tuple[str, str]:
    """Return the on-chain score, and how it compares with the computed score."""
    found = answer.on_chain
    if found is None or (found.qos is None and found.lane != DO_NOT_SELECT):
        return NOTHING, "never reported"
    held = "not selectable" if found.qos is None else two_digits(found.qos)
    return held, "✓ the same" if found.is_current else "waits for the next report"


def exclusion_words(answer: NodeView) -> str:
    """Return how far a member is from exclusion, or how long it is excluded."""
    trust, line = two_digits(answer.row.reliability), two_digits(answer.excluded_below)
    if answer.row.back_at is not None:
        left = span(answer.row.back_at - answer.as_of.time)
        until = moment(answer.row.back_at)
        return f"Reliability is {trust}, under the line. It is back in {left}, at {until}."
    steps = answer.lift.timeouts
    words = f"Reliability is {trust}; under {line} a node is excluded."
    if not steps:
        return words
    return f"{words} {capital(counted(steps, 'timeout'))} at once would do it."


def kickout_words(answer: NodeView) -> str:
    """Return how far a member is from a kickout."""
    found = answer.kickout
    if found.mean is None:
        return f"A kickout needs {counted(found.pool_size, 'score')}, and there is none yet."
    words = f"The mean of its scores is {two_digits(found.mean)} points"
    left = found.pool_size - found.scores
    if answer.row.legacy is not None and not found.is_due:
        return (
            f"{words} in this window; from {counted(found.pool_size, 'task')} of a window on, a "
            f"kickout is due under {two_digits(found.below)}."
        )
    if found.is_due:
        return f"{words}, under {two_digits(found.below)}: a kickout is due."
    if left > 0:
        return (
            f"{words}; a kickout needs a full pool under {two_digits(found.below)}, and "
            f"{counted(left, 'score')} {'is' if left == 1 else 'are'} still to come."
        )
    zeros = answer.lift.zeros
    tail = f"; {counted(zeros, 'score')} of zero in a row would do it" if zeros else ""
    return f"{words}; under {two_digits(found.below)} a kickout is due{tail}."


def mark_label(mark: HistoryMark) -> str:
    """Return the label of a mark of the chart."""
    cause = capital(mark.cause.replace("_", " "))
    if mark.before == mark.after:
        return f"{cause}, {moment(mark.time)}"
    course = f"reliability {two_digits(mark.before)} to {two_digits(mark.after)}"
    return f"{cause}, {moment(mark.time)}: {course}"


def turn_words(turn: PastEvent) -> str:
    """Return a sentence about a change of a node's membership."""
    return _TURNS[turn.what]
