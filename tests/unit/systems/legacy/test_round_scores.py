"""Two rounds of submission: the scores, their times, and their windows.

See docs/reference/sources.md#crynux-qos-of-2024.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.legacy_round_scores import compute_round_scores
from oracle.domain.ids import GroupKey
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import (
    GENESIS_TIME,
    History,
    fold_history,
    make_node_address,
    make_task_key,
)
from tests.unit.systems.legacy.networks import RULES, ran, rules_with


def scores_of(history, rules=RULES):
    _, changes = fold_history(history, rules)
    return {entry.node: entry.score for entry in changes.scores}


def has_scores(history, **expected):
    return scores_of(history) == {
        make_node_address(name): score for name, score in expected.items()
    }


def build_started_task(*names):
    history = History().joins(*names)
    for place, name in enumerate(names):
        history.starts("1", name, place=place)
    return history.after(5)


def test_each_round_is_scored_by_its_own_order():
    assert has_scores(ran(History().joins("A", "B", "C"), "1", "ABC", "CBA"), A=12, B=10, C=12)


def test_node_that_does_not_disclose_keeps_its_commitment_score():
    history = (
        build_started_task("A", "B", "C").commits("1", "A").commits("1", "B").discloses("1", "B")
    )
    assert has_scores(history.times_out("1"), A=10, B=15, C=0)


def test_error_reported_before_a_commitment_ranks_in_both_rounds():
    history = (
        build_started_task("A", "B", "C")
        .reports_error("1", "A")
        .commits("1", "B")
        .commits("1", "C")
    )
    history.discloses("1", "C").discloses("1", "B").succeeds("1")
    assert has_scores(history, A=20, B=7, C=7)


def test_error_reported_after_commitment_is_not_ranked():
    history = (
        build_started_task("A", "B", "C")
        .commits("1", "A")
        .commits("1", "B")
        .reports_error("1", "B")
    )
    assert has_scores(history.discloses("1", "A").succeeds("1"), A=15, B=15, C=0)


def test_three_error_reports_are_scored_like_submissions():
    history = build_started_task("A", "B", "C")
    for name in "BCA":
        history.reports_error("1", name)
    assert has_scores(history.aborts("1"), B=20, C=10, A=4)


def test_task_without_submissions_is_ignored():
    fold, changes = fold_history(build_started_task("A", "B", "C").aborts("1"), RULES)
    assert changes.scores == []
    assert all(ledger_node.window_count == 0 for ledger_node in fold.ledger.nodes.values())
    assert fold.ledger.tasks[make_task_key("1")].scored_in is None


def test_task_is_scored_when_its_last_run_ends():
    history = (
        build_started_task("A", "B", "C").commits("1", "A").succeeds("1", "A").succeeds("1", "B")
    )
    assert scores_of(history) == {}
    _, changes = fold_history(history.after(7).times_out("1", by="C"), RULES)
    assert [(entry.at, entry.time) for entry in changes.scores] == [
        (history.events[-1].at, history.time)
    ] * 3


def test_slashed_node_keeps_its_ranks():
    history = build_started_task("A", "B").commits("1", "B").commits("1", "A").discloses("1", "B")
    history.is_invalidated("1", "B").is_slashed("B").succeeds("1", "A")
    assert has_scores(history, A=5, B=20)


def test_score_of_departed_node_is_recorded():
    history = build_started_task("A", "B").commits("1", "A").quits("A").succeeds("1")
    assert has_scores(history, A=10, B=0)


def test_score_of_a_task_without_a_group_uses_the_task_key():
    _, changes = fold_history(ran(History().joins("A", "B", "C"), "1", "ABC", "ABC"), RULES)
    assert {entry.group for entry in changes.scores} == {GroupKey(make_task_key("1"))}
    assert [entry.seq for entry in changes.scores] == [1, 1, 1]


def test_each_rank_of_a_validation_group_gets_double_points():
    history = History()
    for name, place in zip("123", "ABC", strict=True):
        history.joins(place).starts(name, place)
    for name in "213":
        history.after(5).submits(name)
    fold, changes = fold_history(history.closes("g", "1", "2", "3"), RULES)
    nodes = [fold.ledger.nodes[make_node_address(place)] for place in "ABC"]
    assert [(ledger_node.window_sum, ledger_node.window_count) for ledger_node in nodes] == [
        (10, 1),
        (20, 1),
        (4, 1),
    ]
    assert [entry.score for entry in changes.scores] == [10, 20, 4]
    assert {ledger_node.pool for ledger_node in nodes} == {b""}


def committed_group(commits, reveals, *, errors="", size=3):
    """Return a group of one task each, whose answers are committed to and revealed."""
    history = History()
    tasks = dict(zip("ABC"[:size], "123"[:size], strict=True))
    for name, key in tasks.items():
        history.joins(name).starts(key, name)
    for name in commits:
        history.after(1).submits(tasks[name])
    for name in reveals:
        if name in errors:
            history.after(1).reports_error(tasks[name])
        else:
            history.after(1).discloses(tasks[name], name)
    for name in tasks.keys() - set(reveals):
        history.after(1).times_out(tasks[name])
    return history.closes("g", *tasks.values())


@given(st.permutations("ABC"), st.permutations("ABC"), st.integers(0, 3), st.integers(1, 3))
def test_committed_group_is_scored_like_a_single_task(commits, reveals, committed, revealed):
    commits = commits[:committed]
    reveals = [name for name in reveals if name in commits][:revealed]
    parts = build_started_task("A", "B", "C")
    for name in commits:
        parts.after(1).commits("1", name)
    for name in reveals:
        parts.after(1).discloses("1", name)
    expected = scores_of(parts.succeeds("1")) if reveals else {}

    assert scores_of(committed_group(commits, reveals)) == expected


def test_committed_error_report_is_ranked_with_the_disclosures():
    history = committed_group("ABC", "BAC", errors="B")
    assert has_scores(history, A=15, B=15, C=4)


def test_member_that_does_not_disclose_keeps_its_commitment_score():
    fold, changes = fold_history(committed_group("CAB", "AB"), RULES)
    (result,) = changes.results
    assert [(member.rank, member.score) for member in result.members] == [(2, 15), (3, 7), (1, 10)]
    assert {ledger_node.window_count for ledger_node in fold.ledger.nodes.values()} == {1}


def test_reveal_order_is_not_scored_without_round_scores():
    entries = fold_history(committed_group("ABC", "CBA"), CRYNUX)[1].scores
    assert [entry.score for entry in entries] == [10, 5, 2]


def test_reliability_stays_full_under_legacy_rules():
    history = build_started_task("A", "B").times_out("1")
    fold, changes = fold_history(history, RULES)
    assert {ledger_node.base for ledger_node in fold.ledger.nodes.values()} == {UNIT}
    assert {change.cause.value for change in changes.reliability} == {"joined"}


def test_ranks_in_a_round_depend_only_on_positions():
    history = build_started_task("A", "B", "C").commits("1", "C").commits("1", "B").succeeds("1")
    runs = fold_history(history, RULES)[0].ledger.tasks[make_task_key("1")].runs
    round_scores = compute_round_scores(runs, RULES)
    assert [scored.commitment_rank for scored in round_scores] == [None, 2, 1]
    assert [scored.task_score for scored in round_scores] == [0, 5, 10]


# Windows

NEW_MONTH = datetime(2024, 2, 1, tzinfo=UTC)


def at(history, moment):
    return history.after(int(moment.timestamp()) - history.time)


def of_window(history, name, rules=RULES):
    scored_node = fold_history(history, rules)[0].ledger.nodes[make_node_address(name)]
    return scored_node.window, scored_node.window_sum, scored_node.window_count


def test_task_counts_in_the_month_in_which_it_ends():
    history = at(History().joins("A", "B", "C"), NEW_MONTH - timedelta(seconds=10))
    ran(history, "1", "ABC", "ABC")
    assert of_window(history, "A") == (54 * 12, 20, 1)
    history = at(History().joins("A", "B", "C"), NEW_MONTH - timedelta(seconds=2))
    ran(history, "1", "ABC", "ABC")
    assert of_window(history, "A") == (54 * 12 + 1, 20, 1)


def test_new_window_starts_empty():
    history = ran(History().joins("A", "B", "C"), "1", "ABC", "ABC")
    ran(history.after(40 * 86_400), "2", "CBA", "CBA")
    assert of_window(history, "A") == (1, 4, 1)


def test_window_length_in_seconds_is_supported():
    rules = rules_with(window_seconds=100)
    history = ran(History().joins("A", "B", "C"), "1", "ABC", "ABC")
    ran(history.after(100), "2", "BCA", "BCA")
    assert of_window(history, "B", rules) == ((GENESIS_TIME + 114) // 100, 20, 1)


def test_decreasing_time_does_not_reopen_earlier_window():
    rules = rules_with(window_seconds=100)
    history = ran(History().joins("A", "B", "C"), "1", "ABC", "ABC")
    ran(history.after(-500), "2", "ABC", "ABC")
    assert of_window(history, "A", rules) == (10, 40, 2)


def test_node_kicked_out_while_due_rejoins_with_empty_window():
    history = History().joins("A", "B", "C")
    for name in "123":
        ran(history, name, "BCA", "BCA")
    history.is_kicked_out("A").is_kicked_out("B").after(5).joins("A", "B")
    assert of_window(history, "A")[1:] == (0, 0)
    # By a rule of the network.
    assert of_window(history, "B")[1:] == (60, 3)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"q_max": 19}, "^q_max: must be at least 20, the best score of two rounds$"),
        ({"penalty": UNIT // 2}, "^penalty: must be 1 under legacy rules"),
        ({"first_penalty": UNIT}, "^first_penalty: must not be set under legacy rules"),
        ({"boost": 1}, "^boost: must be 0 under legacy rules"),
        # It would let a node return with the window for which it was kicked out.
        ({"rejoin_floor": UNIT}, "^rejoin_floor: must not be set under legacy rules"),
    ],
)
def test_rules_mixing_both_systems_are_rejected(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(RULES, **changes)


@pytest.mark.parametrize(
    ("changes", "alternative"),
    [
        ({"kickout_below": 3}, "^kickout_below: set legacy.kickout_below"),
        ({"pool_size": 30}, "^pool_size: .*legacy.window_seconds .*legacy.kickout_tasks"),
        ({"zero_mean_is_new": True}, "^zero_mean_is_new: .*new_node_long_term"),
        ({"restarts": (9,)}, "^restarts: legacy keeps no pool"),
        ({"tau_seconds": 900}, "^tau_seconds: legacy has no reliability"),
        ({"rejoin_heals": True}, "^rejoin_heals: legacy has no reliability"),
        ({"error_rank": "as_reported"}, "^error_rank: in legacy three nodes share"),
        ({"least_timeout_seconds": 9}, "^least_timeout_seconds: .*legacy.least_timeout_seconds"),
    ],
)
def test_error_for_rule_unused_by_legacy_names_alternative(changes, alternative):
    with pytest.raises(ValueError, match=alternative):
        replace(RULES, **changes)
