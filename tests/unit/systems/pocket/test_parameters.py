"""Profiles are values, and settings that mean nothing are refused when they are made."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD, FlagSetAt, compute

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"expected": 0}, "expected: must be above 0"),
    ({"expected": -0.15}, "expected: must be above 0"),
    ({"expected": nan}, "expected: must be a number"),
    ({"counts_ttl": inf}, "counts_ttl: must be a number"),
    ({"cost_per_expected": 0}, "cost_per_expected: must be above 0"),
    ({"max_tickets": 0}, "max_tickets: must be 1 or more"),
    ({"max_samples": 0}, "max_samples: must be 1 or more"),
    ({"shelve_failures": 0}, "shelve_failures: must be 1 or more"),
    ({"zero_weight_attempts": 0}, "zero_weight_attempts: must be 1 or more"),
    ({"in_flight_cap": 0}, "in_flight_cap: must be 1 or more"),
    ({"counts_ttl": 0}, "counts_ttl: must be above 0"),
    ({"samples_ttl": 0}, "samples_ttl: must be above 0"),
    ({"flag_ttl": -1}, "flag_ttl: must be above 0"),
    ({"cleared_ttl": 299}, "cleared_ttl: must be flag_ttl or more"),
    ({"p90_weight": -0.3}, "p90_weight: must be 0 or more"),
    ({"p90_min_results": -1}, "p90_min_results: must be 0 or more"),
    ({"success_rate_full": 1}, "success_rate_full: must be 0 or more and below 1"),
    ({"zero_success_rate": 2}, "zero_success_rate: must be 0 or 1"),
    ({"errors_limit": -1}, "errors_limit: must be 0 or more"),
    ({"errors_counted": True}, "errors_counted: means nothing without errors_limit"),
    ({"expected_per_size": 1}, "expected_per_size: means nothing unless scaled"),
    ({"rolling_from": 20}, "rolling_from: means nothing unless scaled"),
    ({"rolling_from": 501, "scaled": True}, "rolling_from: must be max_samples or less"),
    (
        {"rolling_from": 20, "scaled": True, "expected_per_size": 1},
        "rolling_from: cannot stand beside expected_per_size",
    ),
]


@pytest.mark.parametrize(("changes", "line"), REFUSED)
def test_a_setting_that_means_nothing_is_refused_by_name(changes: dict[str, Any], line: str):
    with pytest.raises(ValueError, match=line):
        replace(ARTICLE, **changes)


def test_the_head_differs_from_the_article_in_two_rules_only():
    assert replace(ARTICLE, zero_success_rate=1, errors_limit=50) == PORTAL_API_HEAD


@pytest.mark.parametrize(("expected", "counts", "flag"), [(1, 300, 300), (60, 6000, 600)])
def test_what_slow_work_is_remembered_for_grows_with_it(expected: float, counts: float, flag: int):
    params = compute(expected)
    assert (params.counts_ttl, params.samples_ttl) == (counts, counts)
    assert (params.flag_ttl, params.cleared_ttl) == (flag, flag)
    assert params.flag_set_at is FlagSetAt.OUTCOME


def test_one_expected_duration_costs_what_it_does_in_seconds():
    assert ARTICLE.multiplier == 35
    assert compute(20).multiplier == ARTICLE.cost_per_expected
