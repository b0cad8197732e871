"""Systems compared: ranks, sums, Gini, differing rules; the same with any number of jobs."""

import pytest

from lab.backtest import worker_pool
from lab.backtest.backtest import BacktestPlan, compare_systems_on_events
from lab.backtest.comparison import list_rule_differences
from lab.backtest.system_columns import Setting, SystemBase, build_columns
from oracle.domain.fixed_point import UNIT
from oracle.errors import InputError
from tests.support.histories import History, make_node_address
from tests.support.txmgr.backtests import Bench


def columns(*names, changes=()):
    bases = [SystemBase.from_name(name) for name in names]
    return build_columns(bases, [Setting.parse(text) for text in changes])[0]


def two_of_unequal_luck():
    """Return a history in which B is always fast and A often late."""
    history = History().joins("A", "B", stake=10**18, gpu_vram=24)
    history.scores("B", 10, 10).scores("A", 0, 2)
    return history.after(10).creates("1").starts("1", "A").after(1).times_out("1")


def test_highest_score_has_rank_1():
    (side,) = compare_systems_on_events(
        two_of_unequal_luck().events, columns("crynux"), BacktestPlan()
    ).results
    best = side.final_ranks[make_node_address("B")]
    runner_up = side.final_ranks[make_node_address("A")]
    assert (best.score, best.rank) == (UNIT, 1)
    assert runner_up.score < UNIT
    assert runner_up.rank > 1


def test_departed_node_has_no_rank():
    history = two_of_unequal_luck().quits("B")
    (side,) = compare_systems_on_events(history.events, columns("crynux"), BacktestPlan()).results
    assert make_node_address("B") not in side.final_ranks
    assert make_node_address("A") in side.final_ranks


def test_correlation_of_system_with_itself_is_1():
    compared = compare_systems_on_events(
        two_of_unequal_luck().events, columns("crynux", "relay"), BacktestPlan()
    )
    crynux, _ = compared.results
    assert compared.compute_rank_correlation(crynux, crynux) == UNIT


def test_exclusion_totals_are_computed_for_each_system():
    history = History().joins("A").starts("1", "A").starts("2", "A").after(10)
    history.times_out("1").times_out("2").after(7).joins("B")
    crynux, relay = compare_systems_on_events(
        history.events, columns("crynux", "relay"), BacktestPlan()
    ).results
    assert (crynux.exclusion.node_count, crynux.exclusion.interval_count) == (1, 1)
    assert (crynux.exclusion.total_seconds, crynux.exclusion.longest_seconds) == (7, 7)
    # Its first timeout costs little: 0.95, then 0.285, which is above the 0.2 of the rule.
    assert relay.exclusion.interval_count == 0


