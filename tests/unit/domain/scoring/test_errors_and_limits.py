"""The score of an error report in a group, and timeouts that are too short to be credible.

See docs/reference/scoring-rules.md#task-groups and
docs/reference/scoring-rules.md#limits-that-are-not-believed.
"""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.node_scores import compute_reliability
from oracle.systems.crynux.crynux_rule_sets import RELAY
from tests.support.histories import (
    History,
    build_changed_rules,
    fold_history,
    fold_node,
    make_node_address,
)
from tests.unit.domain.scoring.test_groups import NAMES, list_ranked_members, of_three


def failed_first():
    """Return a history in which B reports an error at once, before A and C have results."""
    history = of_three().after(1).reports_error("2").after(1).submits("1").after(1).submits("3")
    return history.closes("g", *NAMES)


def test_immediate_error_report_ranks_below_results():
    assert list_ranked_members(failed_first()) == [(1, 2, 10), (3, 1, 2), (2, 3, 5)]


def test_relay_ranks_an_immediate_error_report_first():
    assert list_ranked_members(failed_first(), RELAY) == [(2, 2, 5), (1, 1, 10), (3, 3, 2)]


def test_errors_rank_by_time_if_there_is_no_result():
    history = of_three().after(1).reports_error("2").after(1).reports_error("1").after(9)
    assert list_ranked_members(history.closes("g", *NAMES)) == [
        (2, 2, 5),
        (1, 1, 10),
        (None, None, 0),
    ]


@given(st.permutations(NAMES), st.sets(st.sampled_from(NAMES)))
def test_errors_rank_after_results_by_time(order, failing):
    history = of_three()
    for name in order:
        history.after(1)
        (history.reports_error if name in failing else history.submits)(name)
    ranks = dict(zip(NAMES, list_ranked_members(history.closes("g", *NAMES)), strict=True))
    results = [name for name in order if name not in failing]
    errors = [name for name in order if name in failing]
    assert sorted(NAMES, key=lambda name: ranks[name][0]) == results + errors


# Timeouts that are not credible

# The verdict decides which answers rank (test_verdicts.py); here all of them do.
ALL = build_changed_rules(ranked_answers="all")
DOUBTING = replace(ALL, least_timeout_seconds=60)


def impossible(limit):
    """Return a history in which two of three nodes cannot meet the limit."""
    history = History().joins("A", "B", "C").creates(*NAMES, timeout=limit)
    history.starts("1", "A").starts("2", "B").starts("3", "C").after(1).submits("3")
    return history.after(1).times_out("1").closes("g", *NAMES).after(1).times_out("2")


def test_timeout_with_a_too_short_time_limit_has_no_effect():
    fold, changes = fold_history(impossible(59), DOUBTING)
    assert list_ranked_members(impossible(59), DOUBTING) == [
        (None, None, None),
        (None, None, None),
        (1, 1, 10),
    ]
    victims = [fold.ledger.nodes[make_node_address(name)] for name in "AB"]
    assert [(victim.pool, victim.base, victim.since) for victim in victims] == 2 * [
        (b"", UNIT, 1000)
    ]
    # It is counted, and listed at its position.
    assert [anomaly.rule for anomaly in changes.anomalies] == 2 * ["limit_not_believed"]
    void = [change for change in changes.reliability if change.cause == "timeout_void"]
    assert [(change.node, change.before, change.after) for change in void] == [
        (make_node_address("A"), UNIT, UNIT),
        (make_node_address("B"), UNIT, UNIT),
    ]


@pytest.mark.parametrize("limit", [60, None])
def test_timeout_with_a_sufficient_or_no_time_limit_counts(limit):
    fold, changes = fold_history(impossible(limit), DOUBTING)
    assert [bytes(fold.ledger.nodes[make_node_address(name)].pool) for name in "ABC"] == [
        bytes([0]),
        bytes([0]),
        bytes([10]),
    ]
    assert changes.anomalies == []


def test_timeout_counts_with_any_time_limit_by_default():
    fold, changes = fold_history(impossible(1))
    assert fold.ledger.nodes[make_node_address("A")].base == 3 * UNIT // 10
    assert changes.anomalies == []


@given(st.integers(0, 10**5), st.integers(0, 10**5))
def test_void_timeout_does_not_change_the_recovery_of_reliability(wait, later):
    """H is the same to the last digit as without the timeout."""
    with_void_timeout = History().joins("A").starts("0", "A").times_out("0")
    with_void_timeout.creates("1", timeout=1).starts("1", "A").after(wait).times_out("1")
    without_timeout = History().joins("A").starts("0", "A").times_out("0")
    node_with, node_without = (
        fold_node(history, "A", DOUBTING) for history in (with_void_timeout, without_timeout)
    )
    time = with_void_timeout.time + later
    assert compute_reliability(node_with, time, DOUBTING) == compute_reliability(
        node_without, time, DOUBTING
    )
