"""Conditions: each is declared once with a unique name, and the worst decides."""

import pytest
from hypothesis import given, strategies as st

from oracle.domain.health import Condition, HealthFinding, HealthReport, Severity

FINDINGS = st.lists(st.builds(HealthFinding, st.sampled_from(Condition), st.text(max_size=5)))


def health(*conditions: Condition) -> HealthReport:
    return HealthReport.from_findings(HealthFinding(condition, "") for condition in conditions)


@given(FINDINGS)
def test_health_report_is_at_least_as_severe_as_each_finding(findings: list[HealthFinding]):
    report = HealthReport.from_findings(findings)
    assert all(report.severity >= finding.condition.severity for finding in findings)
    assert (report.severity is Severity.WELL) == (not findings)


@given(FINDINGS, FINDINGS)
def test_merging_keeps_existing_findings_and_adds_new_conditions(
    first: list[HealthFinding], more: list[HealthFinding]
):
    before = HealthReport.from_findings(first)
    joined = HealthReport.from_findings(first).merge(more)
    assert joined.findings[: len(before.findings)] == before.findings
    assert set(joined.conditions) == {finding.condition for finding in (*first, *more)}


@pytest.mark.parametrize(
    ("conditions", "severity"),
    [
        ((), Severity.WELL),
        ((Condition.NO_LEADER,), Severity.ATTENTION),
        ((Condition.BEHIND,), Severity.ATTENTION),
        ((Condition.BEHIND, Condition.NO_LEADER), Severity.DOWN),
        ((Condition.REPORT_LATE, Condition.NO_ENDPOINT), Severity.DOWN),
    ],
)
def test_severity_follows_the_worst_condition(
    conditions: tuple[Condition, ...], severity: Severity
):
    assert health(*conditions).severity is severity


def test_condition_keys_and_titles_are_unique():
    names = [name for condition in Condition for name in (condition.key, condition.title)]
    assert len(set(names)) == len(names)
    assert all(condition.action for condition in Condition)
