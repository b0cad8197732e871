"""When a validation group closes, and the scores of its members.

See docs/reference/scoring-rules.md#task-groups.
"""

from dataclasses import replace

from hypothesis import given, strategies as st

from oracle.domain.events.network_events import AbortReason
from oracle.domain.scoring.group_ranking import split_fee_by_scores
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.support.histories import (
    History,
    build_changed_rules,
    fold_history,
    make_group_key,
    make_node_address,
    make_task_key,
)

# The verdict decides which answers rank (test_verdicts.py); here all of them do.
ALL = build_changed_rules(ranked_answers="all")
TERMINAL = build_changed_rules(close="terminal", ranked_answers="all")
NAMES = ("1", "2", "3")


def of_three(of=None):
    history = History().joins("A", "B", "C").creates(*NAMES, of=of)
    return history.starts("1", "A").starts("2", "B").starts("3", "C")


def list_ranked_members(history, rules=ALL):
    """Return each member of the only group as (rank, elapsed, score)."""
    _, changes = fold_history(history, rules)
    (result,) = changes.results
    return [(member.rank, member.elapsed, member.score) for member in result.members]


def rules_broken(history, rules=ALL):
    return [anomaly.rule for anomaly in fold_history(history, rules)[1].anomalies]


def test_fastest_three_members_score_10_5_2():
    history = of_three().after(7).submits("3").after(1).submits("1").after(1).submits("2")
    assert list_ranked_members(history.closes("g", *NAMES)) == [(2, 8, 5), (3, 9, 2), (1, 7, 10)]


def test_rank_beyond_the_score_table_gets_the_last_score_of_the_table():
    history = of_three().starts("4", "D").starts("5", "E")
    for name in ("1", "2", "3", "4", "5"):
        history.after(1).submits(name)
    assert [
        score for _, _, score in list_ranked_members(history.closes("g", *NAMES, "4", "5"))
    ] == [
        10,
        5,
        2,
        2,
        2,
    ]


def test_tie_is_won_by_the_task_created_first():
    history = History().creates("2", "1").starts("1", "A").starts("2", "B")
    history.after(5).submits("1").submits("2").closes("g", "1", "2")
    assert list_ranked_members(history) == [(2, 5, 5), (1, 5, 10)]


def test_tie_is_won_by_the_first_start_if_the_creations_are_unknown():
    history = History().starts("2", "B").starts("1", "A").after(5).submits("1").submits("2")
    assert list_ranked_members(history.closes("g", "1", "2")) == [(2, 5, 5), (1, 5, 10)]


def test_member_that_is_still_running_scores_0():
    history = of_three().after(4).submits("1").closes("g", *NAMES)
    assert list_ranked_members(history) == [(1, 4, 10), (None, None, 0), (None, None, 0)]


def test_member_aborted_after_submission_scores_0_without_rank():
    history = of_three().after(4).submits("1").after(1).submits("2").aborts("1")
    assert list_ranked_members(history.closes("g", *NAMES)) == [
        (None, 4, 0),
        (1, 5, 10),
        (None, None, 0),
    ]


def test_member_aborted_after_the_group_closed_keeps_its_score():
    history = of_three().after(4).submits("1").closes("g", *NAMES).aborts("1")
    assert list_ranked_members(history)[0] == (1, 4, 10)


def test_invalidated_result_keeps_the_score_of_its_rank():
    history = of_three().after(1).submits("1").is_invalidated("1").is_slashed("A")
    history.after(1).submits("2").closes("g", *NAMES)
    assert list_ranked_members(history)[:2] == [(1, 1, 10), (2, 2, 5)]
    assert fold_history(history, ALL)[0].ledger.nodes[make_node_address("A")].pool == bytes([10])


def test_member_that_never_started_gets_no_score():
    history = History().creates(*NAMES).starts("1", "A").after(3).submits("1").aborts("2")
    assert list_ranked_members(history.closes("g", *NAMES)) == [
        (1, 3, 10),
        (None, None, None),
        (None, None, None),
    ]
    assert rules_broken(history) == []


def test_unseen_member_gets_no_score_and_is_listed_as_an_anomaly():
    history = History().starts("1", "A").after(3).submits("1").closes("g", "1", "2")
    assert list_ranked_members(history) == [(1, 3, 10), (None, None, None)]
    assert rules_broken(history) == ["group_names_unseen_task"]


def test_group_without_an_answer_is_not_scored():
    history = of_three().after(9).times_out("1").times_out("2").closes("g", *NAMES)
    fold, changes = fold_history(history, ALL)
    assert list_ranked_members(history) == 3 * [(None, None, None)]
    assert not changes.results[0].scored
    assert changes.scores == []
    assert all(member.pool == b"" for member in fold.ledger.nodes.values())


def test_task_is_scored_only_by_the_first_group_that_lists_it():
    history = of_three().after(1).submits("1").after(1).submits("2").after(1).submits("3")
    history.closes("g", "1", "2").closes("h", "2", "3")
    _, changes = fold_history(history, ALL)
    first, second = changes.results
    assert [member.score for member in first.members] == [10, 5]
    assert [(member.task, member.score) for member in second.members] == [(make_task_key("3"), 10)]
    assert [anomaly.rule for anomaly in changes.anomalies] == ["task_scored_before"]


