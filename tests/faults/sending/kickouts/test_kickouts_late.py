"""Kickouts that come too late, were vetoed, or whose node has improved meanwhile."""

from oracle.domain.reports.node_kicks import KickState
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.outbox.records import ACCUSE, CLEAR_KICK, EXECUTE_KICK
from tests.integration.evm.test_kickout_on_chain import (
    accuse_node_two,
    fill_bad_pool,
    get_stated_due_since,
    kick,
    kinds,
    pass_veto_delay,
    push_without_kickouts,
    recover,
    run_until_due_is_stated,
    standing,
)
from tests.support.evm.network import Standing
from tests.support.harness import Harness


def get_kick_state(harness: Harness) -> KickState:
    with harness.store.read_transaction() as uow:
        (stored_kick,) = uow.rounds.list_kicks()
    return stored_kick.state


def is_rebuild_identical(harness: Harness) -> bool:
    options = RebuildOptions(lease_epoch=harness.epoch)
    return rebuild_state(harness.store, harness.folder, options).is_same


def test_veto_survives_replacement_of_the_vetoer(harness: Harness):
    accuse_node_two(harness)
    does, network = harness.testbed.oracle.functions, harness.testbed.network
    for call in (
        does.veto(network.nodes[2], b"no".ljust(32, b"\0")),
        does.setVetoer(network.creator),
    ):
        harness.testbed.chain.send(call, sender=network.admin)
    harness.index()
    assert get_kick_state(harness) is KickState.VETOED
    assert is_rebuild_identical(harness)
    for _ in range(2):
        harness.pushed()
    harness.until_final()
    assert kinds(harness).count(ACCUSE) == 1
    assert standing(harness) is Standing.ACTIVE


def test_accusation_is_executed_after_an_outage_and_a_new_round(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    # The scores are stale after two days without a round.
    harness.testbed.chain.later(2 * 86_400)
    harness.testbed.chain.mine()
    harness.index()
    harness.pushed()
    harness.tick()
    harness.mine()
    harness.until_final()
    assert kinds(harness).count(ACCUSE) == 1
    assert standing(harness) is Standing.KICKED_OUT


def test_node_that_is_due_again_is_accused_for_the_new_interval(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    first = kick(harness)
    recover(harness)
    # The chain shows the recovery, but the accusation is not cleared.
    push_without_kickouts(harness)
    fill_bad_pool(harness, first=50)
    run_until_due_is_stated(harness)
    assert get_stated_due_since(harness) != first["due_since"]
    testbed = harness.testbed
    testbed.chain.at(max(testbed.chain.time, int(str(first["ready_at"]))) + 1)
    testbed.chain.mine()
    for _ in range(2):
        harness.tick()
        harness.mine()
    # The accusation follows once the call that cleared the earlier one is final.
    harness.until_final()
    harness.mine()

    second = kick(harness)
    assert (second["live"], second["due_since"]) == (True, get_stated_due_since(harness))
    assert int(str(second["ready_at"])) > testbed.chain.time - 60
    assert EXECUTE_KICK not in kinds(harness)
    assert standing(harness) is Standing.ACTIVE


def test_accusation_cleared_elsewhere_is_not_cleared_again(sqlite_harness: Harness):
    harness = sqlite_harness
    accuse_node_two(harness)
    recover(harness)
    push_without_kickouts(harness)
    harness.tick()
    (clearing,) = harness.intents(CLEAR_KICK)
    harness.mine()
    harness.until_final()
    assert get_kick_state(harness) is KickState.RECOVERED
    assert is_rebuild_identical(harness)
    harness.pushed()
    harness.until_final()
    assert [intent.id for intent in harness.intents(CLEAR_KICK)] == [clearing.id]
