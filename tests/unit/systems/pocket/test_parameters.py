"""Parameters are immutable values, and invalid settings are rejected on creation."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from oracle.systems.pocket.parameters import ARTICLE, PORTAL_API_HEAD, Parameters

COMMON: list[tuple[dict[str, Any], str]] = [
    ({"expected": 0}, "expected: must be above 0"),
    ({"expected": -0.15}, "expected: must be above 0"),
    ({"expected": nan}, "expected: must be a number"),
    ({"p90_weight": inf}, "p90_weight: must be a number"),
    ({"cost_per_expected": 0}, "cost_per_expected: must be above 0"),
    ({"max_tickets": 0}, "max_tickets: must be 1 or more"),
    ({"p90_weight": -0.3}, "p90_weight: must be 0 or more"),
    ({"p90_min_results": -1}, "p90_min_results: must be 0 or more"),
    ({"success_rate_full": 1}, "success_rate_full: must be 0 or more and below 1"),
]
OF_THE_ARTICLE: list[tuple[dict[str, Any], str]] = [
    ({"window_ms": 0}, "window_ms: must be above 0"),
    ({"out_ms_per_failure": 0}, "out_ms_per_failure: must be above 0"),
    ({"out_cap_ms": 5_999}, "out_cap_ms: must be out_ms_per_failure or more"),
]
OF_THE_PORTAL: list[tuple[dict[str, Any], str]] = [
    ({"max_samples": 0}, "max_samples: must be 1 or more"),
    ({"shelve_failures": 0}, "shelve_failures: must be 1 or more"),
    ({"zero_weight_attempts": 0}, "zero_weight_attempts: must be 1 or more"),
    ({"counts_ttl_ms": 0}, "counts_ttl_ms: must be above 0"),
    ({"samples_ttl_ms": 0}, "samples_ttl_ms: must be above 0"),
    ({"flag_ttl_ms": -1}, "flag_ttl_ms: must be above 0"),
    ({"cleared_ttl_ms": 299_999}, "cleared_ttl_ms: must be flag_ttl_ms or more"),
    ({"zero_success_rate": 2}, "zero_success_rate: must be 0 or 1"),
]
REFUSED = [
    *((ARTICLE, *case) for case in (*COMMON, *OF_THE_ARTICLE)),
    *((PORTAL_API_HEAD, *case) for case in (*COMMON, *OF_THE_PORTAL)),
]


@pytest.mark.parametrize(("params", "changes", "line"), REFUSED)
def test_invalid_parameter_is_named_in_the_error(
    params: Parameters, changes: dict[str, Any], line: str
):
    with pytest.raises(ValueError, match=line):
        replace(params, **changes)


def test_exclusion_time_per_failure_is_window_divided_by_50():
    assert ARTICLE.out_ms_per_failure * PORTAL_API_HEAD.shelve_failures == ARTICLE.out_cap_ms
    assert ARTICLE.out_cap_ms == ARTICLE.window_ms == 5 * 60 * 1000


def test_cost_per_expected_duration_is_constant():
    assert ARTICLE.multiplier == 35
    assert replace(ARTICLE, expected=20).multiplier * 20 == ARTICLE.cost_per_expected
