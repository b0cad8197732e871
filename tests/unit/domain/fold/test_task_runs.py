"""Networks with commit and disclosure: three nodes run one task, and each is tracked separately.

See docs/reference/events-and-jsonl.md#what-is-legal.
"""

from oracle.domain.fixed_point import UNIT
from oracle.domain.state import Ending
from tests.support.histories import History, fold_history, make_node_address, make_task_key


def three():
    history = History().joins("A", "B", "C").creates("1")
    for place, name in enumerate("ABC"):
        history.starts("1", name, place=place)
    return history.after(5)


def task_after(history):
    return fold_history(history)[0].ledger.tasks[make_task_key("1")]


def test_multi_node_task_has_one_run_per_node():
    history = three().commits("1", "B").after(1).commits("1", "A").discloses("1", "B")
    runs = task_after(history.reports_error("1", "C")).runs
    assert [run.node for run in runs] == [
        make_node_address("A"),
        make_node_address("B"),
        make_node_address("C"),
    ]
    assert [run.committed_at is not None for run in runs] == [True, True, False]
    assert [run.disclosed_at is not None for run in runs] == [False, True, False]
    assert [run.reported_at is not None for run in runs] == [False, False, True]


def test_terminal_event_with_a_node_ends_only_that_nodes_run():
    history = three().succeeds("1", "B")
    fold, _ = fold_history(history)
    stored_task = fold.ledger.tasks[make_task_key("1")]
    assert [run.ending for run in stored_task.runs] == [None, Ending.SUCCEEDED, None]
    assert stored_task.ending is None
    assert [fold.ledger.nodes[make_node_address(name)].running for name in "ABC"] == [1, 0, 1]


def test_terminal_event_without_a_node_ends_all_runs():
    history = three().succeeds("1", "B").aborts("1")
    stored_task = task_after(history)
    assert [run.ending for run in stored_task.runs] == [
        Ending.ABORTED,
        Ending.SUCCEEDED,
        Ending.ABORTED,
    ]
    assert (stored_task.ending, stored_task.ended_at) == (Ending.ABORTED, history.events[-1].at)


def test_task_ends_with_its_last_run():
    stored_task = task_after(
        three().succeeds("1", "A").succeeds("1", "B").is_invalidated("1", "C")
    )
    assert stored_task.ending is Ending.INVALIDATED


def test_timeout_penalises_only_unfinished_nodes():
    fold, changes = fold_history(three().succeeds("1", "A").times_out("1"))
    bases = [fold.ledger.nodes[make_node_address(name)].base for name in "ABC"]
    assert bases == [UNIT, 3 * UNIT // 10, 3 * UNIT // 10]
    assert [change.cause.value for change in changes.reliability[3:]] == 2 * ["timed_out"]


def test_multi_node_task_is_not_scored_under_crynux():
    history = three().commits("1", "A").discloses("1", "A").closes("g", "1")
    fold, changes = fold_history(history)
    assert changes.scores == []
    assert not changes.results[0].scored
    assert fold.ledger.nodes[make_node_address("A")].pool == b""
