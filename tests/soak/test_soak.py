"""The soaks in bounded form; `make soak` and `make reporters` run them for a million events."""

import json
import os
import subprocess
import sys

import pytest

from tests.soak.reporters import Result
from tests.soak.run import ROOT

EVENTS = 10_000
# Its own tables and pages need less; two kilobytes kept per event would need more.
MOST_MB = 24


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_long_run_with_failing_endpoints_keeps_all_logs_and_bounded_memory():
    command = [sys.executable, "-m", "tests.soak.run", "--events", str(EVENTS)]
    command += ["--most-mb", str(MOST_MB)]

    # One arena: the unused memory of several depends on the timing of threads.
    told_to = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    ran = subprocess.run(
        command, cwd=ROOT, env=told_to, capture_output=True, text=True, check=False
    )

    assert ran.returncode in {0, 1}, ran.stderr
    figures = json.loads(ran.stdout)
    assert figures["logs_equal_chain"]
    assert figures["state_equals_rebuild"]
    assert figures["rewinds"] > 0
    assert figures["spoiled"] > 20
    assert figures["end_mb"] - figures["warm_mb"] <= MOST_MB, figures


@pytest.mark.parametrize(("rounds", "is_agreement"), [(0, False), (1, True)])
def test_soak_run_counts_as_agreement_only_if_rounds_were_accepted(
    rounds: int, *, is_agreement: bool
):
    result = Result(
        rounds=rounds,
        reports_are_equal=True,
        rounds_are_the_reporters=True,
        states_are_equal=True,
        state_equals_rebuild=True,
    )
    assert result.is_agreement is is_agreement


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_three_reporters_with_forks_and_restarts_produce_identical_roots():
    command = [sys.executable, "-m", "tests.soak.reporters", "--events", str(3 * EVENTS)]

    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode in {0, 1}, ran.stderr
    result = json.loads(ran.stdout)
    assert result["reports_are_equal"]
    assert result["rounds_are_the_reporters"]
    assert result["states_are_equal"]
    assert result["state_equals_rebuild"]
    assert result["rounds"] > 5
    assert result["moved_rounds"] > 0
    assert all(reporter["rewinds"] > 0 for reporter in result["reporters"])
    assert sum(reporter["absences"] for reporter in result["reporters"]) > 0
