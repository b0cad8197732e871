"""A cancellation names no cause; the fold finds the nodes for which the others waited.

See docs/explanation/crynux.md#commit-and-disclose-contracts.
"""

import pytest

from oracle.domain.events.network_events import AbortReason, TaskCancelled
from oracle.domain.fixed_point import UNIT
from oracle.domain.state import Ending
from tests.support.histories import History, fold_history, make_node_address, make_task_key
from tests.support.vectors import load_vector

VECTORS = load_vector("derivation/dv-03 Gen A timed-out nodes from cancelTask")["cases"]


def cancels(history: History, *names: str) -> History:
    for name in names:
        history.emits(TaskCancelled, task=make_task_key("1"), node=make_node_address(name))
    return history


def three(commits: str = "", discloses: str = "") -> History:
    """Return a task on three nodes that commit and disclose in these orders."""
    history = History().joins("A", "B", "C").creates("1")
    for place, name in enumerate("ABC"):
        history.starts("1", name, place=place)
    for name in commits:
        history.after(1).commits("1", name)
    for name in discloses:
        history.after(1).discloses("1", name)
    return history.after(900)


def task_after(history: History):
    return fold_history(history)[0].ledger.tasks[make_task_key("1")]


def endings(history: History) -> str:
    """Return the end of each node in order: t timed out, a aborted, s succeeded, - open."""
    short = {Ending.TIMED_OUT: "t", Ending.ABORTED: "a", Ending.SUCCEEDED: "s", None: "-"}
    return "".join(short[run.ending] for run in task_after(history).runs)


@pytest.mark.parametrize("vector", VECTORS)
def test_nodes_blamed_for_a_cancellation_match_the_vectors(vector):
    names = {f"r{place}": name for place, name in enumerate("ABC")}
    committed, disclosed = (
        "".join(names[run_key] for run_key in vector[key]) for key in ("commits", "disclosures")
    )
    blamed = [*vector["timed_out"], *vector.get("result_upload_timeout", ())]
    history = three(committed, disclosed)
    freed = set[str]()
    if "TaskSuccess.resultNode" in vector:
        freed = {"r0", "r1", "r2"} - {*vector["TaskNodeCancelled"]}
        history.validates("1")
        for freed_key in sorted(freed):
            history.succeeds("1", by=names[freed_key])
    history = cancels(history, *(names[run_key] for run_key in names if run_key not in freed))

    ending_letters = endings(history)

    assert {
        run_key for run_key, ending in zip(names, ending_letters, strict=True) if ending == "t"
    } == {*blamed}


def test_cancellation_lowers_the_reliability_of_only_the_blamed_node():
    history = cancels(three("AB"), "A", "B", "C")
    fold, _ = fold_history(history)
    assert endings(history) == "aat"
    assert [fold.ledger.nodes[make_node_address(name)].base for name in "ABC"] == [
        UNIT,
        UNIT,
        3 * UNIT // 10,
    ]
    assert fold.ledger.tasks[make_task_key("1")].ending is Ending.TIMED_OUT


def test_error_report_counts_as_commitment_and_disclosure():
    history = three("A").reports_error("1", "B").after(900)
    assert endings(cancels(history, "A", "B", "C")) == "aat"
    history = three("AC").reports_error("1", "B").discloses("1", "C").after(900)
    assert endings(cancels(history, "A", "B", "C")) == "taa"


def test_cancellation_after_three_different_results_blames_no_node():
    assert endings(cancels(three("ABC", "CBA"), "C", "B", "A")) == "aaa"


def test_cancellation_of_a_task_without_nodes_aborts_it():
    history = History().creates("1").emits(TaskCancelled, task=make_task_key("1"))
    cancelled_task = task_after(history)
    assert (cancelled_task.ending, cancelled_task.abort_reason) == (
        Ending.ABORTED,
        AbortReason.CANCELLED,
    )


def test_cancellation_without_a_node_ends_none_of_the_runs():
    history = three("AB").emits(TaskCancelled, task=make_task_key("1"))
    _, changes = fold_history(history)
    assert (endings(history), changes.anomalies) == ("---", [])


@pytest.mark.parametrize(
    ("history", "rule"),
    [
        (cancels(History().joins("A"), "A"), "not_started"),
        (cancels(three(), "D"), "node_does_not_run_it"),
        (cancels(three(), "A", "A"), "after_terminal"),
        (cancels(three().aborts("1"), "A"), "after_terminal"),
        (
            History().creates("1").aborts("1").emits(TaskCancelled, task=make_task_key("1")),
            "after_terminal",
        ),
        (cancels(History().joins("A").starts("1", "A"), "A"), "not_of_this_generation"),
    ],
)
def test_illegal_cancellation_is_listed_as_anomaly(history, rule):
    _, changes = fold_history(history)
    assert [(anomaly.rule, anomaly.event) for anomaly in changes.anomalies] == [
        (rule, "task_cancelled")
    ]
