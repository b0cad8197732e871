"""A benchmark reports its target as reached only at the target's own size."""

import json

import pytest

from benchmarks import outcome
from benchmarks.outcome import MISSED_EXIT_CODE, Outcome

REACHED = Outcome("selection", 4.0, "ms", 5.0, 40.0, "judging every node anew")


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "reached"),
        ({"value": 5.5}, "MISSED"),
        ({"target": None}, "no target"),
        ({"target_size": "100,000 nodes"}, "counts at 100,000 nodes"),
        ({"target_size": "100,000 nodes", "value": 5.5}, "counts at 100,000 nodes"),
    ],
)
def test_benchmark_target_is_checked_only_at_its_own_size(changes, verdict):
    assert REACHED._replace(**changes).verdict == verdict


def test_missed_benchmark_target_sets_the_exit_code(capsys):
    outcome.begin_benchmark("nothing")

    assert outcome.finish_benchmark([REACHED]) == 0
    assert outcome.finish_benchmark([REACHED, REACHED._replace(value=5.5)]) == MISSED_EXIT_CODE
    assert "10 times faster than judging every node anew" in capsys.readouterr().out


def test_results_are_appended_to_the_results_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(outcome.RESULTS_VARIABLE, str(tmp_path / "results"))
    outcome.finish_benchmark([REACHED])
    outcome.finish_benchmark([REACHED])

    lines = (tmp_path / "results").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        ["selection", 4.0, "ms", 5.0, 10.0, "reached"]
    ] * 2
    assert "target 5: reached" in capsys.readouterr().out
