"""The statements of the current QoS document with numbers and examples, each once.

docs/fidelity/ names the test of each statement. See docs/reference/sources.md#crynux-qos.
"""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.lanes import DO_NOT_SELECT, compute_lane_with_reliability
from oracle.domain.scoring.node_scores import (
    append_score_to_pool,
    compute_long_term_score,
    compute_node_qos,
    compute_pool_mean,
    compute_reliability,
    heal_reliability,
    is_excluded,
    is_kickout_due,
)
from oracle.domain.scoring.reliability import ReliabilityCause, change_reliability
from oracle.domain.state import Membership, Node
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.histories import (
    GENESIS_TIME,
    History,
    fold_history,
    fold_node,
    make_node_address,
)

MINUTE = 60
TENTH = UNIT // 10
reliabilities = st.integers(0, UNIT)


def qos_after(history: History, name: str) -> Fraction:
    """Return the QoS as a fraction of 1, exact to 18 digits."""
    return Fraction(compute_node_qos(fold_node(history, name), history.time, CRYNUX) or 0, UNIT)


def times_out_on(history: History, name: str, times: int) -> History:
    for n in range(times):
        history.starts(f"late {name} {n}", name).times_out(f"late {name} {n}")
    return history


def full_of(score: int) -> History:
    return History().joins("A").scores("A", *[score] * 50)


# The two factors


def test_qos_changes_with_every_task():
    history = History().joins("A")
    qos_values = [qos_after(history, "A")]
    for happens in (lambda: history.scores("A", 10), lambda: times_out_on(history, "A", 1)):
        happens()
        qos_values.append(qos_after(history, "A"))
    assert qos_values == [Fraction(1, 2), 1, Fraction(3, 10)]


def test_new_node_has_half_of_best_qos():
    assert qos_after(History().joins("A"), "A") == Fraction(1, 2)
    assert qos_after(History().joins("A").scores("A", 10), "A") == 1


def test_low_reliability_excludes_node_with_high_long_term_score():
    scored_node = fold_node(times_out_on(full_of(10), "A", 2).scores("A", 0, 0), "A")
    assert compute_long_term_score(scored_node, CRYNUX, GENESIS_TIME) == 96 * UNIT // 100
    assert is_excluded(scored_node, GENESIS_TIME, CRYNUX)


def test_long_term_score_separates_fast_from_slow_node():
    history = History().joins("fast", "slow").scores("fast", 10).scores("slow", 2)
    fast = fold_node(history, "fast")
    slow = fold_node(history, "slow")
    assert compute_reliability(fast, history.time, CRYNUX) == compute_reliability(
        slow, history.time, CRYNUX
    )
    assert [qos_after(history, name) for name in ("fast", "slow")] == [1, Fraction(1, 5)]


# Task scores and their mean


def test_claimed_hardware_does_not_affect_score():
    history = History().joins("A", gpu_name="H100", gpu_vram=80).joins("B", gpu_name="GTX 1060")
    history.starts("1", "A").starts("2", "B").after(5).submits("2").after(1).submits("1")
    _, changes = fold_history(history.closes("g", "1", "2"))
    assert {entry.node: entry.score for entry in changes.scores} == {
        make_node_address("A"): 5,
        make_node_address("B"): 10,
    }


def test_group_in_which_every_node_timed_out_leaves_the_means_unchanged():
    history = History().joins("A", "B", "C")
    for name in "ABC":
        history.starts(name, name)
    for name in "ABC":
        history.times_out(name)
    fold, _ = fold_history(history.closes("g", *"ABC"))
    assert {bytes(fold.ledger.nodes[make_node_address(name)].pool) for name in "ABC"} == {b""}
    # The mean is not affected: but a timeout lowers H, whoever caused it.
    assert {fold.ledger.nodes[make_node_address(name)].base for name in "ABC"} == {3 * TENTH}
    # In the next group A and B answer, so the silent node scores 0.
    for name in "ABC":
        history.starts(f"{name}2", name)
    history.submits("A2").submits("B2").times_out("C2")
    fold, _ = fold_history(history.closes("h", "A2", "B2", "C2"))
    assert [bytes(fold.ledger.nodes[make_node_address(name)].pool) for name in "ABC"] == [
        b"\n",
        b"\5",
        b"\0",
    ]


