"""Exactly the illegal events are anomalies, and they change nothing.

See docs/reference/events-and-jsonl.md#what-is-legal.
"""

import pytest

from oracle.domain.events.network_events import LastStatus
from oracle.domain.fold.preconditions import Violation
from tests.support.histories import (
    NODE_ONLY_KINDS,
    History,
    fold_history,
    make_node_address,
    make_task_key,
)


def build_created_task():
    return History().joins("A", "B").creates("1")


def build_started_task():
    return build_created_task().starts("1", "A").after(5)


def build_submitted_task():
    return build_started_task().submits("1")


def build_ended_task():
    return build_submitted_task().succeeds("1")


def rounds():
    history = build_created_task()
    for place, name in enumerate("ABC"):
        history.starts("1", name, place=place)
    return history.after(5)


ILLEGAL = [
    *(
        ("not_a_member", lambda kind=kind: History().has_event(kind, "A"))
        for kind in NODE_ONLY_KINDS
    ),
    *(
        ("not_a_member", lambda kind=kind: History().joins("A").quits("A").has_event(kind, "A"))
        for kind in NODE_ONLY_KINDS
    ),
    ("joined_while_member", lambda: History().joins("A").joins("A")),
    # Joining again does not remove a penalty.
    ("joined_while_member", lambda: build_started_task().times_out("1").joins("A")),
    ("not_a_member", lambda: History().joins("A").is_slashed("A").is_kicked_out("A")),
    ("not_a_member", lambda: History().joins("A").pauses("A").quits("A").resumes("A")),
    ("not_a_member", lambda: History().starts("1", "A").quits("A")),
    ("paused_twice", lambda: History().joins("A").pauses("A").pauses("A")),
    ("not_paused", lambda: History().joins("A").resumes("A")),
    ("created_twice", lambda: build_created_task().creates("1", fee=5)),
    ("queued_after_start", lambda: build_started_task().queues("1")),
    ("queued_after_start", lambda: rounds().queues("1")),
    ("started_twice", lambda: build_started_task().starts("1", "A")),
    ("started_twice", lambda: build_started_task().starts("1", "B")),
    ("started_twice", lambda: build_started_task().starts("1", "B", place=1)),
    ("not_started", lambda: build_created_task().submits("1", "A")),
    ("not_started", lambda: History().submits("1", "A")),
    ("not_started", lambda: History().reports_error("1", "A")),
    ("node_does_not_run_it", lambda: build_started_task().submits("1", "B")),
    ("node_does_not_run_it", lambda: build_started_task().reports_error("1", "B")),
    ("result_twice", lambda: build_submitted_task().submits("1")),
    ("result_twice", lambda: build_submitted_task().reports_error("1").reports_error("1")),
    ("result_twice", lambda: build_submitted_task().discloses("1", "A").reports_error("1")),
    ("result_twice", lambda: build_submitted_task().discloses("1", "A").discloses("1", "A")),
    ("result_twice", lambda: build_submitted_task().discloses("1", "A").submits("1")),
    ("result_twice", lambda: build_submitted_task().reports_error("1").discloses("1", "A")),
    ("result_twice", lambda: build_submitted_task().validates("1").reports_error("1")),
    ("result_twice", lambda: build_submitted_task().validates("1").discloses("1", "A")),
    ("not_committed", lambda: build_started_task().discloses("1", "A")),
    ("node_does_not_run_it", lambda: build_submitted_task().discloses("1", "B")),
    ("after_terminal", lambda: build_ended_task().discloses("1", "A")),
    ("not_started", lambda: History().discloses("1", "A")),
    ("result_twice", lambda: build_started_task().reports_error("1").submits("1")),
    ("paused_twice", lambda: History().joins("A").asks_to_pause("A").asks_to_pause("A")),
    ("paused_twice", lambda: build_started_task().asks_to_pause("A").asks_to_pause("A")),
    ("pending_already", lambda: build_started_task().asks_to_quit("A").asks_to_quit("A")),
    ("pending_already", lambda: build_started_task().asks_to_quit("A").asks_to_pause("A")),
    ("not_paused", lambda: build_started_task().asks_to_quit("A").resumes("A")),
    ("not_started", lambda: build_created_task().is_paid("1", "A", 7)),
    ("node_does_not_run_it", lambda: build_submitted_task().is_paid("1", "B", 7)),
    ("paid_twice", lambda: build_submitted_task().is_paid("1", "A", 7).is_paid("1", "A", 7)),
    ("after_terminal", lambda: build_ended_task().is_paid("1", "A", 7)),
    ("validated_without_result", lambda: build_started_task().validates("1")),
    ("validated_without_result", lambda: History().validates("1")),
    ("validated_twice", lambda: build_submitted_task().validates("1").validates("1")),
    ("not_started", lambda: build_created_task().succeeds("1")),
    ("not_started", lambda: build_created_task().queues("1").times_out("1")),
    ("not_started", lambda: History().is_refunded("1")),
    ("not_started", lambda: History().is_invalidated("1")),
    ("after_terminal", lambda: build_ended_task().succeeds("1")),
    ("after_terminal", lambda: build_ended_task().times_out("1")),
    ("after_terminal", lambda: build_ended_task().aborts("1")),
    ("after_terminal", lambda: build_ended_task().creates("1")),
    ("after_terminal", lambda: build_ended_task().queues("1")),
    ("after_terminal", lambda: build_ended_task().starts("1", "A")),
    ("after_terminal", lambda: build_ended_task().submits("1", "A")),
    ("after_terminal", lambda: build_ended_task().validates("1")),
    ("after_terminal", lambda: History().aborts("1").starts("1", "A")),
    ("group_names_task_twice", lambda: build_submitted_task().closes("g", "1", "1")),
    # Networks with commit and disclosure: the unit is (task, round).
    (
        "round_taken",
        lambda: build_created_task().starts("1", "A", place=0).starts("1", "B", place=0),
    ),
    (
        "round_taken",
        lambda: build_created_task().starts("1", "A", place=0).starts("1", "A", place=1),
    ),
    ("round_missing", lambda: build_created_task().starts("1", "A", place=0).starts("1", "B")),
    ("not_of_this_generation", lambda: rounds().submits("1", "A")),
    ("not_of_this_generation", lambda: build_started_task().commits("1", "A")),
    ("not_started", lambda: History().commits("1", "A")),
    ("not_started", lambda: build_created_task().discloses("1", "A")),
    ("not_committed", lambda: rounds().discloses("1", "A")),
    ("node_does_not_run_it", lambda: rounds().commits("1", "D")),
    ("result_twice", lambda: rounds().commits("1", "A").commits("1", "A")),
    (
        "result_twice",
        lambda: rounds().commits("1", "A").discloses("1", "A").discloses("1", "A"),
    ),
    ("result_twice", lambda: rounds().reports_error("1", "A").commits("1", "A")),
    ("validated_without_result", lambda: rounds().commits("1", "A").validates("1")),
    ("after_terminal", lambda: rounds().succeeds("1", "A").commits("1", "A")),
    ("after_terminal", lambda: rounds().succeeds("1", "A").succeeds("1", "A")),
    ("after_terminal", lambda: rounds().aborts("1").commits("1", "B")),
    ("node_does_not_run_it", lambda: rounds().succeeds("1", "D")),
]


