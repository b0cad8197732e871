"""A pause or quit that a node requests while it runs a task takes effect
at the end of the task.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.scoring.node_scores import get_status
from oracle.domain.state import Node, PendingLeave
from tests.support.histories import History, fold_history, fold_node, make_node_address


def busy() -> History:
    return History().joins("A").starts("1", "A").after(5)


def in_one_transaction(history: History, last: int) -> list[DomainEvent]:
    """Return the events, of which the last ones are in one transaction."""
    events = history.events
    shared_tx = events[-last].at.tx
    return [*events[:-last], *(replace(e, at=e.at._replace(tx=shared_tx)) for e in events[-last:])]


def after(events: list[DomainEvent]) -> tuple[Node, list[str]]:
    """Return the node A, and the rules that were broken."""
    fold, changes = fold_history(events)
    return fold.ledger.nodes[make_node_address("A")], [
        anomaly.rule for anomaly in changes.anomalies
    ]


@pytest.mark.parametrize(
    ("status", "history"),
    [
        ("paused", lambda: History().joins("A").asks_to_pause("A")),
        ("quit", lambda: History().joins("A").asks_to_quit("A")),
        ("quit", lambda: History().joins("A").asks_to_pause("A").asks_to_quit("A")),
        ("busy", lambda: busy().asks_to_pause("A")),
        ("busy", lambda: busy().asks_to_quit("A")),
        ("paused", lambda: busy().asks_to_pause("A").times_out("1")),
        ("quit", lambda: busy().asks_to_quit("A").aborts("1")),
        ("quit", lambda: busy().asks_to_pause("A").asks_to_quit("A").succeeds("1")),
        ("available", lambda: busy().asks_to_pause("A").resumes("A").succeeds("1")),
        # Of two tasks that end in one transaction, the last end counts.
        ("busy", lambda: busy().asks_to_pause("A").starts("2", "A").succeeds("1")),
        ("paused", lambda: busy().asks_to_pause("A").starts("2", "A").succeeds("1").aborts("2")),
        ("available", lambda: busy().asks_to_quit("A").joins("A").succeeds("1")),
    ],
)
def test_pending_request_takes_effect_when_the_task_ends(
    status: str, history: Callable[[], History]
):
    final_node, broken = after(history().events)
    assert (get_status(final_node), broken) == (status, [])


@pytest.mark.parametrize("asks", [History.asks_to_pause, History.asks_to_quit])
def test_request_stays_pending_until_the_task_ends(asks: Callable[[History, str], History]):
    waiting = fold_node(asks(busy(), "A"), "A")
    done = fold_node(asks(busy(), "A").succeeds("1"), "A")

    assert waiting.pending in set(PendingLeave)
    assert done.pending is None


@pytest.mark.parametrize(
    ("status", "end"), [("kicked_out", History.is_kicked_out), ("slashed", History.is_slashed)]
)
def test_kickout_or_slash_at_task_end_overrides_a_pending_quit(
    status: str, end: Callable[[History, str], History]
):
    history = end(busy().asks_to_quit("A").after(5).is_invalidated("1"), "A")

    final_node, broken = after(in_one_transaction(history, 2))

    assert (get_status(final_node), broken) == (status, [])


def test_kickout_before_task_end_overrides_a_pending_quit():
    history = busy().asks_to_quit("A").after(5).is_kicked_out("A").succeeds("1")

    final_node, broken = after(in_one_transaction(history, 2))

    assert (get_status(final_node), broken, final_node.pending) == ("kicked_out", [], None)


def test_node_that_quit_earlier_cannot_be_kicked_out():
    final_node, broken = after(busy().asks_to_quit("A").succeeds("1").is_kicked_out("A").events)

    assert (get_status(final_node), broken) == ("quit", ["not_a_member"])


def test_node_slashed_right_after_rejoining_cannot_be_kicked_out():
    history = busy().asks_to_quit("A").after(5).succeeds("1").joins("A")
    history.is_slashed("A").is_kicked_out("A")

    final_node, broken = after(in_one_transaction(history, 4))

    assert (get_status(final_node), broken) == ("slashed", ["not_a_member"])


def test_kickout_stays_due_after_a_pending_quit_takes_effect():
    history = History().joins("A").scores("A", *50 * [0]).starts("x", "A").asks_to_quit("A")
    history.after(3).succeeds("x")

    fold, changes = fold_history(history.events)

    quit_node = fold.ledger.nodes[make_node_address("A")]
    (interval,) = changes.kickouts
    assert (get_status(quit_node), quit_node.kickout_due_since) == ("quit", interval.opened_at)
