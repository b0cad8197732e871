"""The findings of `contract check` about a kick target, from simulated calls."""

from collections.abc import Mapping

import pytest

from oracle.bindings.kick_target_checks import (
    find_kick_target_mismatches,
    find_single_key_owner_mismatches,
    find_task_contract_mismatch,
)
from oracle.bindings.kick_targets import NODE_STAKING, KickTarget, get_kick_target
from oracle.domain.ids import Address
from oracle.rpc.fanout import PoolView
from tests.contracts.adapters.crynux_driver import NodeNetwork
from tests.contracts.adapters.test_staking_adapter import Staking, network
from tests.pools import pool_of

pytestmark = pytest.mark.evm
__all__ = ["network"]

# A kick target, its address, its oracle and the contracts to which it must be linked.
Wiring = tuple[KickTarget, Address, Address, Mapping[str, str]]


def lower(address: str) -> Address:
    return Address(address.lower())


def create_pool_view(nodes: NodeNetwork | Staking) -> PoolView:
    return pool_of(nodes.chain.url).create_view()


def link_target(nodes: NodeNetwork, **overrides: str) -> Wiring:
    task = "VSSTask" if nodes.name == "VssTaskAdapter" else "Task"
    right = {"Node": nodes.node.address, task: nodes.task.address}
    target = get_kick_target(nodes.name)
    oracle = lower(nodes.caller.address)
    return target, lower(nodes.adapter.address), oracle, right | overrides


def list_mismatch_subjects(nodes: NodeNetwork, wiring: Wiring) -> list[str]:
    return [
        mismatch.subject
        for mismatch in find_kick_target_mismatches(create_pool_view(nodes), *wiring)
    ]


def redeploy_adapter(nodes: NodeNetwork, **changed: str) -> None:
    """Give the role to an adapter that is deployed with other arguments."""
    address_by_parameter: Mapping[str, str] = {
        "oracle": nodes.caller.address,
        "owner": nodes.owner,
        "node": nodes.node.address,
        "qos": nodes.qos.address,
        "task": nodes.task.address,
    } | changed
    new_adapter = nodes.chain.deploy(f"adapters/{nodes.name}", *address_by_parameter.values())
    nodes.send(nodes.adapter.functions.giveBack(new_adapter.address))
    nodes.adapter = new_adapter


def test_correctly_configured_adapter_has_no_mismatch(nodes: NodeNetwork):
    assert list_mismatch_subjects(nodes, link_target(nodes)) == []


def test_wrong_task_contract_is_detected(nodes: NodeNetwork):
    redeploy_adapter(nodes, task=nodes.caller.address)
    (mismatch,) = find_kick_target_mismatches(
        create_pool_view(nodes), *link_target(nodes, **_any_task(nodes))
    )
    assert mismatch.subject == "task contract of Node"
    assert mismatch.actual == "Not called by the task contract"


def _any_task(nodes: NodeNetwork) -> dict[str, str]:
    return dict.fromkeys(("VSSTask", "Task"), nodes.caller.address)


def test_other_addresses_are_rejected_as_the_task_contract(nodes: NodeNetwork):
    pool_view = create_pool_view(nodes)
    node = lower(nodes.node.address)
    assert find_task_contract_mismatch(pool_view, node, lower(nodes.task.address)) is None
    for address in (nodes.first, nodes.owner, nodes.adapter.address):
        mismatch = find_task_contract_mismatch(pool_view, node, lower(address))
        assert mismatch == "Not called by the task contract"


def test_adapter_without_its_role_is_detected(nodes: NodeNetwork):
    nodes.send(nodes.adapter.functions.giveBack(nodes.owner))
    (mismatch,) = find_kick_target_mismatches(create_pool_view(nodes), *link_target(nodes))
    assert (mismatch.subject, mismatch.actual) == ("owner of Node", lower(nodes.owner))


def test_adapter_with_wrong_qos_contract_is_detected(nodes: NodeNetwork):
    redeploy_adapter(nodes, qos=nodes.chain.deploy("testing/CrynuxQos", 10, 10).address)
    assert list_mismatch_subjects(nodes, link_target(nodes)) == ["QOS of Node"]


def test_adapter_for_another_oracle_or_network_is_detected(nodes: NodeNetwork):
    redeploy_adapter(nodes, oracle=nodes.first)
    assert list_mismatch_subjects(nodes, link_target(nodes)) == ["oracle of the kick target"]
    assert "Node of the kick target" in list_mismatch_subjects(
        nodes, link_target(nodes, Node=nodes.owner)
    )


def test_adapter_address_of_an_unrelated_contract_is_detected(nodes: NodeNetwork):
    target, _, oracle, contract_by_name = link_target(nodes)
    assert list_mismatch_subjects(
        nodes, (target, lower(nodes.first), oracle, contract_by_name)
    ) == ["kick target"]
    assert list_mismatch_subjects(
        nodes, (target, lower(nodes.node.address), oracle, contract_by_name)
    ) == ["kick target's code hash"]


def test_externally_owned_adapter_owner_is_reported(nodes: NodeNetwork):
    (finding,) = find_single_key_owner_mismatches(create_pool_view(nodes), *link_target(nodes)[:2])
    assert finding.subject == "kick target's owner"
    redeploy_adapter(nodes, owner=nodes.caller.address)
    assert find_single_key_owner_mismatches(create_pool_view(nodes), *link_target(nodes)[:2]) == []


def test_staking_admin_is_verified_by_revert_reason(network: Staking):
    contract_by_name = {"NodeStaking": network.staking.address, "operator": network.relay}
    at = lower(network.adapter.address)
    oracle = lower(network.caller.address)
    wiring = NODE_STAKING, at, oracle, contract_by_name
    assert find_kick_target_mismatches(create_pool_view(network), *wiring) == []

    call = network.parameters.functions.setNodeStakingAdminAddress(network.relay)
    network.chain.send(call, sender=network.writer)
    (mismatch,) = find_kick_target_mismatches(create_pool_view(network), *wiring)
    assert (mismatch.subject, mismatch.actual) == (
        "admin of NodeStaking",
        "Not called by the admin",
    )
