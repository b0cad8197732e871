"""Builds the text at the top of a node's page: what its owner can do, and by when."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oracle.domain.reports.node_kicks import EXPELLED_STATES, NEVER_EXPIRES, KickState
from oracle.domain.reports.objections import ObjectionVerdict
from oracle.domain.scoring.kickout_forecast import is_near
from oracle.queries.advice.kickout_outlook import KickoutOutlook
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.records.objection_view import (
    PostedEntry,
    PostedState,
    is_post_open,
)
from oracle.queries.node_sentences import (
    NodeSummary,
    format_first_places,
    format_improvement,
    format_ranks_that_avoid_kickout,
)
from oracle.queries.objection_models import ObjectionEntry, describe_objection_state
from oracle.queries.text.human_numbers import (
    capitalize_first,
    format_count,
    format_duration,
    format_number_in_words,
    format_time,
)

_THIS_REPORTER = "this reporter (the program that serves this page)"
# For each state in which the owner need not do anything, the reason.
_NOTHING_BY_STATE = {
    "slashed": "Nothing can be done here: the network has ended the membership, and decides "
    "whether the node may join again.",
    "quit": "Nothing: the node has left the network, and may join again.",
    "unknown": "Nothing: the node has not joined yet.",
    "paused": "Nothing: a paused node gets no tasks and loses nothing. Resume it when it can "
    "answer.",
}


class OwnerDeadline(NamedTuple):
    """A deadline of a node's owner, or the time of another event, in unix seconds.

    `text` states what the owner can do by then, or what happens from then on. `preposition`
    connects the text with the time. `anchor` is the id of the page's section with more details.
    """

    preposition: str
    time: int
    text: str
    anchor: str


def describe_owner_action(
    summary: NodeSummary, view: NodeView, posted_entry: PostedEntry | None = None
) -> str:
    """Return what the owner must do and by when, or why no action is needed.

    `posted_entry` is an objection to the due kickout that was posted to this reporter and is not
    on the chain yet, or None.
    """
    if summary.is_expelled or view.row.state == "kicked_out":
        return _describe_expulsion(summary, view)
    if summary.node_scores.is_kickout_due:
        return _describe_due_kickout_action(summary, view, posted_entry)
    if summary.kick_at is not None and view.row.qos is not None:
        return (
            "Nothing, as long as the scores stay like this: once the next round shows them, no "
            "account can kick the node out."
        )
    outlook = summary.kickout
    if outlook is not None and outlook.is_near:
        delay_text = "" if not outlook.seconds else f" (about {format_duration(outlook.seconds)})"
        tasks_text = format_count(outlook.scores, "scored task")
        return f"In the next {tasks_text}{delay_text}: {format_ranks_that_avoid_kickout(outlook)}."
    return _describe_safe_state(summary, view)


def _describe_safe_state(summary: NodeSummary, view: NodeView) -> str:
    """Return why a node's owner need not act, and what would improve the node's state."""
    state = view.row.state
    if state == "quit" and view.kickout.due_since is not None:
        return (
            "Object to the kickout, if the node is not at fault: it stays due although the node "
            "has left, and any account may accuse the node."
        )
    if state in _NOTHING_BY_STATE:
        return _NOTHING_BY_STATE[state]
    improvement = format_improvement(summary)
    if state == "excluded":
        return f"Nothing: the exclusion ends by itself. {improvement or ''}".rstrip()
    if not summary.ranks:
        return "Nothing: it counts as an average node until its first task is scored."
    zero_score_count = summary.lift.zeros
    if zero_score_count is not None and is_near(zero_score_count):
        streak_suffix = "" if zero_score_count == 1 else " in a row"
        return (
            "Nothing is due yet, but keep the node answering: "
            f"{format_count(zero_score_count, 'score')} of zero{streak_suffix} would make a "
            "kickout due. "
            f"{improvement or ''}"
        ).rstrip()
    return f"Nothing: no kickout is due or near. {improvement or ''}".rstrip()


def _describe_due_kickout_action(
    summary: NodeSummary, view: NodeView, posted_entry: PostedEntry | None
) -> str:
    """Return what the owner should do about a due kickout of the node."""
    delay = view.objection_delay
    if summary.obstacle is not None:
        acceptance_text = (
            " This reporter has accepted the objection, too."
            if delay is not None and delay.is_accepted
            else ""
        )
        return f"Nothing: the node stays. {capitalize_first(summary.obstacle)}.{acceptance_text}"
    if summary.kick_at is None:
        return _describe_action_before_accusation(summary, view, posted_entry)
    if summary.kick_at <= summary.time:
        return (
            f"At once: {_format_score_recovery(summary)}. Any account may kick the node out now."
        )
    recovery_text = _format_score_recovery(summary, summary.kick_at)
    return (
        f"{_format_deadline('Before', summary.kick_at, summary.time)}: {recovery_text}. From then "
        "on, any account may kick the node out, unless the vetoer (the account that may cancel an "
        "accusation) cancels it."
    )


def _describe_action_before_accusation(
    summary: NodeSummary, view: NodeView, posted_entry: PostedEntry | None
) -> str:
    delay = view.objection_delay
    recovery_text = _format_score_recovery(summary)
    if delay is not None and delay.is_accepted:
        return (
            f"Nothing, as far as {_THIS_REPORTER} decides: it accepted the objection, and does "
            f"not accuse the node. Others {_describe_accusation(summary)}. To prevent that, "
            f"{recovery_text}."
        )
    if delay is not None and delay.until is not None and _is_refuted(view):
        return (
            f"At once: {recovery_text}. The objection was refuted and waits for no answer, but "
            f"{_THIS_REPORTER} does not accuse the node before {format_time(delay.until)}. "
            f"Others {_describe_accusation(summary)}."
        )
    if (delay is not None and delay.objection is not None) or is_post_open(posted_entry):
        return (
            "Wait for the answer to the objection, and keep the node answering: until then, "
            f"{_THIS_REPORTER} does not accuse it. Others {_describe_accusation(summary)}. To "
            f"prevent that, {recovery_text}."
        )
    objection_deadline = view.kickout.object_until
    can_object = objection_deadline is not None and objection_deadline >= summary.time
    if objection_deadline is not None and can_object and _find_relevant_objection(view) is None:
        return (
            f"{_format_deadline('Until', objection_deadline, summary.time)}: object to the "
            f"kickout, if the node is not at fault. In any case {recovery_text}."
        )
    return f"At once: {recovery_text}. Any account {_describe_accusation(summary)}."


def _describe_accusation(summary: NodeSummary) -> str:
    """Return a phrase that states whether others can already accuse the node."""
    if summary.shown_round is None:
        return "can accuse the node once a round on the chain shows the kickout"
    return f"can accuse the node now, because round {summary.shown_round} shows the kickout"


def _format_score_recovery(summary: NodeSummary, deadline: int | None = None) -> str:
    """Return how many first places would end a due kickout, and how long they take.

    `deadline` is in unix seconds; the text states whether enough time is left until then.
    """
    needed_first_places, gap_seconds = summary.lift.first_places_to_clear, summary.score_gap
    if not needed_first_places:
        return "raise the scores, although no number of first places in a row would do in time"
    recovery_text = f"raise the scores, {format_first_places(needed_first_places)} would be enough"
    if gap_seconds:
        needed_seconds = needed_first_places * gap_seconds
        needed_text = format_duration(needed_seconds)
        recovery_text += f", which take about {needed_text} at its rate of scored tasks"
        if deadline is not None and summary.time + needed_seconds > deadline:
            recovery_text += ": more than the time that is left"
    if not summary.ranks or summary.rules.legacy is not None:
        return recovery_text
    first_place_count = summary.ranks.count(1)
    count_text = format_number_in_words(first_place_count) if first_place_count else "none"
    task_count = format_count(len(summary.ranks), "task")
    return f"{recovery_text} (it was first in {count_text} of its last {task_count})"


def _format_deadline(preposition: str, deadline: int, time: int) -> str:
    return f"{preposition} {format_time(deadline)}, in {format_duration(deadline - time)}"


def list_owner_deadlines(
    summary: NodeSummary,
    view: NodeView,
    posted_entry: PostedEntry | None,
    rules_times: Iterable[int],
) -> list[OwnerDeadline]:
    """Return the steps of a due kickout, followed by the owner's deadlines, earliest first.

    `posted_entry` is an objection to the due kickout that was posted to this reporter and is not
    on the chain yet, or None. `rules_times` are the times at which announced rules can take effect
    at the earliest.
    """
    deadlines = (
        deadline
        for deadline in _iterate_owner_deadlines(summary, view, posted_entry, rules_times)
        if deadline.time >= summary.time
    )
    return [
        *_iterate_kickout_steps(summary, view, posted_entry),
        *sorted(deadlines, key=lambda deadline: deadline.time),
    ]


def _iterate_kickout_steps(
    summary: NodeSummary, view: NodeView, posted_entry: PostedEntry | None
) -> Iterator[OwnerDeadline]:
    due_since = view.kickout.due_since
    if due_since is None or not summary.node_scores.is_kickout_due or summary.is_expelled:
        return
    yield OwnerDeadline("Since", due_since, _describe_due_kickout(summary, view), "distances")
    objection = _find_relevant_objection(view)
    if objection is not None:
        step_text = f"objection {objection.seq}, {describe_objection_state(objection)}"
        yield OwnerDeadline("At", objection.time, step_text, "objections")
    elif posted_entry is not None:
        step_text = "an objection was posted to this reporter, which brings it on the chain"
        if posted_entry.state is PostedState.ENDED:
            step_text = (
                f"an objection was posted, and is not on the chain: {posted_entry.ended_reason}"
            )
        yield OwnerDeadline("At", posted_entry.received_at, step_text, "objections")


def _describe_due_kickout(summary: NodeSummary, view: NodeView) -> str:
    """Describe who may act on a due kickout, and whether this reporter holds back."""
    if view.kickout.obstacle is not None:
        return "a kickout is due, but no account can accuse the node of it"
    if summary.kick_at is not None:
        return "a kickout is due, and the node is accused of it on the chain"
    accusation = _describe_accusation(summary)
    if view.objection_delay is None:
        return f"a kickout is due: any account {accusation}"
    return f"a kickout is due: this reporter does not accuse the node yet, but others {accusation}"


def _find_relevant_objection(view: NodeView) -> ObjectionEntry | None:
    """Return the objection that counts against the due kickout, or else the first objection."""
    objections = [entry for entry in view.objections if entry.due_since == view.kickout.due_since]
    return min(objections, key=lambda entry: (not entry.is_counted, entry.seq), default=None)


def _describe_wait(view: NodeView) -> str:
    if _is_refuted(view):
        return "this reporter does not accuse the node before the time for objections ends"
    return "this reporter waits for the answer of its operator to the objection"


def _is_refuted(view: NodeView) -> bool:
    """Return whether the objection is refuted and unanswered, so that it delays nothing."""
    objection = _find_relevant_objection(view)
    return (
        objection is not None
        and objection.answer is None
        and objection.verdict == ObjectionVerdict.REFUTED
    )


def _iterate_owner_deadlines(
    summary: NodeSummary,
    view: NodeView,
    posted_entry: PostedEntry | None,
    rules_times: Iterable[int],
) -> Iterator[OwnerDeadline]:
    back_at = summary.node_scores.back_at
    if back_at is not None:
        wait_text = "the exclusion ends by itself"
        yield OwnerDeadline("At", back_at, wait_text, "distances")
    objection_deadline, delay = view.kickout.object_until, view.objection_delay
    if (
        objection_deadline is not None
        and _find_relevant_objection(view) is None
        and not is_post_open(posted_entry)
    ):
        yield OwnerDeadline(
            "Until", objection_deadline, _describe_how_to_object(summary), "objections"
        )
    if delay is not None and delay.objection is not None and delay.until is not None:
        wait_text = _describe_wait(view)
        yield OwnerDeadline("Until", delay.until, wait_text, "objections")
    can_be_kicked = summary.node_scores.is_kickout_due and summary.obstacle is None
    if summary.kick_at is not None and can_be_kicked:
        wait_text = (
            "any account may kick the node out, unless its scores rise, or the vetoer cancels"
        )
        yield OwnerDeadline("From", summary.kick_at, wait_text, "distances")
    seconds_to_kickout = _find_seconds_to_kickout(summary.kickout)
    if seconds_to_kickout is not None:
        wait_text = "a kickout becomes due at this rate"
        yield OwnerDeadline("About", summary.time + seconds_to_kickout, wait_text, "distances")
    expulsion_end = _find_expulsion_end(view)
    if expulsion_end is not None and expulsion_end != NEVER_EXPIRES:
        yield OwnerDeadline("At", expulsion_end, "the expulsion ends", "membership")
    for rules_time in rules_times:
        yield OwnerDeadline("From", rules_time, "announced rules may take effect", "other-rules")


def _describe_how_to_object(summary: NodeSummary) -> str:
    text = "object to the kickout, if the node is not at fault"
    if summary.kick_at is None:
        return text
    return f"{text}; this delays nothing once the node is accused, but the vetoer can read it"


def _find_seconds_to_kickout(outlook: KickoutOutlook | None) -> int | None:
    return outlook.seconds if outlook is not None and outlook.scores else None


def _find_expulsion_end(view: NodeView) -> int | None:
    """Return the unix time at which a node's expulsion ends, or None if it was not expelled."""
    on_chain_kickout = view.kickout.on_chain
    return (
        None
        if on_chain_kickout is None or on_chain_kickout.state not in EXPELLED_STATES
        else on_chain_kickout.expelled_until
    )


def _describe_expulsion(summary: NodeSummary, view: NodeView) -> str:
    """Return when and how a node can join again after a past or coming expulsion."""
    on_chain_kickout = view.kickout.on_chain
    expulsion_end = _find_expulsion_end(view)
    if on_chain_kickout is not None and on_chain_kickout.state == KickState.READMITTED:
        return (
            "Join the network again whenever the node can answer: the admin of the oracle's "
            "contract has readmitted it."
        )
    if expulsion_end is None:
        return (
            "Ask the operator of the network whether the node may join again: the oracle's "
            "contract has not expelled it."
        )
    if expulsion_end == NEVER_EXPIRES:
        return (
            "Contact the operator, with a reason why the kickout was wrong: the expulsion ends "
            "only if the admin of the oracle's contract readmits the node. No deadline is set."
        )
    if expulsion_end <= summary.time:
        return (
            f"Join the network again whenever the node can answer: the expulsion ended at "
            f"{format_time(expulsion_end)}."
        )
    return (
        f"{_format_deadline('Wait until', expulsion_end, summary.time)}: then the expulsion "
        "ends, and the node may join again. Earlier only if the admin of the oracle's contract "
        "readmits it."
    )
