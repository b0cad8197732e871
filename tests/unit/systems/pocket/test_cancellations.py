"""For a cancellation, Pocket blames the same nodes as the fold, and frees all others."""

from collections.abc import Callable
from typing import Any

import pytest

from oracle.domain.events.network_events import TaskCancelled
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.systems.pocket.pocket_policy import TaskTracker
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from tests.support.histories import History, fold_history, make_node_address, make_task_key


def three(commits: str, discloses: str, errors: str = "", accepted: str = "") -> History:
    """Return a history; `accepted` are the nodes that were paid before the
    others were cancelled.
    """
    history = History().joins("A", "B", "C")
    for place, name in enumerate("ABC"):
        history.starts("1", name, place=place)
    for name in errors:
        history.after(1).reports_error("1", name)
    for name in commits:
        history.after(1).commits("1", name)
    for name in discloses:
        history.after(1).discloses("1", name)
    if accepted:
        history.validates("1").succeeds("1", by=accepted)
    history.after(900).emits(TaskCancelled, task=make_task_key("1"))
    for name in "ABC":
        if name != accepted:
            history.emits(TaskCancelled, task=make_task_key("1"), node=make_node_address(name))
    return history


def outcomes(history: History) -> list[RelayOutcome]:
    attribution = TaskTracker()
    task_outcomes = []
    deeds: dict[str, Callable[[Any], object]] = {
        "TaskStarted": attribution.record_start,
        "ResultCommitted": attribution.record_answer,
        "TaskErrorReported": attribution.record_answer,
        "ResultDisclosed": attribution.record_disclosure,
        "TaskValidated": attribution.record_acceptance,
        "TaskSucceeded": lambda event: task_outcomes.extend(attribution.record_ending(event)),
        "TaskCancelled": lambda event: task_outcomes.extend(attribution.record_ending(event)),
    }
    for event in history.events:
        deeds.get(type(event).__name__, lambda _: None)(event)
    return task_outcomes


@pytest.mark.parametrize(
    ("commits", "discloses", "errors", "accepted"),
    [
        ("", "", "", ""),
        ("AC", "", "", ""),
        ("ABC", "B", "", ""),
        ("ABC", "CAB", "", ""),
        ("ABC", "BA", "", "A"),
        ("A", "", "B", ""),
        ("AC", "C", "B", ""),
    ],
)
def test_nodes_blamed_for_a_cancellation_match_the_fold(
    commits: str, discloses: str, errors: str, accepted: str
):
    history = three(commits, discloses, errors, accepted)
    _, changes = fold_history(history)
    timed_out = {
        change.node for change in changes.reliability if change.cause is ReliabilityCause.TIMED_OUT
    }
    task_outcomes = outcomes(history)
    assert changes.anomalies == []
    assert len(task_outcomes) == 3
    assert {
        outcome.node for outcome in task_outcomes if outcome.kind is OutcomeKind.TIMEOUT
    } == timed_out
