"""If a network frees a node when it answers,
it may start another task before the first one ends.
"""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.events import network_events
from oracle.domain.scoring.node_scores import get_status
from oracle.domain.state import Membership
from tests.support.histories import History, fold_history, make_node_address, make_task_key


def build_answered_task(
    *, frees: bool | None, kind: type = network_events.TaskSubmitted
) -> History:
    """Return a history in which a member got task 1 and answered it."""
    history = History().joins("A").starts("1", "A").after(5)
    return history.emits(kind, task=make_task_key("1"), node=make_node_address("A"), frees=frees)


def status(history: History) -> str:
    fold, _ = fold_history(history)
    return get_status(fold.ledger.nodes[make_node_address("A")])


@pytest.mark.parametrize("kind", [network_events.TaskSubmitted, network_events.TaskErrorReported])
def test_submission_frees_the_node_only_if_the_event_says_so(kind: type):
    assert status(build_answered_task(frees=True, kind=kind)) == "available"
    assert status(build_answered_task(frees=None, kind=kind)) == "busy"


def test_end_of_a_task_frees_its_node_only_once():
    history = build_answered_task(frees=True).starts("2", "A")
    assert status(history) == "busy"
    assert status(history.succeeds("1", by="A")) == "busy"
    assert status(history.times_out("2")) == "available"


def test_error_report_does_not_free_the_node_a_second_time():
    history = build_answered_task(frees=True).starts("2", "A")
    history.emits(
        network_events.TaskErrorReported,
        task=make_task_key("1"),
        node=make_node_address("A"),
        frees=True,
    )
    assert status(history) == "busy"


def test_pending_quit_takes_effect_when_node_becomes_free():
    history = (
        History()
        .joins("A")
        .starts("1", "A")
        .emits(network_events.NodeQuitAsked, node=make_node_address("A"))
    )
    history.emits(
        network_events.TaskSubmitted,
        task=make_task_key("1"),
        node=make_node_address("A"),
        frees=True,
    )
    fold, _ = fold_history(history)
    assert fold.ledger.nodes[make_node_address("A")].membership is Membership.QUIT


@given(st.lists(st.tuples(st.sampled_from("123"), st.sampled_from("sfe"), st.booleans())))
def test_running_count_equals_the_number_of_unfinished_tasks(steps):
    """Tasks are started, answered (freeing the node or not)
    and ended in any order, legal or not.
    """
    history = History().joins("A")
    for name, what, frees in steps:
        history.after(1)
        if what == "s":
            history.starts(name, "A")
        elif what == "f":
            history.emits(
                network_events.TaskSubmitted,
                task=make_task_key(name),
                node=make_node_address("A"),
                frees=frees,
            )
        else:
            history.succeeds(name, by="A")
    fold, _ = fold_history(history)
    tasks = fold.ledger.tasks.values()
    runs = [
        ledger_task
        for ledger_task in tasks
        if ledger_task.node and ledger_task.ending is None and not ledger_task.freed
    ]
    assert fold.ledger.nodes[make_node_address("A")].running == len(runs)
