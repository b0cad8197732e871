"""Which nodes can be accused, by the leaves of the last round and the contract's kickouts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import KickAccused, KickCancelled, RoundsStruck
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address
from oracle.domain.reports.contract_state import ContractChanges
from oracle.domain.reports.node_kicks import (
    NEVER_EXPIRES,
    NO_TARGET,
    Expulsion,
    KickState,
    NodeKick,
)
from oracle.domain.roots.leaves import NodeLeaf
from oracle.indexer.round_leaves import LeafCache
from oracle.kickouts.kickout_cases import KickoutCase, load_kickout_cases
from oracle.store.database import Store
from tests.support.due_nodes import (
    DUE_SINCE,
    HIGH,
    OPENED,
    POLICY,
    SETTINGS,
    build_accused_kickout,
    build_leaves,
    store_kicks,
    store_nodes,
    store_round,
)
from tests.support.rounds import make_address

DUE = make_address(1)
VETOER = make_address(0xC)


def load_cases(store: Store) -> list[KickoutCase]:
    with store.read_transaction() as uow:
        return load_kickout_cases(uow, LeafCache(), POLICY, SETTINGS)


def find_obstacle(
    store: Store, leaves: Sequence[NodeLeaf] | None, kick: NodeKick | None = None
) -> str | None:
    """Return the obstacle of the only due node when the last round has these leaves."""
    if leaves is not None:
        store_round(store, 1, leaves)
    if kick is not None:
        store_kicks(store, kick)
    (case,) = load_cases(store)
    return case.obstacle


@pytest.fixture
def nodes(store: Store) -> list[Address]:
    """Write five nodes, of which the first is due."""
    return store_nodes(store, 5, 1)


def build_expelled(expires_at: int) -> NodeKick:
    expulsion = Expulsion(OPENED, 1, expires_at, NO_TARGET, 1, OPENED)
    return NodeKick(DUE, KickState.EXPELLED, expulsion=expulsion)


def test_node_can_be_accused_if_the_last_round_contains_its_interval(store, nodes):
    assert "no round was accepted yet" in str(find_obstacle(store, None))
    store_round(store, 1, build_leaves(nodes, []))
    (case,) = load_cases(store)
    assert case.obstacle == "round 1 does not state yet that the kickout is due"
    store_round(store, 2, build_leaves(nodes, [DUE]))
    (case,) = load_cases(store)
    assert (case.obstacle, case.due_since) == (None, DUE_SINCE)
    # Only the last round counts.
    store_round(store, 3, build_leaves(nodes, []))
    (case,) = load_cases(store)
    assert case.obstacle == "round 3 does not state yet that the kickout is due"


def test_node_that_joined_after_last_round_is_not_accused(store):
    nodes = store_nodes(store, 5, 1)
    assert "does not contain the node yet" in str(
        find_obstacle(store, build_leaves(nodes[1:], []))
    )


def test_node_with_lane_above_kickout_line_is_not_accused(store, nodes):
    obstacle = find_obstacle(store, build_leaves(nodes, [DUE], due_lane=HIGH))
    assert obstacle == "its QoS in round 1 (8998) is not below 2000"


@pytest.mark.parametrize(
    ("allowed", "is_accusable"), [(0, False), (DUE_SINCE - 1, False), (DUE_SINCE, True)]
)
def test_held_node_is_accused_only_for_the_allowed_interval(store, nodes, allowed, is_accusable):
    kick = NodeKick(DUE).allow(allowed)
    obstacle = find_obstacle(store, build_leaves(nodes, [DUE], held_nodes=[DUE]), kick)
    assert (obstacle is None) is is_accusable
    assert is_accusable or "the vetoer has to allow it" in str(obstacle)


@pytest.mark.parametrize(
    ("spared_until", "obstacle"),
    [
        (DUE_SINCE - 1, None),
        (DUE_SINCE, "this interval was vetoed, or the node was readmitted since"),
    ],
)
def test_node_is_not_accused_for_a_protected_interval(store, nodes, spared_until, obstacle):
    kick = NodeKick(DUE, KickState.VETOED, spared_until=spared_until)
    assert find_obstacle(store, build_leaves(nodes, [DUE]), kick) == obstacle


@pytest.mark.parametrize(
    ("expires_at", "obstacle"), [(NEVER_EXPIRES, "the node is expelled"), (5999, None)]
)
def test_expelled_node_is_not_accused_until_expulsion_ends(store, nodes, expires_at, obstacle):
    leaves = build_leaves(nodes, [DUE])
    assert find_obstacle(store, leaves, build_expelled(expires_at)) == obstacle


def test_node_is_not_accused_twice_for_the_same_interval(store, nodes):
    leaves = build_leaves(nodes, [DUE])
    assert (
        find_obstacle(store, leaves, build_accused_kickout(DUE)) == "the node is accused already"
    )


def test_node_can_be_accused_again_if_a_cleared_interval_reappears(store, nodes):
    cleared = build_accused_kickout(DUE).cancel(
        KickCancelled(OPENED, 0, DUE, ZERO_ADDRESS, ZERO_HASH)
    )
    assert find_obstacle(store, build_leaves(nodes, [DUE]), cleared) is None


def test_veto_does_not_protect_a_later_interval(store, nodes):
    vetoed = build_accused_kickout(DUE).cancel(KickCancelled(OPENED, 0, DUE, VETOER, ZERO_HASH))
    assert "was vetoed" in str(find_obstacle(store, build_leaves(nodes, [DUE]), vetoed))
    store_round(store, 2, build_leaves(nodes, [DUE], due_since=DUE_SINCE + 1))
    (case,) = load_cases(store)
    assert case.obstacle is None


def test_node_accused_for_an_earlier_interval_is_accused_again(store, nodes):
    accused = NodeKick(DUE).accuse(
        KickAccused(OPENED, 0, DUE, 1, DUE_SINCE - 60, ZERO_HASH, ready_at=5000)
    )
    assert find_obstacle(store, build_leaves(nodes, [DUE]), accused) is None


def test_node_is_not_accused_with_a_struck_round(store, nodes):
    accepted_round = store_round(store, 1, build_leaves(nodes, [DUE]))
    with store.transaction() as uow:
        strike = RoundsStruck(Position(50, 0, 0), 3000, 1, accepted_round.round)
        uow.rounds.save_changes(ContractChanges(strikes=[strike]))
    (case,) = load_cases(store)
    assert "no round was accepted yet" in str(case.obstacle)
    assert case.proof is None


def test_node_is_not_accused_if_the_leaves_of_the_root_are_unknown(store, nodes):
    """A round that other reporters signed has leaves that this database does not hold."""
    accepted_round = store_round(store, 1, build_leaves(nodes, [DUE]))
    other = replace(
        accepted_round, round=2, root=ZERO_HASH, at=accepted_round.at._replace(block=30)
    )
    with store.transaction() as uow:
        uow.rounds.save_changes(ContractChanges(accepted=[other]))
    (case,) = load_cases(store)
    assert (case.proof, case.due_since) == (None, 0)
    assert "its leaves are not stored" in str(case.obstacle)


def test_accused_node_remains_a_case_after_its_interval_closes(store, nodes):
    store_round(store, 1, build_leaves(nodes, []))
    store_kicks(store, build_accused_kickout(DUE))
    with store.transaction() as uow:
        closed = KickoutDue(DUE, OPENED, OPENED._replace(block=50))
        uow.kickouts.save_intervals([closed])
    (case,) = load_cases(store)
    assert (case.node, case.interval, case.due_since) == (DUE, None, 0)
    assert case.proof is not None
