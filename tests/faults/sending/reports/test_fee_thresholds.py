"""Ordinary reports are signed, but wait for a cheaper block until the heartbeat."""

from dataclasses import replace

import pytest

from oracle.daemon.contexts import ReporterContexts
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.reporting.report_planner import plan_push
from oracle.reporting.reporting_context import PUSH
from tests.integration.evm.test_kicking import group
from tests.support.office import SETTINGS, Office, next_step
from tests.support.sending.in_flight import GWEI, mine_expensive_blocks

HEARTBEAT = 3600


@pytest.fixture
def patient_office(sqlite_office: Office) -> Office:
    """Return an office after round 1; a new report is worth one gwei at once, and more later."""
    office = sqlite_office
    # An earlier test's base fee persists.
    mine_expensive_blocks(office, 0)
    office.pushed()
    office.until_final()
    # Without a threshold no update can cross it.
    settings = replace(SETTINGS, heartbeat_seconds=HEARTBEAT, kick_below=0)
    quorum = replace(office.quorum, settings=settings)
    kickouts = replace(office.kickouts, quorum=quorum)
    patient = SubmissionPolicy(cheap_fee_wei=GWEI)
    reporting = replace(office.reporting, quorum=quorum, submission_policy=patient)
    office.contexts = ReporterContexts(reporting, kickouts).with_account(office.context)
    group(office, 1, (0, 1, 2))
    return office


def plan_pushes(office: Office) -> list[str]:
    return [step.action for step in office.repeat(plan_push)]


def pushes(office: Office) -> int:
    return len(office.intents(PUSH))


def test_report_is_signed_and_waits_for_cheaper_block(patient_office: Office):
    office = patient_office
    office.period()
    mine_expensive_blocks(office, 50 * GWEI)
    office.index()
    assert plan_pushes(office)[-1:] == ["report signed"]
    assert (plan_pushes(office), pushes(office)) == ([], 1)

    mine_expensive_blocks(office, 1000)
    office.index()
    assert plan_pushes(office) == ["push planned"]


def test_report_is_pushed_at_heartbeat_despite_high_fees(patient_office: Office):
    office = patient_office
    office.premises.chain.later(HEARTBEAT)
    office.premises.chain.mine()
    office.period()
    mine_expensive_blocks(office, 50 * GWEI)
    office.index()
    assert plan_pushes(office)[-1] == "push planned"
    office.repeat(next_step)
    assert office.states()[-1] == "live"


def test_report_below_min_nodes_waits_for_heartbeat(patient_office: Office):
    office = patient_office
    office.reporting = replace(office.reporting, submission_policy=SubmissionPolicy(min_nodes=9))
    office.period()
    office.index()
    assert plan_pushes(office)[-1:] == ["report signed"]
    assert pushes(office) == 1

    office.reporting = replace(office.reporting, submission_policy=SubmissionPolicy())
    assert plan_pushes(office) == ["push planned"]


def test_planned_push_is_re_evaluated_before_nonce_is_assigned(patient_office: Office):
    office = patient_office
    office.reporting = replace(office.reporting, submission_policy=SubmissionPolicy())
    office.period()
    office.index()
    office.repeat(plan_push)
    push = office.intents(PUSH)[-1]
    assert push.request.period is not None
    with office.context.write_transaction() as uow:
        uow.holds.hold(push.request.period, "for a test", {}, office.context.stamp)
    office.repeat(next_step)
    push = office.intents(PUSH)[-1]
    assert (push.state.value, push.error_class, push.nonce) == ("planned", "not_worth", None)

    with office.context.write_transaction() as uow:
        uow.holds.release(push.request.period or 0, office.context.stamp)
    office.mine()
    office.index()
    office.repeat(next_step)
    assert office.states()[-1] == "live"