@pytest.mark.parametrize(("rule", "history"), ILLEGAL)
def test_illegal_event_is_listed_as_anomaly_and_ignored(rule, history):
    events = history().events
    fold, changes = fold_history(events)
    before, _ = fold_history(events[:-1])
    (anomaly,) = changes.anomalies

    assert (anomaly.rule, anomaly.at, anomaly.time) == (rule, events[-1].at, events[-1].time)
    assert fold.ledger.nodes == before.ledger.nodes
    assert fold.ledger.tasks == before.ledger.tasks


LISTED_ONLY = {"group_names_unseen_task", "task_scored_before", "node_differs"}
LISTED_ONLY |= {"last_status_differs", "limit_not_believed", "time_fell"}


def test_every_rule_that_ignores_an_event_has_a_test_case():
    assert {rule for rule, _ in ILLEGAL} == {
        violation.value for violation in Violation
    } - LISTED_ONLY


LEGAL = [
    lambda: build_created_task().queues("1").queues("1").starts("1", "A"),
    lambda: History().starts("1", "A").creates("1"),
    lambda: History().aborts("1"),
    lambda: build_created_task().aborts("1"),
    lambda: build_started_task().aborts("1"),
    lambda: build_submitted_task().validates("1").aborts("1"),
    lambda: build_started_task().succeeds("1"),
    lambda: build_submitted_task().validates("1").times_out("1"),
    lambda: build_started_task().reports_error("1").validates("1").aborts("1"),
    # Networks with reveals: a committed answer is revealed, possibly as an error report.
    lambda: build_submitted_task().reports_error("1").aborts("1"),
    lambda: build_submitted_task().discloses("1", "A").validates("1").succeeds("1"),
    lambda: build_submitted_task().times_out("1", last_status=LastStatus.SUBMITTED),
    lambda: build_started_task().quits("A").times_out("1"),
    lambda: build_started_task().is_slashed("A").is_invalidated("1"),
    lambda: build_started_task().is_kicked_out("A").submits("1").succeeds("1"),
    lambda: build_started_task().quits("A").joins("A").submits("1"),
    lambda: build_started_task().starts("2", "A").succeeds("1"),
    lambda: History().starts("1", "never seen").after(1).submits("1"),
    lambda: History().updates("A", gpu_vram=8).adds_model("A", "m").adds_model("A", "m"),
    lambda: rounds().commits("1", "A").reports_error("1", "A"),
    lambda: rounds().commits("1", "A").discloses("1", "A").validates("1").succeeds("1", "A"),
    lambda: rounds().succeeds("1", "A").is_refunded("1", "B").aborts("1", by="C"),
    lambda: rounds().succeeds("1", "A").aborts("1"),
]


