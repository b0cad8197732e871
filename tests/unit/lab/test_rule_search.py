"""Goals, and the search for rule values that come closer to a goal."""

import pytest

from lab.backtest.system_columns import SystemBase
from lab.closed_loop.rule_measures import MEASURES, Goal
from lab.closed_loop.rule_search import ComparisonPlan, SearchPlan, measure_systems, search_rules
from oracle.domain.fixed_point import UNIT
from tests.support.loops import build_column_from_text, build_small_plan

PLAN = ComparisonPlan(build_small_plan(tasks=300, nodes=20))


def test_first_system_has_distance_1_for_every_goal():
    (measurement,) = measure_systems([build_column_from_text()], PLAN)
    for name, measure in MEASURES.items():
        assert Goal.parse(name).compute_distance(measurement, measurement) == (
            UNIT if measure(measurement) else 0
        )


def test_distance_for_a_goal_is_the_weighted_mean_of_its_measures():
    first, second = measure_systems(
        [build_column_from_text(), build_column_from_text("crynux weight_floor=4")], PLAN
    )
    failures = Goal.parse("failures").compute_distance(second, first)
    gini = Goal.parse("gini").compute_distance(second, first)
    both = Goal.parse("failures=3,gini").compute_distance(second, first)
    assert (
        both
        == (3 * MEASURES["failures"](second) * UNIT // MEASURES["failures"](first) + gini) // 4
    )
    assert min(failures, gini) <= both <= max(failures, gini)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("luck", "unknown measure 'luck'"),
        ("gini,gini", "gini: this measure is given twice"),
        ("gini=0", "gini: the weight must be"),
        ("gini=0.5", "gini: the weight must be"),
    ],
)
def test_invalid_goal_is_named_in_the_error(text, message):
    with pytest.raises(ValueError, match=message):
        Goal.parse(text)


@pytest.mark.slow
def test_search_returns_nearest_trial_within_max_trials():
    values = {"weight_floor": ["0", "0.01", "1"], "tau_seconds": ["900", "3600"]}
    search_plan = SearchPlan(
        SystemBase.from_name("crynux"), values, Goal.parse("wasted,failures"), max_trials=5
    )
    searched = search_rules(search_plan, PLAN)
    assert len(searched.trials) <= 5
    assert searched.first_trial.changes == {}
    assert searched.best.distance == min(trial.distance for trial in searched.trials) <= UNIT
    assert search_rules(search_plan, PLAN) == searched
