"""Kickouts that come too late, or whose node has improved meanwhile."""

from dataclasses import replace

from oracle.domain.reports.kicks import KickState
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.txmgr.accounts_and_limits import ReporterKeys
from tests.integration.evm.test_kicking import (
    POOL,
    group,
    kick,
    kinds,
    proposed,
    pushed_without_kickouts,
    standing,
)
from tests.support.evm.network import Standing
from tests.support.office import LIMITS, Office


def died(office: Office) -> None:
    """Let more than a day pass in which nobody executes the proposed kickout."""
    office.premises.chain.at(int(str(kick(office)["diesAt"])) + 1)
    office.premises.chain.mine()


def cancelled(office: Office, by: str) -> None:
    """Cancel the kickout of node 2 on chain, and index the event."""
    node = office.premises.network.nodes[2]
    call = office.premises.oracle.functions.cancelKick(node, b"no".ljust(32, b"\0"))
    office.premises.chain.send(call, sender=by)
    office.index()


def state_of_kick(office: Office) -> KickState:
    with office.store.read_transaction() as uow:
        (stored_kick,) = uow.rounds.list_kicks()
    return stored_kick.state


def some_rounds(office: Office) -> None:
    office.pushed()
    for _ in range(3):
        office.mine()
        office.until_final()


def test_kickout_cancelled_by_its_node_after_it_expired_is_proposed_again(office: Office):
    proposed(office)
    first = kick(office)
    died(office)
    cancelled(office, by=office.premises.network.nodes[2])
    assert state_of_kick(office) is KickState.CANCELLED
    assert rebuild_state(
        office.store, office.folder, RebuildOptions(lease_epoch=office.epoch)
    ).is_same
    some_rounds(office)

    again = kick(office)
    assert (again["live"], again["evidence"]) == (True, first["evidence"])
    assert int(str(again["round"])) > int(str(first["round"]))


def test_veto_stays_in_force_after_the_vetoer_is_replaced(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    premises = office.premises
    admin, heir = premises.network.admin, premises.network.creator
    cancelled(office, by=admin)
    premises.chain.send(premises.oracle.functions.setVetoer(heir), sender=admin)
    office.index()
    assert state_of_kick(office) is KickState.VETOED
    assert rebuild_state(
        office.store, office.folder, RebuildOptions(lease_epoch=office.epoch)
    ).is_same
    some_rounds(office)
    assert kinds(office).count("propose_kick") == 1


def test_kickout_not_executed_in_time_is_proposed_again(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    first = kick(office)
    died(office)
    some_rounds(office)

    again = kick(office)
    assert (again["live"], again["evidence"]) == (True, first["evidence"])
    assert int(str(again["round"])) > int(str(first["round"]))
    assert "execute_kick" not in kinds(office)


def test_signer_only_reporter_signs_unexecuted_kickout_again(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    died(office)
    pushed_without_kickouts(office)
    signer = office.premises.keys.signer
    office.restart(premises=replace(office.premises, keys=ReporterKeys(signer, None)))

    assert [step.action for step in office.repeat(plan_kickout_call)] == ["kickout signed"]


def test_kickout_of_recovered_node_is_not_executed(sqlite_office: Office):
    office = sqlite_office
    proposed(office)
    group(office, 99, (2, 0, 1))
    # The chain shows it well, and nobody is there to cancel.
    pushed_without_kickouts(office)
    for number in range(50, 50 + POOL):
        group(office, number, (0, 1, 2))
    for _ in range(LIMITS.kick_rounds):
        pushed_without_kickouts(office)
    premises = office.premises
    premises.chain.at(max(premises.chain.time, int(str(kick(office)["readyAt"]))) + 1)
    premises.chain.mine()
    office.tick()
    office.mine()
    office.until_final()

    assert "execute_kick" not in kinds(office)
    assert standing(office) is Standing.ACTIVE
