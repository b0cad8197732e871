"""What is not legal is an anomaly and ignored whole, and nothing else is.

See docs/reference/events-and-jsonl.md#what-is-legal.
"""

import pytest

from oracle.domain.events.network_events import LastStatus
from oracle.domain.fold.preconditions import Breach
from tests.support.histories import History, fold_history, node_address, task_key


def created():
    return History().joins("A", "B").creates("1")


def started():
    return created().starts("1", "A").after(5)


def submitted():
    return started().submits("1")


def ended():
    return submitted().succeeds("1")


def rounds():
    history = created()
    for place, name in enumerate("ABC"):
        history.starts("1", name, place=place)
    return history.after(5)


ILLEGAL = [
    ("joined_while_member", lambda: History().joins("A").joins("A")),
    # A penalty is not washed off by joining once more.
    ("joined_while_member", lambda: started().times_out("1").joins("A")),
    ("not_a_member", lambda: History().quits("A")),
    ("not_a_member", lambda: History().joins("A").quits("A").quits("A")),
    ("not_a_member", lambda: History().joins("A").quits("A").is_slashed("A")),
    ("not_a_member", lambda: History().joins("A").is_slashed("A").is_kicked_out("A")),
    ("not_a_member", lambda: History().joins("A").quits("A").pauses("A")),
    ("not_a_member", lambda: History().joins("A").pauses("A").quits("A").resumes("A")),
    ("not_a_member", lambda: History().starts("1", "A").quits("A")),
    ("paused_twice", lambda: History().joins("A").pauses("A").pauses("A")),
    ("not_paused", lambda: History().joins("A").resumes("A")),
    ("created_twice", lambda: created().creates("1", fee=5)),
    ("queued_after_start", lambda: started().queues("1")),
    ("queued_after_start", lambda: rounds().queues("1")),
    ("started_twice", lambda: started().starts("1", "A")),
    ("started_twice", lambda: started().starts("1", "B")),
    ("started_twice", lambda: started().starts("1", "B", place=1)),
    ("not_started", lambda: created().submits("1", "A")),
    ("not_started", lambda: History().submits("1", "A")),
    ("not_started", lambda: History().reports_error("1", "A")),
    ("node_does_not_run_it", lambda: started().submits("1", "B")),
    ("node_does_not_run_it", lambda: started().reports_error("1", "B")),
    ("result_twice", lambda: submitted().submits("1")),
    ("result_twice", lambda: submitted().reports_error("1").reports_error("1")),
    ("result_twice", lambda: submitted().discloses("1", "A").reports_error("1")),
    ("result_twice", lambda: submitted().discloses("1", "A").discloses("1", "A")),
    ("result_twice", lambda: submitted().discloses("1", "A").submits("1")),
    ("result_twice", lambda: submitted().reports_error("1").discloses("1", "A")),
    ("result_twice", lambda: submitted().validates("1").reports_error("1")),
    ("result_twice", lambda: submitted().validates("1").discloses("1", "A")),
    ("not_committed", lambda: started().discloses("1", "A")),
    ("node_does_not_run_it", lambda: submitted().discloses("1", "B")),
    ("after_terminal", lambda: ended().discloses("1", "A")),
    ("not_started", lambda: History().discloses("1", "A")),
    ("result_twice", lambda: started().reports_error("1").submits("1")),
    ("not_a_member", lambda: History().asks_to_quit("A")),
    ("not_a_member", lambda: History().joins("A").quits("A").asks_to_pause("A")),
    ("paused_twice", lambda: History().joins("A").asks_to_pause("A").asks_to_pause("A")),
    ("paused_twice", lambda: started().asks_to_pause("A").asks_to_pause("A")),
    ("pending_already", lambda: started().asks_to_quit("A").asks_to_quit("A")),
    ("pending_already", lambda: started().asks_to_quit("A").asks_to_pause("A")),
    ("not_paused", lambda: started().asks_to_quit("A").resumes("A")),
    ("not_started", lambda: created().is_paid("1", "A", 7)),
    ("node_does_not_run_it", lambda: submitted().is_paid("1", "B", 7)),
    ("paid_twice", lambda: submitted().is_paid("1", "A", 7).is_paid("1", "A", 7)),
    ("after_terminal", lambda: ended().is_paid("1", "A", 7)),
    ("validated_without_result", lambda: started().validates("1")),
    ("validated_without_result", lambda: History().validates("1")),
    ("validated_twice", lambda: submitted().validates("1").validates("1")),
    ("not_started", lambda: created().succeeds("1")),
    ("not_started", lambda: created().queues("1").times_out("1")),
    ("not_started", lambda: History().is_refunded("1")),
    ("not_started", lambda: History().is_invalidated("1")),
    ("after_terminal", lambda: ended().succeeds("1")),
    ("after_terminal", lambda: ended().times_out("1")),
    ("after_terminal", lambda: ended().aborts("1")),
    ("after_terminal", lambda: ended().creates("1")),
    ("after_terminal", lambda: ended().queues("1")),
    ("after_terminal", lambda: ended().starts("1", "A")),
    ("after_terminal", lambda: ended().submits("1", "A")),
    ("after_terminal", lambda: ended().validates("1")),
    ("after_terminal", lambda: History().aborts("1").starts("1", "A")),
    ("group_names_task_twice", lambda: submitted().closes("g", "1", "1")),
    # Commit/disclose networks: the unit is (task, round).
    ("round_taken", lambda: created().starts("1", "A", place=0).starts("1", "B", place=0)),
    ("round_taken", lambda: created().starts("1", "A", place=0).starts("1", "A", place=1)),
    ("round_missing", lambda: created().starts("1", "A", place=0).starts("1", "B")),
    ("not_of_this_generation", lambda: rounds().submits("1", "A")),
    ("not_of_this_generation", lambda: started().commits("1", "A")),
    ("not_started", lambda: History().commits("1", "A")),
    ("not_started", lambda: created().discloses("1", "A")),
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
    assert {rule for rule, _ in ILLEGAL} == {breach.value for breach in Breach} - LISTED_ONLY


LEGAL = [
    lambda: created().queues("1").queues("1").starts("1", "A"),
    lambda: History().starts("1", "A").creates("1"),
    lambda: History().aborts("1"),
    lambda: created().aborts("1"),
    lambda: started().aborts("1"),
    lambda: submitted().validates("1").aborts("1"),
    lambda: started().succeeds("1"),
    lambda: submitted().validates("1").times_out("1"),
    lambda: started().reports_error("1").validates("1").aborts("1"),
    # Networks that reveal: what was submitted is shown, or turns out to be an error report.
    lambda: submitted().reports_error("1").aborts("1"),
    lambda: submitted().discloses("1", "A").validates("1").succeeds("1"),
    lambda: submitted().times_out("1", last_status=LastStatus.SUBMITTED),
    lambda: started().quits("A").times_out("1"),
    lambda: started().is_slashed("A").is_invalidated("1"),
    lambda: started().is_kicked_out("A").submits("1").succeeds("1"),
    lambda: started().quits("A").joins("A").submits("1"),
    lambda: started().starts("2", "A").succeeds("1"),
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


def test_terminal_event_with_wrong_node_is_an_anomaly_and_applies_to_the_recorded_node():
    fold, changes = fold_history(submitted().times_out("1", by="B"))
    assert [anomaly.rule for anomaly in changes.anomalies] == ["node_differs"]
    assert fold.ledger.nodes[node_address("A")].base < fold.ledger.nodes[node_address("B")].base


def test_terminal_event_with_wrong_last_status_is_an_anomaly_and_still_ends_the_task():
    fold, changes = fold_history(submitted().aborts("1", last_status=LastStatus.STARTED))
    assert [anomaly.rule for anomaly in changes.anomalies] == ["last_status_differs"]
    assert fold.ledger.tasks[task_key("1")].ending == "aborted"


@pytest.mark.parametrize(
    ("status", "history"),
    [
        (LastStatus.CREATED, created),
        (LastStatus.QUEUED, lambda: created().queues("1")),
        (LastStatus.STARTED, started),
        (LastStatus.SUBMITTED, submitted),
        (LastStatus.ERROR_REPORTED, lambda: started().reports_error("1")),
        (LastStatus.VALIDATED, lambda: submitted().validates("1")),
    ],
)
def test_terminal_event_with_matching_status_is_no_anomaly(status, history):
    assert fold_history(history().aborts("1", last_status=status))[1].anomalies == []


def test_terminal_event_of_unseen_task_may_have_any_last_status():
    history = History().aborts("1", last_status=LastStatus.STARTED, by="A")
    assert fold_history(history)[1].anomalies == []


def test_error_after_submission_keeps_submission_time():
    history = started().submits("1").after(60).reports_error("1")
    stored_task = fold_history(history)[0].ledger.tasks[task_key("1")]
    submission = history.events[-2]

    assert (stored_task.stopped_at, stored_task.stopped_time) == (submission.at, submission.time)
    assert stored_task.error_reported


def test_disclosure_keeps_submission_time():
    history = started().submits("1").after(60).discloses("1", "A")
    stored_task = fold_history(history)[0].ledger.tasks[task_key("1")]

    assert (stored_task.stopped_time, stored_task.error_reported) == (
        history.events[-2].time,
        False,
    )


def test_event_with_decreasing_time_is_listed_as_anomaly_and_applied():
    history = History().joins("A").after(-10).pauses("A").after(5).resumes("A")
    fold, changes = fold_history(history)
    assert [(a.rule, a.event) for a in changes.anomalies] == [("time_fell", "node_paused")]
    assert not fold.ledger.nodes[node_address("A")].paused
