"""A manual `report push` that does not send is reported as a failure."""

import pytest

from oracle.cli import report_push
from oracle.cli.send_now import CallPlanner, plan_and_send_call
from oracle.daemon.senders import Reporter
from oracle.txmgr.context import StepResult
from tests.faults.sending.reports.test_dry_runs import Site, mark_old_reports_missed, site

__all__ = ["site"]


def test_manual_push_of_a_report_that_is_no_longer_due_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    mark_old_reports_missed(site.harness)

    def later(reporter: Reporter, command: str, plan: CallPlanner) -> list[StepResult]:
        site.harness.mine(300)
        return plan_and_send_call(reporter, command, plan)

    monkeypatch.setattr(report_push, "plan_and_send_call", later)
    assert site.run("report", "push", "--yes") == 1
    assert "no due report can still be accepted" in capsys.readouterr().err
    assert (site.sent, site.signed) == (0, 0)


def test_manual_push_of_expired_reports_fails_with_explanation(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    mark_old_reports_missed(site.harness)
    site.harness.mine(300)
    assert site.run("report", "push", "--dry-run") == 1
    assert "no due report can still be accepted" in capsys.readouterr().err


def test_manual_push_explains_why_a_signed_report_was_not_sent(
    site: Site, capsys: pytest.CaptureFixture[str]
):
    # No block is mined: the first push is pending when the next report is due.
    assert site.run("report", "push", "--yes") == 0
    assert "nothing was sent" not in capsys.readouterr().out
    sent = site.sent
    site.harness.mine()
    site.harness.period()
    site.harness.index()
    assert site.run("report", "push", "--yes") == 0
    assert "is live; the daemon or `qos-oracle run --once --publish`" in (capsys.readouterr().out)
    assert site.sent == sent
