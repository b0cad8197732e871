"""Nodes are kicked out although their contract permits leaving only at the end of a task.

See docs/explanation/kickouts.md#adapters; both generations of the contract are tested.
"""

import pytest

from tests.contracts.adapters.crynux_driver import (
    AVAILABLE,
    BUSY,
    EVIDENCE,
    PAUSED,
    QUIT,
    STAKE,
    NodeNetwork,
)
from tests.support.evm.chain import RevertedError, encode_calldata

pytestmark = pytest.mark.evm

NODE_BUSY = "NodeBusy(address,uint256)"


def selector(web3, text: str) -> bytes:
    return bytes(web3.keccak(text=text)[:4])


def balance(nodes: NodeNetwork, account: str) -> int:
    return int(nodes.chain.rpc("eth_getBalance", account, "latest"), 16)


def refusal(nodes: NodeNetwork, call, sender: str) -> str:
    with pytest.raises(RevertedError) as refused:
        nodes.send(call, sender=sender)
    return refused.value.error


def test_kickout_returns_the_stake_and_the_network_continues(nodes: NodeNetwork):
    before = balance(nodes, nodes.first)
    receipt = nodes.kick(nodes.first)

    assert receipt.names[-1] == "Kicked"
    assert receipt.only("NodeKickedOut")["nodeAddress"] == nodes.first
    assert (nodes.status(nodes.first), nodes.stake(nodes.first)) == (QUIT, 0)
    assert balance(nodes, nodes.first) - before == STAKE
    nodes.join(4)
    nodes.members.remove(nodes.first)
    nodes.rest(nodes.work())
    assert [nodes.status(member) for member in nodes.members] == [AVAILABLE] * 3


def test_only_oracle_may_kick(nodes: NodeNetwork):
    call = nodes.adapter.functions.kick(nodes.first, EVIDENCE)
    for account in (nodes.owner, nodes.first, nodes.chain.accounts[9]):
        assert refusal(nodes, call, account) == "NotAllowed"
    assert nodes.status(nodes.first) == AVAILABLE


def test_kick_of_non_member_has_no_effect(nodes: NodeNetwork):
    receipt = nodes.kick(nodes.chain.accounts[9])
    assert receipt.names == ["Kicked"]
    nodes.kick(nodes.first)
    assert nodes.kick(nodes.first).names == ["Kicked"]


def test_busy_node_is_kicked_out_after_its_task(nodes: NodeNetwork):
    work = nodes.work()
    assert nodes.status(nodes.first) == BUSY
    receipt = nodes.kick(nodes.first)
    assert receipt.names == ["Refused"]
    assert nodes.reason(receipt) == selector(nodes.chain.web3, NODE_BUSY)

    nodes.rest(work)
    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    assert nodes.status(nodes.first) == QUIT


def test_paused_node_is_kicked_out_after_resuming(nodes: NodeNetwork):
    nodes.by_node(nodes.first, "pause")
    assert nodes.status(nodes.first) == PAUSED
    receipt = nodes.kick(nodes.first)
    assert nodes.reason(receipt) == selector(nodes.chain.web3, NODE_BUSY)

    nodes.by_node(nodes.first, "resume")
    assert nodes.kick(nodes.first).names[-1] == "Kicked"


def test_node_with_successful_tasks_is_kicked_out(nodes: NodeNetwork):
    for _ in range(3):
        nodes.rest(nodes.work())
    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    assert nodes.status(nodes.first) == QUIT


def test_node_is_kicked_out_even_if_the_network_threshold_is_zero(nodes: NodeNetwork):
    nodes.send(nodes.qos.functions.updateKickoutThreshold(0))
    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    assert nodes.status(nodes.first) == QUIT


def test_waiting_task_does_not_start_during_kickout(nodes: NodeNetwork):
    # The first task keeps all three busy; the second one waits for all, or for one of them.
    work = nodes.work()
    for member in nodes.members[1:]:
        nodes.by_node(member, "quit")
    nodes.rest(work)
    nodes.send(nodes.task.functions.nodeAvailableCallback(nodes.first), sender=nodes.owner)
    assert nodes.status(nodes.first) == AVAILABLE
    assert nodes.kick(nodes.first).names[-1] == "Kicked"


def test_only_the_node_contract_may_report_an_available_node(nodes: NodeNetwork):
    call = nodes.adapter.functions.nodeAvailableCallback(nodes.first)
    for sender in (nodes.owner, nodes.first):
        with pytest.raises(RevertedError, match="NotAllowed"):
            nodes.send(call, sender=sender)


