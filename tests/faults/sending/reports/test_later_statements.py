"""A report is checked before it is signed, although an earlier report of its round was signed.

The daemon restarts between both reports. The earlier report was not sent, and has expired, or its
as-of block was replaced.
"""

from dataclasses import replace

import pytest

from oracle.domain.reports.sanity_limits import SanityLimits
from tests.faults.sending.reports.test_reports_of_forks import continue_from_snapshot
from tests.support.evm.fixtures import fresh_chain
from tests.support.harness import SETTINGS, Harness
from tests.support.sending.reporters import index_with_raised_scores
from tests.support.sending.rounds import list_signed_statements, plan_round

# Here the `finalized` block is sixty-four below the head, which leaves room for a fork.
__all__ = ["fresh_chain"]

FINALIZED_DEPTH = 64
STRICT = SanityLimits(min_members=3)


def restart_after_lost_report(harness: Harness, *, is_replaced: bool) -> None:
    """Sign the report of round 2 without sending it, make it invalid, and restart the daemon."""
    chain = harness.testbed.chain
    harness.pushed()
    harness.until_final()
    snapshot = chain.rpc("evm_snapshot")
    harness.mine()
    plan_round(harness)
    if is_replaced:
        continue_from_snapshot(harness, snapshot)
    else:
        chain.later(2 * SETTINGS.ttl_seconds)
        chain.mine(FINALIZED_DEPTH + 1)
    harness.restart()


either_loss = pytest.mark.parametrize("is_replaced", [False, True], ids=["expired", "replaced"])


@either_loss
def test_mass_drop_after_a_lost_report_is_held(sqlite_harness: Harness, *, is_replaced: bool):
    harness, network = sqlite_harness, sqlite_harness.testbed.network
    restart_after_lost_report(harness, is_replaced=is_replaced)
    harness.reporting = replace(harness.reporting, sanity=STRICT)
    for node in network.nodes[:3]:
        network.by(node, network.does.pause())
    harness.period()
    steps = harness.tick()
    assert "report held" in [step.action for step in steps]
    assert len(list_signed_statements(harness, 2)) == 1
    assert harness.testbed.round == 1


@either_loss
def test_false_report_after_a_lost_report_is_never_signed(
    sqlite_harness: Harness, *, is_replaced: bool
):
    harness = sqlite_harness
    restart_after_lost_report(harness, is_replaced=is_replaced)
    harness.period()
    index_with_raised_scores(harness)
    harness.restart()
    steps = harness.tick()
    assert any("leaves differ from the nodes" in str(step.detail) for step in steps), steps
    assert len(list_signed_statements(harness, 2)) == 1
    assert harness.testbed.round == 1
