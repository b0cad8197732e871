"""Ordinary reports are signed, but wait for a cheaper block until the heartbeat."""

from dataclasses import replace

import pytest

from oracle.daemon.contexts import ReporterContexts
from oracle.domain.reports.submission_policy import SubmissionPolicy
from oracle.reporting.report_planner import plan_push
from oracle.store.outbox.records import PUSH
from tests.integration.evm.test_kickout_on_chain import group
from tests.support.harness import SETTINGS, Harness, run_next_step
from tests.support.sending.in_flight import GWEI, mine_expensive_blocks, run_until_assigned

HEARTBEAT = 3600


@pytest.fixture
def patient_harness(sqlite_harness: Harness) -> Harness:
    """Return a harness after round 1; a new report is worth one gwei at once, and more later."""
    harness = sqlite_harness
    # An earlier test's base fee persists.
    mine_expensive_blocks(harness, 0)
    harness.pushed()
    harness.until_final()
    # Without a threshold no update can cross it.
    settings = replace(SETTINGS, heartbeat_seconds=HEARTBEAT, kick_below=0)
    quorum = replace(harness.quorum, report_settings=settings)
    kickouts = replace(harness.kickouts, quorum=quorum)
    patient = SubmissionPolicy(cheap_fee_wei=GWEI)
    reporting = replace(harness.reporting, quorum=quorum, submission_policy=patient)
    harness.contexts = ReporterContexts(reporting, kickouts).with_account(harness.context)
    group(harness, 1, (0, 1, 2))
    return harness


def plan_pushes(harness: Harness) -> list[str]:
    return [step.action for step in harness.repeat(plan_push)]


def count_pushes(harness: Harness) -> int:
    return len(harness.intents(PUSH))


def test_signed_report_waits_for_a_cheaper_block(patient_harness: Harness):
    harness = patient_harness
    harness.period()
    mine_expensive_blocks(harness, 50 * GWEI)
    harness.index()
    assert plan_pushes(harness)[-1:] == ["report signed"]
    assert (plan_pushes(harness), count_pushes(harness)) == ([], 1)

    mine_expensive_blocks(harness, 1000)
    harness.index()
    assert plan_pushes(harness) == ["push planned"]


def test_report_is_pushed_at_the_heartbeat_despite_high_fees(patient_harness: Harness):
    harness = patient_harness
    harness.testbed.chain.later(HEARTBEAT)
    harness.testbed.chain.mine()
    harness.period()
    mine_expensive_blocks(harness, 50 * GWEI)
    harness.index()
    assert plan_pushes(harness)[-1] == "push planned"
    harness.repeat(run_next_step)
    assert harness.states()[-1] == "live"


def test_report_with_too_few_changed_nodes_waits_for_the_heartbeat(patient_harness: Harness):
    harness = patient_harness
    harness.reporting = replace(harness.reporting, submission_policy=SubmissionPolicy(min_nodes=9))
    harness.period()
    harness.index()
    assert plan_pushes(harness)[-1:] == ["report signed"]
    assert count_pushes(harness) == 1

    harness.reporting = replace(harness.reporting, submission_policy=SubmissionPolicy())
    assert plan_pushes(harness) == ["push planned"]


def test_planned_push_is_reevaluated_before_it_gets_a_nonce(patient_harness: Harness):
    harness = patient_harness
    harness.reporting = replace(harness.reporting, submission_policy=SubmissionPolicy())
    harness.period()
    harness.index()
    harness.repeat(plan_push)
    push = harness.intents(PUSH)[-1]
    assert push.request.period is not None
    with harness.context.write_transaction() as uow:
        uow.holds.hold(push.request.period, "for a test", {}, harness.context.stamp)
    harness.repeat(run_next_step)
    push = harness.intents(PUSH)[-1]
    assert (push.state.value, push.error_class, push.nonce) == ("planned", "not_worth", None)

    with harness.context.write_transaction() as uow:
        uow.holds.release(push.request.period or 0, harness.context.stamp)
    harness.mine()
    harness.index()
    harness.repeat(run_next_step)
    assert harness.states()[-1] == "live"


@pytest.mark.parametrize("has_nonce", [False, True])
def test_planned_push_waits_if_the_fee_rises_before_it_is_signed(
    patient_harness: Harness, *, has_nonce: bool
):
    harness = patient_harness
    harness.period()
    mine_expensive_blocks(harness, 1000)
    harness.index()
    assert plan_pushes(harness)[-1] == "push planned"
    if has_nonce:
        run_until_assigned(harness)
    mine_expensive_blocks(harness, 50 * GWEI)
    harness.index()
    harness.repeat(run_next_step)
    push = harness.intents(PUSH)[-1]
    assert (push.state.value, push.error_class, push.nonce) == ("planned", "not_worth", None)

    mine_expensive_blocks(harness, 1000)
    harness.index()
    harness.repeat(run_next_step)
    assert harness.states()[-1] == "live"