def test_owner_can_collect_a_slashed_stake(nodes: NodeNetwork):
    receipt = nodes.slash(nodes.work())
    assert "NodeSlashed" in receipt.names
    assert balance(nodes, nodes.adapter.address) == STAKE

    purse = "0x" + 36 * "0" + "7777"
    assert refusal(nodes, nodes.adapter.functions.collect(purse), nodes.first) == "NotAllowed"
    nodes.send(nodes.adapter.functions.collect(purse))
    assert balance(nodes, purse) == STAKE


def test_kickout_restores_the_task_contract_that_the_owner_set(nodes: NodeNetwork):
    generation = nodes.name.removesuffix("TaskAdapter")
    more = () if generation == "Vss" else (50,)
    task_arguments = (nodes.node.address, nodes.qos.address, *more)
    task = nodes.chain.deploy(f"testing/{generation}Task", *task_arguments)
    call = nodes.adapter.functions.updateTaskContractAddress(task.address)
    assert refusal(nodes, call, nodes.first) == "NotAllowed"
    nodes.send(call)
    nodes.send(nodes.qos.functions.updateTaskContractAddress(task.address))
    if generation == "Vss":
        nodes.send(task.functions.setRelayAddress(nodes.owner))
    nodes.task = task

    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    nodes.members.remove(nodes.first)
    nodes.join(4)
    nodes.rest(nodes.work())


def test_task_contract_without_code_is_rejected(nodes: NodeNetwork):
    call = nodes.adapter.functions.updateTaskContractAddress(nodes.first)
    assert refusal(nodes, call, nodes.owner) == "NoCode"


def test_only_the_owner_can_return_the_role(nodes: NodeNetwork):
    call = nodes.adapter.functions.giveBack(nodes.chain.accounts[8])
    for account in (nodes.first, nodes.chain.accounts[8]):
        assert refusal(nodes, call, account) == "NotAllowed"
    nodes.send(call)
    assert nodes.node.functions.owner().call() == nodes.chain.accounts[8]
    # Kickouts are refused from now on, and no node is affected.
    assert nodes.kick(nodes.first).names == ["Refused"]
    assert nodes.status(nodes.first) == AVAILABLE


def test_ownership_transfer_requires_two_steps(nodes: NodeNetwork):
    heir = nodes.chain.accounts[8]
    functions = nodes.adapter.functions
    assert refusal(nodes, functions.transferOwnership(heir), heir) == "NotAllowed"
    nodes.send(functions.transferOwnership(heir))
    assert functions.owner().call() == nodes.owner
    assert refusal(nodes, functions.acceptOwnership(), nodes.first) == "NotAllowed"
    nodes.send(functions.acceptOwnership(), sender=heir)
    assert functions.owner().call() == heir
    assert refusal(nodes, functions.giveBack(nodes.owner), nodes.owner) == "NotAllowed"


def test_adapter_exposes_no_other_owner_functions(nodes: NodeNetwork):
    passed_on = {"updateTaskContractAddress", "giveBack", "collect"}
    own = {"kick", "nodeAvailableCallback", "transferOwnership", "acceptOwnership"}
    writing = {
        part["name"]
        for part in nodes.adapter.abi
        if part["type"] == "function" and part["stateMutability"] not in {"view", "pure"}
    }
    assert writing | {"nodeAvailableCallback"} == passed_on | own
    # Ownable has it, and a network whose owner has renounced cannot be repaired.
    for call in (
        nodes.node.functions.renounceOwnership(),
        nodes.node.functions.finishTask(nodes.first),
    ):
        with pytest.raises(RevertedError):
            nodes.chain.transact(
                to=nodes.adapter.address, data=encode_calldata(call), sender=nodes.owner
            )
    assert nodes.node.functions.owner().call() == nodes.adapter.address


def test_kick_with_a_wrong_qos_contract_is_refused(nodes: NodeNetwork):
    other_qos = nodes.chain.deploy("testing/CrynuxQos", 10, 10)
    adapter_arguments = (nodes.caller.address, nodes.owner, nodes.node.address, other_qos.address)
    wrong = nodes.chain.deploy(f"adapters/{nodes.name}", *adapter_arguments, nodes.task.address)
    nodes.send(nodes.adapter.functions.giveBack(wrong.address))
    nodes.adapter = wrong

    refused = nodes.kick(nodes.first)
    assert nodes.reason(refused) == selector(nodes.chain.web3, "WrongQos()")
    assert nodes.status(nodes.first) == AVAILABLE
    nodes.rest(nodes.work())
