"""A kickout call proves a leaf of one round: a fork of that round makes the call void."""

from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.store.outbox.records import ACCUSE
from tests.faults.sending.reports.test_reports_of_forks import continue_from_snapshot
from tests.integration.evm.test_kickout_on_chain import (
    fill_bad_pool,
    kick,
    push_without_kickouts,
    run_until_due_is_stated,
)
from tests.support.evm.fixtures import fresh_chain
from tests.support.harness import Harness
from tests.support.sending.rounds import get_contract_error

# Here the `finalized` block is sixty-four below the head, which leaves room for a fork.
__all__ = ["fresh_chain"]

FINAL = 65


def test_accusation_of_a_reorged_round_is_replanned(
    sqlite_harness: Harness,
):
    harness, testbed = sqlite_harness, sqlite_harness.testbed
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    harness.mine(FINAL)
    harness.index()
    snapshot = testbed.chain.rpc("evm_snapshot")
    harness.mine()
    push_without_kickouts(harness)
    reorged_round = testbed.round
    harness.repeat(plan_kickout_call)
    (accusation,) = harness.intents(ACCUSE)
    assert accusation.request.round == reorged_round

    continue_from_snapshot(harness, snapshot)
    harness.index()
    assert testbed.round == reorged_round - 1
    assert get_contract_error(harness, accusation.request.calldata) == "NotProven"
    harness.repeat(plan_kickout_call)
    dropped, planned = harness.intents(ACCUSE)
    assert (dropped.id, dropped.state.value, dropped.nonce) == (
        accusation.id,
        "superseded",
        None,
    )
    assert planned.request.round == reorged_round - 1
    # The first tick sends the report again, which makes the proof void once more.
    for _ in range(2):
        harness.tick()
        harness.mine()
    assert kick(harness)["live"]
