"""Which answers of a group rank: those that its verdict confirms, never a single one.

See docs/reference/scoring-rules.md#verdicts.
"""

from hypothesis import given, strategies as st

from oracle.domain.fold.fold import Fold
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.examples import examples
from tests.support.histories import History, fold_history, fold_node
from tests.support.vectors import vectors_of

NAMES = ("1", "2", "3")


def build_answered_group(*seconds: int) -> History:
    """Return a task for each node A, B, C …, answered after these seconds; below 0: never."""
    names = [str(place) for place, _ in enumerate(seconds, start=1)]
    history = History().creates(*names, of="g", group_size=len(seconds))
    for name, node in zip(names, "ABCDE", strict=False):
        history.starts(name, node)
    for second in range(max(seconds) + 1):
        for name, at in zip(names, seconds, strict=True):
            if at == second:
                history.submits(name)
        history.after(1)
    return history


def scores(history: History, rules=CRYNUX) -> list[int | None]:
    """Return the members' scores of the only group that closed."""
    (result,) = fold_history(history, rules)[1].results
    return [member.score for member in result.members]


@vectors_of("verdicts", file="seed-3")
def test_group_scores_follow_verdict(vector):
    names = [str(place) for place, _ in enumerate(vector["seconds"], start=1)]
    history = build_answered_group(*vector["seconds"])
    if vector["decided"]:
        history.judges("g", *names, right=vector["right"], wrong=vector["wrong"])
    else:
        answered_names = [
            name for name, at in zip(names, vector["seconds"], strict=True) if at >= 0
        ]
        for name in set(names) - set(answered_names):
            history.aborts(name)
        history.judges_nothing("g", *answered_names)
    assert scores(history)[: len(vector["expected"])] == vector["expected"]


def test_wrong_answer_still_ranks_under_relay_rules():
    history = build_answered_group(1, 5, 7).judges("g", *NAMES, right=("2", "3"), wrong=("1",))
    assert scores(history, RELAY) == [10, 5, 2]


def test_error_reports_of_the_majority_rank_as_right_answers():
    history = History().starts("1", "A").starts("2", "B").starts("3", "C").after(1)
    history.submits("1").after(1).reports_error("2").after(1).reports_error("3").after(1)
    history.judges_nothing("g", *NAMES, errors=("2", "3"))
    # The only result was aborted here; the reference network would invalidate it.
    assert scores(history) == [0, 10, 5]


def test_verdict_in_a_later_transaction_does_not_change_scores():
    history = build_answered_group(1, 5, 7).closes("g", *NAMES).is_invalidated("1").is_slashed("A")
    assert scores(history) == [10, 5, 2]


def test_only_the_node_with_wrong_answers_becomes_due_for_kickout():
    history = History().joins("A", "B", "C")
    for turn in range(50):
        names = [f"{turn}/{place}" for place in range(3)]
        for name, node in zip(names, "ABC", strict=True):
            history.starts(name, node)
        for name in names:
            history.after(1).submits(name)
        history.judges(f"g{turn}", *names, right=names[1:], wrong=names[:1])
    assert [fold_node(history, name).pool_sum for name in "ABC"] == [0, 500, 250]
    assert fold_node(history, "A").kickout_due_since is not None
    assert [fold_node(history, name, RELAY).pool_sum for name in "ABC"] == [500, 250, 100]


@examples(50)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.data())
def test_wrong_answers_do_not_lower_ranks_of_right_answers(seconds, data):
    """Right answers have the scores that they would have without the wrong ones."""
    names = [str(place) for place, _ in enumerate(seconds, start=1)]
    wrong = data.draw(st.sets(st.sampled_from(names), max_size=(len(names) - 1) // 2))
    right = [name for name in names if name not in wrong]
    history = build_answered_group(*seconds).judges("g", *names, right=right, wrong=sorted(wrong))
    (result,) = fold_history(history)[1].results
    ranked = sorted(
        (member for member in result.members if member.rank is not None),
        key=lambda member: (member.elapsed, member.task),
    )
    assert [member.score for member in ranked] == [10, 5, 2, 2, 2][: len(right)]
    assert all(member.score == 0 for member in result.members if member.rank is None)


@examples(50)
@given(st.integers(1, 60))
def test_verdict_is_independent_of_event_batch_boundaries(cut):
    """A fold in parts closes the last transaction explicitly."""
    history = build_answered_group(1, 5, 7).judges("g", *NAMES, right=("2", "3"), wrong=("1",))
    history.after(1).judges("h", "1")
    fold = Fold(CRYNUX)
    fold.fold_events(history.events[:cut], is_complete=False)
    fold.fold_events(history.events[cut:], is_complete=False)
    fold.score_groups_closed_in_transaction()
    full_fold, _ = fold_history(history)
    assert fold.ledger.nodes == full_fold.ledger.nodes
    assert fold.ledger.tasks == full_fold.ledger.tasks