def test_tasks_of_an_unscored_group_can_be_scored_by_the_next():
    history = of_three().times_out("1").closes("g", "1").after(3).submits("2")
    history.closes("h", "1", "2")
    _, changes = fold_history(history, ALL)
    assert [member.score for member in changes.results[1].members] == [0, 10]


def test_group_that_lists_a_task_twice_is_ignored():
    history = of_three().after(1).submits("1").closes("g", "1", "1")
    _, changes = fold_history(history, ALL)
    assert changes.results == []
    assert [anomaly.rule for anomaly in changes.anomalies] == ["group_names_task_twice"]


def test_elapsed_time_is_never_negative():
    history = History().starts("1", "A").after(-5).submits("1").closes("g", "1")
    assert list_ranked_members(history) == [(1, 0, 10)]
    assert rules_broken(history) == ["time_fell"]


def test_scores_enter_pools_in_member_order_when_the_group_closes():
    history = of_three().starts("4", "A").after(1).submits("4").after(1).submits("1")
    history.after(3).closes("g", "1", "2", "4")
    fold, changes = fold_history(history, ALL)
    assert [(entry.node, entry.seq, entry.score) for entry in changes.scores] == [
        (make_node_address("A"), 1, 5),
        (make_node_address("B"), 1, 0),
        (make_node_address("A"), 2, 10),
    ]
    assert {(entry.at, entry.time) for entry in changes.scores} == {
        (history.events[-1].at, history.time)
    }
    assert fold.ledger.nodes[make_node_address("A")].pool == bytes([5, 10])


# Groups closed by counting


def test_group_closes_when_its_last_member_ends():
    history = of_three(of="g").after(1).submits("1").succeeds("1").after(1).submits("2")
    history.is_refunded("2")
    assert fold_history(history, TERMINAL)[1].results == []

    history.after(1).times_out("3")
    _, changes = fold_history(history, TERMINAL)
    assert list_ranked_members(history, TERMINAL) == [(1, 1, 10), (2, 2, 5), (None, None, 0)]
    assert changes.results[0].closed_at == history.events[-1].at
    assert changes.results[0].group == make_group_key("g")


def test_group_with_too_few_tasks_never_closes():
    history = History().creates("1", "2", of="g").starts("1", "A").starts("2", "B")
    history.after(1).submits("1").submits("2").succeeds("1").is_refunded("2")
    assert fold_history(history, TERMINAL)[1].results == []


def test_group_event_is_ignored_under_the_terminal_close_rule():
    history = of_three(of="g").after(1).submits("1").closes("g", *NAMES)
    assert fold_history(history, TERMINAL)[1].results == []
    assert fold_history(history, ALL)[1].results != []


def test_task_created_after_its_group_closed_is_ignored():
    history = of_three(of="g").after(1).submits("1").submits("2").submits("3")
    history.succeeds("1").is_refunded("2").is_refunded("3")
    history.creates("4", of="g").starts("4", "A").after(1).submits("4").succeeds("4")
    assert len(list_ranked_members(history, TERMINAL)) == 3


# The relay's rules


def test_relay_scores_timed_out_members_but_not_aborted_members():
    history = of_three().after(1).submits("1").aborts("2").times_out("3").closes("g", *NAMES)
    _, changes = fold_history(history, RELAY)
    assert list_ranked_members(history, RELAY) == [(1, 1, 10), (None, None, 0), (None, None, 0)]
    assert {entry.node for entry in changes.scores} == {
        make_node_address("A"),
        make_node_address("C"),
    }


def test_relay_scores_no_member_after_a_validation_timeout():
    history = of_three().after(1).submits("1").submits("2")
    history.aborts("2", AbortReason.CREATOR_VALIDATION_TIMEOUT).closes("g", *NAMES)
    assert list_ranked_members(history, RELAY) == [
        (None, 1, None),
        (None, 1, None),
        (None, None, None),
    ]
    assert list_ranked_members(history, ALL)[0] == (1, 1, 10)


def test_relay_restart_without_later_scores_leaves_the_pool_unchanged():
    history = History().joins("A").scores("A", 10, 5)
    rules = replace(RELAY, restarts=(history.time + 5,))
    fold, changes = fold_history(history, rules)
    assert [entry.score for entry in changes.scores if entry.node == make_node_address("A")] == [
        10,
        5,
    ]
    assert fold.ledger.nodes[make_node_address("A")].pool == bytes([10, 5])


@given(
    st.integers(0, 2**256 - 1), st.lists(st.sampled_from((0, 2, 5, 10)), min_size=1, max_size=5)
)
def test_fee_shares_sum_to_the_fee_and_are_never_below_the_exact_share(fee, scores):
    shares = split_fee_by_scores(fee, scores)
    total = sum(scores)
    assert sum(shares) == fee
    assert all(
        share >= fee * score // total for share, score in zip(shares, scores, strict=True) if total
    )
