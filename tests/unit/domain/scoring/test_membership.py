"""Nodes join, leave and join again, and keep parts of their record.

See docs/reference/scoring-rules.md#reliability and
docs/reference/scoring-rules.md#qos-and-kickout.
"""

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_node_qos,
    get_status,
    is_excluded,
    is_kickout_due,
)
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.histories import History, fold_history, fold_node, make_node_address


@pytest.mark.parametrize(
    ("status", "history"),
    [
        ("available", lambda: History().joins("A")),
        ("busy", lambda: History().joins("A").starts("1", "A")),
        ("available", lambda: History().joins("A").starts("1", "A").aborts("1")),
        ("busy", lambda: History().joins("A").starts("1", "A").starts("2", "A").succeeds("1")),
        ("paused", lambda: History().joins("A").starts("1", "A").pauses("A")),
        ("available", lambda: History().joins("A").pauses("A").resumes("A")),
        ("quit", lambda: History().joins("A").starts("1", "A").quits("A")),
        ("slashed", lambda: History().joins("A").pauses("A").is_slashed("A")),
        ("kicked_out", lambda: History().joins("A").is_kicked_out("A")),
        ("unknown", lambda: History().starts("1", "A")),
        ("unknown", lambda: History().updates("A", gpu_vram=8)),
        ("available", lambda: History().joins("A").pauses("A").quits("A").joins("A")),
    ],
)
def test_node_status_follows_last_event(status, history):
    assert get_status(fold_node(history(), "A")) == status


def test_departed_node_has_no_qos():
    departed_node = fold_node(History().joins("A").starts("1", "A").times_out("1").quits("A"), "A")
    assert compute_node_qos(departed_node, 10**6, CRYNUX) is None
    assert not is_excluded(departed_node, 0, CRYNUX)


