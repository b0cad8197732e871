"""Prometheus can read its configuration; every alert fires exactly when it should."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric, generate_latest
from prometheus_client.registry import Collector

from oracle.domain.health import Condition, Severity
from oracle.telemetry import metrics
from reference.metrics_page import fill_registry
from tests.house.ops.alert_cases import ALWAYS, CASES, AlertCase

FOLDER = Path(__file__).resolve().parents[3] / "ops" / "prometheus"
ALERTS = FOLDER / "alerts.yml"

with_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and "QOS_ORACLE_TESTS_SKIP_NOTHING" not in os.environ,
    reason="promtool is not installed; CI has it",
)


def promtool(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("promtool") or "promtool", *arguments],
        cwd=FOLDER,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@with_promtool
@pytest.mark.parametrize(("what", "name"), [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_accepts_shipped_files(what, name):
    checked = promtool("check", what, name)
    assert checked.returncode == 0, checked.stderr


@with_promtool
def test_promtool_reports_no_problem_with_any_metric():
    # The HELP line of a family is exported only with a sample; some families get one after
    # hours.
    with fill_registry():
        exposition = generate_latest(_Sampled()).decode()
    checked = promtool("check", "metrics", stdin=exposition)
    assert checked.stdout + checked.stderr == ""
    assert checked.returncode == 0


class _Sampled(Collector):
    """The product's registry, with a sample for every metric that has none yet."""

    def collect(self) -> Iterator[Metric]:
        for family in metrics.REGISTRY.collect():
            if not family.samples and family.type == "histogram":
                family.add_sample(f"{family.name}_bucket", {"le": "+Inf"}, 0)
                family.add_sample(f"{family.name}_count", {}, 0)
                family.add_sample(f"{family.name}_sum", {}, 0)
            elif not family.samples:
                ending = "_total" if family.type == "counter" else ""
                family.add_sample(f"{family.name}{ending}", {}, 0)
            yield family


def test_every_alert_has_exactly_one_test_case():
    shipped = re.findall(r"^ +- alert: (\w+)$", ALERTS.read_text("utf-8"), re.MULTILINE)
    assert sorted(shipped) == sorted(case.alert for case in CASES)


def test_health_alerts_split_conditions_by_severity():
    pattern = r'oracle_health_condition\{condition(=~|!~)"([a-z_|]+)"\} == 1'
    down, attention = re.findall(pattern, ALERTS.read_text("utf-8"))
    keys = {condition.key for condition in Condition if condition.severity is Severity.DOWN}
    assert (down[0], set(down[1].split("|"))) == ("=~", keys)
    assert attention == ("!~", down[1])
    assert {condition.severity for condition in Condition} == {Severity.DOWN, Severity.ATTENTION}


@pytest.mark.slow
@with_promtool
def test_every_alert_fires_only_when_expected(tmp_path):
    written = tmp_path / "cases.yml"
    # Prometheus reads YAML, and JSON is YAML.
    written.write_text(json.dumps(_as_promtool_wants()), "utf-8")
    tested = promtool("test", "rules", str(written))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def _as_promtool_wants() -> dict[str, Any]:
    return {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [test for case in CASES for test in _histories(case)],
    }


def _histories(case: AlertCase) -> Iterator[dict[str, Any]]:
    yield _history(case, case.fires, 1)
    if case.alert not in ALWAYS:
        yield _history(case, case.rests, 0)


def _history(case: AlertCase, series: dict[str, str], firing: int) -> dict[str, Any]:
    query = f'count(ALERTS{{alertname="{case.alert}", alertstate="firing"}}) or vector(0)'
    return {
        "name": f"{case.alert} {'fires' if firing else 'rests'}",
        "interval": "1m",
        "input_series": [
            {"series": series_name, "values": values} for series_name, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": query,
                "eval_time": f"{case.minute}m",
                "exp_samples": [{"labels": "{}", "value": firing}],
            }
        ],
    }