def penalize(reliability: int) -> int:
    return change_reliability(ReliabilityCause.TIMED_OUT, reliability, CRYNUX)


def boost(reliability: int) -> int:
    return change_reliability(ReliabilityCause.SUCCEEDED, reliability, CRYNUX)


@given(st.lists(st.sampled_from((0, 2, 5, 10)), min_size=50, max_size=50), st.integers(0, 10))
def test_one_score_changes_the_mean_of_a_full_pool_by_at_most_2_percent(scores, new):
    before = bytes(scores)
    after = append_score_to_pool(before, new, CRYNUX)
    assert len(after) == 50
    assert abs(sum(after) - sum(before)) * UNIT // (50 * CRYNUX.q_max) <= UNIT // 50


def test_faster_hardware_raises_mean_to_maximum():
    pool = fold_node(full_of(2), "A").pool
    means = []
    for _ in range(50):
        pool = append_score_to_pool(pool, 10, CRYNUX)
        means.append(compute_pool_mean(pool, None, CRYNUX))
    assert means == sorted(set(means))
    assert (means[0], means[-1]) == (216 * UNIT // 1000, UNIT)


def test_good_node_becomes_due_for_kickout_after_41_scores_of_0():
    # 50 scores of 10: the sum stays at 100 or more until the 41st zero.
    history = full_of(10).scores("A", *[0] * 40)
    assert not is_kickout_due(fold_node(history, "A"), CRYNUX)
    assert is_kickout_due(fold_node(history.scores("A", 0), "A"), CRYNUX)


# H: the cost of a timeout


@pytest.mark.parametrize(("timeouts", "h"), [(0, "1"), (1, "0.3"), (2, "0.09"), (3, "0.027")])
def test_consecutive_timeouts_leave_documented_reliability(timeouts, h):
    history = times_out_on(full_of(10), "A", timeouts)
    scored_node = fold_node(history, "A")
    assert compute_reliability(scored_node, history.time, CRYNUX) == Fraction(h) * UNIT
    assert qos_after(history, "A") == Fraction(h)
    assert is_excluded(scored_node, history.time, CRYNUX) is (timeouts >= 2)


@given(reliabilities)
def test_two_timeouts_leave_less_than_10_percent_of_reliability(h):
    twice = change_reliability(
        ReliabilityCause.TIMED_OUT,
        penalize(h),
        CRYNUX,
    )
    assert twice * 10 < h or h == 0


@given(reliabilities)
def test_timeout_leaves_30_percent_of_reliability(h):
    assert penalize(h) == h * 3 // 10


def test_single_timeout_does_not_exclude_healthy_node():
    once, twice = (fold_node(times_out_on(full_of(10), "A", n), "A") for n in (1, 2))
    assert not is_excluded(once, once.since, CRYNUX)
    assert is_excluded(twice, twice.since, CRYNUX)


def test_excluded_node_is_reported_as_do_not_select():
    excluded_node = fold_node(times_out_on(full_of(10), "A", 2), "A")
    lanes = []
    for time in (excluded_node.since, excluded_node.since + 30 * MINUTE):
        reliability = compute_reliability(excluded_node, time, CRYNUX)
        lanes.append(compute_lane_with_reliability(excluded_node, reliability, time, CRYNUX, None))
    assert lanes[0] == DO_NOT_SELECT < lanes[1]


@given(reliabilities)
def test_exclusion_begins_strictly_below_10_percent(h):
    joined_node = fold_node(History().joins("A"), "A")
    joined_node.base = h
    assert is_excluded(joined_node, joined_node.since, CRYNUX) is (h < TENTH)


# Recovery of H


@pytest.mark.parametrize(("minutes", "percent"), [(30, 63), (60, 86), (90, 95)])
@pytest.mark.parametrize("base", [0, 27 * UNIT // 1000, 3 * TENTH])
def test_waiting_restores_the_documented_share_of_reliability(minutes, percent, base):
    h = heal_reliability(base, 0, minutes * MINUTE, CRYNUX)
    assert round(Fraction(100 * (h - base), UNIT - base)) == percent


def test_reliability_of_an_idle_node_recovers_up_to_the_maximum():
    penalised_node = fold_node(times_out_on(full_of(10), "A", 3), "A")
    reliabilities = [
        compute_reliability(penalised_node, penalised_node.since + hours * 3600, CRYNUX)
        for hours in range(24)
    ]
    assert reliabilities == sorted(reliabilities)
    assert 999 * UNIT // 1000 < reliabilities[-1] <= UNIT


def test_excluded_node_recovers_by_waiting():
    excluded_node = fold_node(times_out_on(full_of(10), "A", 2), "A")
    # 0.09 needs a good 20 seconds to reach 0.1.
    assert is_excluded(excluded_node, excluded_node.since + 19, CRYNUX)
    assert not is_excluded(excluded_node, excluded_node.since + 20, CRYNUX)


@given(reliabilities)
def test_success_adds_15_percent_reliability_up_to_the_maximum(h):
    assert boost(h) == min(UNIT, h + 15 * UNIT // 100)


def test_success_restores_as_much_as_435_seconds_of_waiting():
    low = 3 * TENTH
    waited = next(s for s in range(3600) if heal_reliability(low, 0, s, CRYNUX) >= boost(low))
    assert waited == 435


@pytest.mark.parametrize(("h", "gain"), [(TENTH, "1.5"), (3 * TENTH, "0.5")])
def test_success_gain_is_large_at_low_reliability(h, gain):
    assert Fraction(boost(h) - h, h) == Fraction(gain)


def test_consecutive_successes_restore_full_reliability():
    history = times_out_on(full_of(10), "A", 1)
    qos_values = [qos_after(history, "A")]
    for n in range(5):
        history.starts(f"good {n}", "A").succeeds(f"good {n}")
        qos_values.append(qos_after(history, "A"))
    assert qos_values == [Fraction(h) for h in ("0.3", "0.45", "0.6", "0.75", "0.9", "1")]


def test_first_join_starts_with_full_reliability():
    history = History().starts("1", "A").times_out("1").after(1).joins("A")
    assert compute_reliability(fold_node(history, "A"), history.time, CRYNUX) == UNIT


# Kickout


@given(st.integers(0, 49))
def test_node_with_incomplete_pool_is_not_due_for_kickout(count):
    joined_node = fold_node(History().joins("A"), "A")
    joined_node.pool = bytes(count)
    joined_node.pool_sum = 0
    assert not is_kickout_due(joined_node, CRYNUX)
    joined_node.pool = bytes(50)
    assert is_kickout_due(joined_node, CRYNUX)


def test_kicked_out_node_has_no_qos():
    kicked_out_node: Node = fold_node(full_of(0).is_kicked_out("A"), "A")
    assert kicked_out_node.membership is Membership.KICKED_OUT
    assert compute_node_qos(kicked_out_node, kicked_out_node.since, CRYNUX) is None


def test_kickout_and_slash_lead_to_different_membership_states():
    kicked = full_of(0).is_kicked_out("A")
    slashed = full_of(0).is_slashed("A")
    assert [fold_node(history, "A").membership for history in (kicked, slashed)] == [
        Membership.KICKED_OUT,
        Membership.SLASHED,
    ]


def test_short_burst_of_failures_does_not_lead_to_a_kickout():
    history = times_out_on(full_of(5), "A", 3)
    penalised_node = fold_node(history, "A")
    assert not is_kickout_due(penalised_node, CRYNUX)
    assert penalised_node.membership is Membership.MEMBER
    assert (
        compute_reliability(penalised_node, history.time + 120 * MINUTE, CRYNUX) > 98 * UNIT // 100
    )