@pytest.mark.parametrize("history", LEGAL)
def test_legal_history_reports_no_anomaly(history):
    assert fold_history(history())[1].anomalies == []


def test_terminal_event_with_wrong_node_applies_to_recorded_node():
    fold, changes = fold_history(build_submitted_task().times_out("1", by="B"))
    assert [anomaly.rule for anomaly in changes.anomalies] == ["node_differs"]
    assert (
        fold.ledger.nodes[make_node_address("A")].base
        < fold.ledger.nodes[make_node_address("B")].base
    )


def test_terminal_event_with_wrong_last_status_ends_task():
    fold, changes = fold_history(
        build_submitted_task().aborts("1", last_status=LastStatus.STARTED)
    )
    assert [anomaly.rule for anomaly in changes.anomalies] == ["last_status_differs"]
    assert fold.ledger.tasks[make_task_key("1")].ending == "aborted"


@pytest.mark.parametrize(
    ("status", "history"),
    [
        (LastStatus.CREATED, build_created_task),
        (LastStatus.QUEUED, lambda: build_created_task().queues("1")),
        (LastStatus.STARTED, build_started_task),
        (LastStatus.SUBMITTED, build_submitted_task),
        (LastStatus.ERROR_REPORTED, lambda: build_started_task().reports_error("1")),
        (LastStatus.VALIDATED, lambda: build_submitted_task().validates("1")),
    ],
)
def test_terminal_event_with_matching_status_is_legal(status, history):
    assert fold_history(history().aborts("1", last_status=status))[1].anomalies == []


def test_terminal_event_of_unseen_task_has_no_status_mismatch():
    history = History().aborts("1", last_status=LastStatus.STARTED, by="A")
    assert fold_history(history)[1].anomalies == []


def test_error_report_after_a_submission_keeps_the_submission_time():
    history = build_started_task().submits("1").after(60).reports_error("1")
    stored_task = fold_history(history)[0].ledger.tasks[make_task_key("1")]
    submission = history.events[-2]

    assert (stored_task.stopped_at, stored_task.stopped_time) == (submission.at, submission.time)
    assert stored_task.error_reported


def test_disclosure_keeps_the_submission_time():
    history = build_started_task().submits("1").after(60).discloses("1", "A")
    stored_task = fold_history(history)[0].ledger.tasks[make_task_key("1")]

    assert (stored_task.stopped_time, stored_task.error_reported) == (
        history.events[-2].time,
        False,
    )


def test_event_with_a_decreasing_time_is_an_anomaly_but_is_applied():
    history = History().joins("A").after(-10).pauses("A").after(5).resumes("A")
    fold, changes = fold_history(history)
    assert [(a.rule, a.event) for a in changes.anomalies] == [("time_fell", "node_paused")]
    assert not fold.ledger.nodes[make_node_address("A")].paused
