"""Kickouts that come too late, were vetoed, or whose node has improved meanwhile."""

from oracle.domain.reports.node_kicks import KickState
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.kickouts.kickout_context import ACCUSE, CLEAR_KICK, EXECUTE_KICK
from tests.integration.evm.test_kicking import (
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
from tests.support.office import Office


def state_of_kick(office: Office) -> KickState:
    with office.store.read_transaction() as uow:
        (stored_kick,) = uow.rounds.list_kicks()
    return stored_kick.state


def is_rebuild_identical(office: Office) -> bool:
    options = RebuildOptions(lease_epoch=office.epoch)
    return rebuild_state(office.store, office.folder, options).is_same


def test_veto_stays_in_force_after_the_vetoer_is_replaced(office: Office):
    accuse_node_two(office)
    does, network = office.premises.oracle.functions, office.premises.network
    for call in (
        does.veto(network.nodes[2], b"no".ljust(32, b"\0")),
        does.setVetoer(network.creator),
    ):
        office.premises.chain.send(call, sender=network.admin)
    office.index()
    assert state_of_kick(office) is KickState.VETOED
    assert is_rebuild_identical(office)
    for _ in range(2):
        office.pushed()
    office.until_final()
    assert kinds(office).count(ACCUSE) == 1
    assert standing(office) is Standing.ACTIVE


def test_accusation_is_executed_after_a_long_outage_once_a_new_round_states_it(
    sqlite_office: Office,
):
    office = sqlite_office
    accuse_node_two(office)
    pass_veto_delay(office)
    # The scores are stale after two days without a round.
    office.premises.chain.later(2 * 86_400)
    office.premises.chain.mine()
    office.index()
    office.pushed()
    office.tick()
    office.mine()
    office.until_final()
    assert kinds(office).count(ACCUSE) == 1
    assert standing(office) is Standing.KICKED_OUT


def test_recovered_node_that_is_due_again_is_accused_of_the_new_interval(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    first = kick(office)
    recover(office)
    # The chain shows the recovery, but the accusation is not cleared.
    push_without_kickouts(office)
    fill_bad_pool(office, first=50)
    run_until_due_is_stated(office)
    assert get_stated_due_since(office) != first["due_since"]
    premises = office.premises
    premises.chain.at(max(premises.chain.time, int(str(first["ready_at"]))) + 1)
    premises.chain.mine()
    for _ in range(2):
        office.tick()
        office.mine()
    # The accusation follows once the call that cleared the earlier one is final.
    office.until_final()
    office.mine()

    second = kick(office)
    assert (second["live"], second["due_since"]) == (True, get_stated_due_since(office))
    assert int(str(second["ready_at"])) > premises.chain.time - 60
    assert EXECUTE_KICK not in kinds(office)
    assert standing(office) is Standing.ACTIVE


def test_accusation_cleared_by_another_account_is_not_cleared_again(sqlite_office: Office):
    office = sqlite_office
    accuse_node_two(office)
    recover(office)
    push_without_kickouts(office)
    office.tick()
    (clearing,) = office.intents(CLEAR_KICK)
    office.mine()
    office.until_final()
    assert state_of_kick(office) is KickState.RECOVERED
    assert is_rebuild_identical(office)
    office.pushed()
    office.until_final()
    assert [intent.id for intent in office.intents(CLEAR_KICK)] == [clearing.id]