def test_gini_of_equal_expected_shares_is_zero():
    history = History().joins("A", "B", stake=10**18)
    history.starts("1", "A").aborts("1").starts("2", "A").aborts("2")
    (side,) = compare_systems_on_events(history.events, columns("crynux"), BacktestPlan()).results
    assert (side.gini_expected, side.gini_actual) == (0, UNIT // 2)
    assert (
        side.compute_expected_share(make_node_address("A"))
        == side.compute_expected_share(make_node_address("B"))
        == UNIT // 2
    )
    assert (
        side.compute_actual_share(make_node_address("A")),
        side.compute_actual_share(make_node_address("B")),
    ) == (
        UNIT,
        0,
    )


def test_comparison_without_evaluated_starts_has_no_expected_shares():
    history = History().joins("A").starts("1", "A")
    compared = compare_systems_on_events(
        history.events, columns("crynux"), BacktestPlan(max_starts=0)
    )
    (side,) = compared.results
    assert (
        compared.judged,
        side.gini_expected,
        side.compute_expected_share(make_node_address("A")),
    ) == (
        0,
        None,
        None,
    )
    assert side.compute_actual_share(make_node_address("A")) == UNIT


def test_number_of_evaluated_starts_matches_the_request():
    history = History().joins("A", "B")
    for name in map(str, range(20)):
        history.starts(name, "A").aborts(name)
    assert (
        compare_systems_on_events(
            history.events, columns("crynux"), BacktestPlan(max_starts=7)
        ).judged
        == 7
    )


def test_only_differing_rules_are_listed():
    differences = list_rule_differences(
        columns("crynux", "relay", changes=["penalty=0.5", "relay:tau_seconds=60"])
    )
    assert differences["tau_seconds"] == ["1800", "60"]
    assert differences["exclude_exit"] == ["0.1", "0.8"]
    assert "penalty" not in differences
    assert "name" not in differences


def test_differing_policy_settings_are_listed_with_rules():
    differences = list_rule_differences(
        columns("crynux", "relay", "article", changes=["crynux:weight_floor=0.01"])
    )
    assert differences["weight_floor"] == ["0.01", "0", "-"]
    assert differences["disk_boost"] == ["0.7", "0", "-"]
    assert "memory_boost" not in differences
    # No other node has tickets, so there is no difference.
    assert "max_tickets" not in differences
    differences = list_rule_differences(columns("article", "portal_api_head"))
    assert differences == {"needs_stake": ["true", "false"]}


def silent_after_joining():
    """Return a history in which A never answers, and B runs all successful tasks."""
    history = History().joins("A", "B", stake=10**18)
    return history.scores("A", 0).after(90_000).starts("1", "B")


def test_node_with_zero_mean_gets_a_share_only_with_a_weight_floor():
    bases = [
        SystemBase.from_name("crynux").with_changes(["weight_floor=0"]),
        SystemBase.from_name("crynux"),
    ]
    backtest_plan = BacktestPlan(first_block=silent_after_joining().block)
    sides = compare_systems_on_events(
        silent_after_joining().events, build_columns(bases, [])[0], backtest_plan
    ).results
    bare, floored = (side.compute_expected_share(make_node_address("A")) for side in sides)
    assert bare == 0
    assert floored is not None
    assert floored > 0


def test_ticket_score_is_relative_to_the_maximum_number_of_tickets():
    history = History().joins("A", "B", stake=10**18)
    changed = columns("article", changes=["max_tickets=20"])
    (side,) = compare_systems_on_events(history.events, changed, BacktestPlan()).results
    (bare,) = compare_systems_on_events(history.events, columns("article"), BacktestPlan()).results
    assert (
        side.final_ranks[make_node_address("A")].score
        == bare.final_ranks[make_node_address("A")].score
        == UNIT
    )


@pytest.mark.slow
def test_one_process_and_two_processes_produce_same_comparison(monkeypatch):
    monkeypatch.setattr(worker_pool, "MIN_PARALLEL_EVENTS", 0)
    events = two_of_unequal_luck().events
    both = columns("crynux", "relay")
    single_job = compare_systems_on_events(
        events, both, BacktestPlan(max_processes=1, instant_count=5)
    )
    two = compare_systems_on_events(events, both, BacktestPlan(max_processes=2, instant_count=5))
    assert single_job.results == two.results
    assert single_job.instants == two.instants == tuple(sorted(single_job.instants))


def test_last_progress_report_counts_all_events_of_all_columns():
    progress_calls = []
    events = two_of_unequal_luck().events
    compare_systems_on_events(
        events,
        columns("crynux", "relay"),
        BacktestPlan(),
        lambda *progress: progress_calls.append(progress),
    )
    assert progress_calls[0] == ("reading", len(events), None)
    assert progress_calls[-1] == ("folding", 2 * len(events), 2 * len(events))


def test_empty_history_is_rejected():
    with pytest.raises(InputError, match="empty"):
        compare_systems_on_events([], columns("crynux"), BacktestPlan())


def test_legacy_rules_score_node_relative_to_its_peers(tmp_path):
    changes = ("legacy.vram_weight=1", "legacy.timeout_weight=0", "legacy.speed_weight=0")
    more = ("legacy.least_timeout_seconds=1", "legacy.kickout_below=0", "legacy.kickout_tasks=1")
    (column,) = columns("legacy", changes=changes + more)
    history = History().joins("A", gpu_vram=8).joins("B", gpu_vram=16)
    measurement = Bench(tmp_path).measure(history, column.rules)
    assert [end.score for end in measurement.nodes] == [UNIT // 2, UNIT]