def test_node_whose_join_was_not_seen_is_scored():
    scored_node = fold_node(History().scores("A", 10).starts("1", "A").times_out("1"), "A")
    assert (scored_node.pool, scored_node.base) == (bytes([10]), 3 * UNIT // 10)


def test_scores_after_quit_are_kept():
    history = History().joins("A").starts("1", "A").after(3).submits("1").quits("A")
    history.closes("g", "1").succeeds("1")
    assert fold_node(history, "A").pool == bytes([10])


def test_node_update_replaces_only_its_fields():
    history = History().joins("A", stake=5, gpu_name="X", models=("a",), version=(1, 2, 3))
    history.updates("A", stake=7).adds_model("A", "b").adds_model("A", "b")
    updated_node = fold_node(history, "A")
    assert (updated_node.stake, updated_node.gpu_name, updated_node.models) == (7, "X", ("a", "b"))
    assert updated_node.version == (1, 2, 3)


def test_models_in_use_are_those_of_the_last_started_task():
    history = History().creates("1", models=("x",)).creates("2", models=("y",))
    history.starts("1", "A").succeeds("1").starts("2", "A")
    assert fold_node(history, "A").in_use == ("y",)


# Kickouts


def intervals(history, rules=CRYNUX):
    _, changes = fold_history(history, rules)
    return [
        (interval.opened_at, interval.closed_at)
        for interval in changes.kickouts
        if interval.node == make_node_address("A")
    ]


def test_node_that_always_ranks_third_is_not_due_for_kickout():
    history = History().joins("A").scores("A", *[2] * 60)
    assert not is_kickout_due(fold_node(history, "A"), CRYNUX)
    assert intervals(history) == []
    assert is_kickout_due(fold_node(history.scores("A", 0), "A"), CRYNUX)


def test_kickout_interval_opens_when_a_low_pool_becomes_full():
    history = History().joins("A").scores("A", *[2] * 48, 0)
    assert intervals(history) == []

    history.scores("A", 2)
    scored_node = fold_node(history, "A")
    ((opened, closed),) = intervals(history)
    assert is_kickout_due(scored_node, CRYNUX)
    assert scored_node.kickout_due_since == opened
    assert closed is None


def test_kickout_interval_closes_when_the_pool_improves():
    history = History().joins("A").scores("A", 0, *[2] * 49).scores("A", 2)
    (opened, _), (again, closed) = intervals(history)
    assert opened == again
    assert closed is not None
    assert fold_node(history, "A").kickout_due_since is None


def test_kickout_stays_due_through_quit_and_rejoin():
    history = History().joins("A").scores("A", 0, *[2] * 49)
    opened_at = fold_node(history, "A").kickout_due_since
    for away in (history.quits("A"), history.joins("A")):
        due_node = fold_node(away, "A")
        assert is_kickout_due(due_node, CRYNUX)
        assert due_node.kickout_due_since == opened_at
    assert intervals(history) == [(opened_at, None)]


def test_late_score_of_a_departed_node_closes_its_kickout_interval():
    history = History().joins("A").scores("A", 0, *[2] * 49).starts("x", "A").starts("y", "B")
    history.quits("A").submits("x").submits("y").closes("g", "x", "y")
    (_, _), (_, closed_at) = intervals(history)
    assert closed_at is not None
    assert not is_kickout_due(fold_node(history, "A"), CRYNUX)


def test_departed_node_becomes_due_for_kickout_only_after_rejoining():
    history = History().joins("A").scores("A", *[0] * 49).starts("x", "A").starts("y", "B")
    history.quits("A").submits("x").submits("y").closes("g", "x", "y")
    quit_node = fold_node(history, "A")
    assert (len(quit_node.pool), quit_node.kickout_due_since) == (50, None)
    assert not is_kickout_due(quit_node, CRYNUX)

    history.joins("A")
    assert fold_node(history, "A").kickout_due_since == history.events[-1].at


@pytest.mark.parametrize("leaves", [History.is_slashed, History.is_kicked_out])
def test_kickout_or_slash_closes_the_kickout_interval(leaves):
    history = leaves(History().joins("A").scores("A", 0, *[2] * 49), "A")
    (_, _), (_, closed_at) = intervals(history)
    assert closed_at == history.events[-1].at


def test_low_reliability_alone_never_makes_a_kickout_due():
    history = History().joins("A").scores("A", *[10] * 50)
    for n in range(20):
        history.starts(str(n), "A").times_out(str(n))
    scored_node = fold_node(history, "A")
    assert is_excluded(scored_node, history.time, CRYNUX)
    assert not is_kickout_due(scored_node, CRYNUX)
    assert intervals(history) == []
    assert len(intervals(history.scores("A", *[0] * 50))) == 1


def test_zero_mean_counts_as_an_empty_pool_only_under_relay_rules():
    scored_node = fold_node(History().joins("A").scores("A", 0, 0), "A", RELAY)
    assert compute_long_term_score(scored_node, RELAY, 0) == UNIT // 2
    assert compute_long_term_score(scored_node, CRYNUX, 0) == 0


def test_relay_restart_keeps_the_mean_and_clears_a_due_kickout():
    history = History().joins("A").scores("A", *[0] * 49, 10)
    scored_node = fold_node(history, "A", RELAY)
    assert is_kickout_due(scored_node, RELAY)

    restarting = RELAY.from_json(RELAY.to_json().replace("[]", f"[{history.time + 9}]"))
    assert is_kickout_due(scored_node, restarting, history.time + 8)
    assert not is_kickout_due(scored_node, restarting, history.time + 9)
    assert compute_long_term_score(scored_node, restarting, history.time + 8) == UNIT // 50
    # The relay's database has the mean of 0.2 until the next score, which truncates it to 0.
    assert compute_long_term_score(scored_node, restarting, history.time + 9) == UNIT // 50


def test_prior_mean_fills_the_pool_once_after_a_rejoin():
    history = History().joins("A").scores("A", 0, 2).quits("A").joins("A").scores("A", 10, 5)
    rejoined_node = fold_node(history, "A", RELAY)
    assert rejoined_node.pool == bytes([3] * 48 + [10, 5])
    assert rejoined_node.prior is None
