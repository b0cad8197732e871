"""What the owner of a node can do, and by when, at the top of the node's page."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oracle.domain.reports.expulsions import NEVER_EXPIRES
from oracle.queries.advice.kickout_outlook import KickoutOutlook
from oracle.queries.api.node_view import NodeView
from oracle.queries.api.records.objection_view import PostedEntry, PostedState
from oracle.queries.node_sentences import NodeSummary, format_improvement
from oracle.queries.objection_models import ObjectionEntry, describe_objection_state


class OwnerDeadline(NamedTuple):
    """A block time in unix seconds, and what an owner can do before, or what happens from then on.

    `preposition` connects the text with the time. `anchor` is the card of the page that has more.
    """

    preposition: str
    time: int
    text: str
    anchor: str


def describe_owner_action(summary: NodeSummary, view: NodeView) -> str:
    """Return what would improve the node, or why nothing has to or can be done; may be empty."""
    improvement = format_improvement(summary)
    if improvement is not None:
        return improvement
    if view.row.state == "kicked_out":
        return _describe_expulsion(view)
    if summary.node_scores.is_kickout_due:
        return "No number of first places in a row would lift it above the threshold in time."
    return "" if view.row.qos is None else "Nothing has to be done."


def list_owner_deadlines(
    summary: NodeSummary,
    view: NodeView,
    posted: PostedEntry | None,
    rules_times: Iterable[int],
) -> list[OwnerDeadline]:
    """Return the steps of a due kickout, then the deadlines that are not over, earliest first.

    `posted` is an objection to the due kickout that was posted to this reporter and is not on the
    chain. `rules_times` are the earliest times of announced rules.
    """
    deadlines = (
        deadline
        for deadline in _iterate_deadlines(summary, view, posted, rules_times)
        if deadline.time >= summary.time
    )
    return [
        *_iterate_kickout_steps(summary, view, posted),
        *sorted(deadlines, key=lambda deadline: deadline.time),
    ]


def _iterate_kickout_steps(
    summary: NodeSummary, view: NodeView, posted: PostedEntry | None
) -> Iterator[OwnerDeadline]:
    due_since = view.kickout.due_since
    if due_since is None or not summary.node_scores.is_kickout_due:
        return
    yield OwnerDeadline("Since", due_since, _describe_due_kickout(summary, view), "distances")
    objection = _find_objection(view)
    if objection is not None:
        text = f"objection {objection.seq}, {describe_objection_state(objection)}"
        yield OwnerDeadline("At", objection.time, text, "objections")
    elif posted is not None:
        text = "an objection was posted to this reporter, which brings it on the chain"
        if posted.state is PostedState.ENDED:
            text = f"an objection was posted, and is not on the chain: {posted.ended_reason}"
        yield OwnerDeadline("At", posted.received_at, text, "objections")


def _describe_due_kickout(summary: NodeSummary, view: NodeView) -> str:
    """Return who may act on a due kickout, and what keeps this reporter from it."""
    if summary.kick_at is not None:
        return "a kickout is due, and the node is accused of it on the chain"
    if view.kickout.obstacle is not None:
        return f"a kickout is due, but no account can accuse the node: {view.kickout.obstacle}"
    accusation = (
        "accuse the node once a round on the chain shows it, unless its scores rise before"
    )
    if view.objection_delay is None:
        return f"a kickout is due: any account may {accusation}"
    return (
        "a kickout is due: this reporter does not accuse the node yet, but others may "
        f"{accusation}"
    )


def _find_objection(view: NodeView) -> ObjectionEntry | None:
    """Return the objection to the due kickout that counts, or else the first of them."""
    objections = [entry for entry in view.objections if entry.due_since == view.kickout.due_since]
    return min(objections, key=lambda entry: (not entry.is_counted, entry.seq), default=None)


def _iterate_deadlines(
    summary: NodeSummary, view: NodeView, posted: PostedEntry | None, rules_times: Iterable[int]
) -> Iterator[OwnerDeadline]:
    back_at = summary.node_scores.back_at
    if back_at is not None:
        text = "the exclusion ends by itself"
        yield OwnerDeadline("At", back_at, text, "distances")
    object_until, delay = view.kickout.object_until, view.objection_delay
    is_under_way = posted is not None and posted.state is not PostedState.ENDED
    if object_until is not None and _find_objection(view) is None and not is_under_way:
        text = "object to the kickout, if the node is not at fault"
        yield OwnerDeadline("Until", object_until, text, "objections")
    if delay is not None and delay.objection is not None and delay.until is not None:
        text = "this reporter waits for the answer of its operator to the objection"
        yield OwnerDeadline("Until", delay.until, text, "objections")
    if summary.kick_at is not None and summary.node_scores.is_kickout_due:
        text = "any account may kick the node out, unless its scores rise, or the vetoer cancels"
        yield OwnerDeadline("From", summary.kick_at, text, "distances")
    due_in = _find_seconds_to_kickout(summary.kickout)
    if due_in is not None:
        text = "a kickout becomes due at this rate"
        yield OwnerDeadline("About", summary.time + due_in, text, "distances")
    expelled_until = _find_expulsion_end(view)
    if expelled_until is not None and expelled_until != NEVER_EXPIRES:
        yield OwnerDeadline("At", expelled_until, "the expulsion ends", "membership")
    for rules_time in rules_times:
        yield OwnerDeadline("From", rules_time, "announced rules may take effect", "other-rules")


def _find_seconds_to_kickout(outlook: KickoutOutlook | None) -> int | None:
    return outlook.seconds if outlook is not None and outlook.scores else None


def _find_expulsion_end(view: NodeView) -> int | None:
    """Return when the expulsion of a node that was kicked out ends, or None if there is none."""
    kick = view.kickout.on_chain
    return None if kick is None or view.row.state != "kicked_out" else kick.expelled_until


def _describe_expulsion(view: NodeView) -> str:
    expelled_until = _find_expulsion_end(view)
    if expelled_until is None:
        return "The network decides whether the node may join again."
    if expelled_until == NEVER_EXPIRES:
        return "The expulsion ends only if the admin of the oracle's contract readmits the node."
    return "Nothing can be done before the expulsion ends."
