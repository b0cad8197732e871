"""The times that the owner of a node has to know, on the node's page."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from oracle.queries.advice.kickout_outlook import KickoutOutlook
from oracle.queries.node_sentences import NodeSummary


class OwnerDeadline(NamedTuple):
    """A block time in unix seconds, and what an owner can do before, or what happens from then on.

    `preposition` connects the text with the time. `anchor` is the card of the page that has more.
    """

    preposition: str
    time: int
    text: str
    anchor: str


def list_owner_deadlines(
    summary: NodeSummary,
    due_since: int | None,
    object_until: int | None,
    rules_times: Iterable[int],
) -> list[OwnerDeadline]:
    """Return the deadlines of a node that are not over, the earliest first.

    A member's kickout that is due since `due_since`, and for which the node is not accused yet,
    comes before all of them. `object_until` is the last time to object to it, and `rules_times`
    are the earliest times of announced rules.
    """
    deadlines = sorted(
        (
            deadline
            for deadline in _iterate_deadlines(summary, object_until, rules_times)
            if deadline.time >= summary.time
        ),
        key=lambda deadline: deadline.time,
    )
    is_due = summary.node_scores.is_kickout_due
    if due_since is None or not is_due or summary.kick_at is not None:
        return deadlines
    text = (
        "a kickout is due: once a round on the chain shows it, and unless it is held, any account "
        "may accuse the node, and kick it out after the time for a veto, unless its scores rise "
        "before"
    )
    return [OwnerDeadline("Since", due_since, text, "distances"), *deadlines]


def _iterate_deadlines(
    summary: NodeSummary, object_until: int | None, rules_times: Iterable[int]
) -> Iterator[OwnerDeadline]:
    back_at = summary.node_scores.back_at
    if back_at is not None:
        text = "the exclusion ends by itself"
        yield OwnerDeadline("At", back_at, text, "distances")
    if object_until is not None:
        text = "object to the kickout, if the node is not at fault"
        yield OwnerDeadline("Until", object_until, text, "objections")
    if summary.kick_at is not None:
        text = "any account may kick the node out, unless its scores rise before"
        yield OwnerDeadline("From", summary.kick_at, text, "distances")
    due_in = _find_seconds_to_kickout(summary.kickout)
    if due_in is not None:
        text = "a kickout becomes due at this rate"
        yield OwnerDeadline("About", summary.time + due_in, text, "distances")
    for rules_time in rules_times:
        yield OwnerDeadline("From", rules_time, "announced rules may take effect", "other-rules")


def _find_seconds_to_kickout(outlook: KickoutOutlook | None) -> int | None:
    return outlook.seconds if outlook is not None and outlook.scores else None
