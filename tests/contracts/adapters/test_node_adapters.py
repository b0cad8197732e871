"""Nodes of a Node contract that lets nobody go but at the end of a task are put out all the same.

See docs/explanation/kickouts.md#adapters; both generations, by their own words and events.
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
from tests.support.evm.chain import RevertedError, encoded

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


def test_a_node_is_out_with_its_stake_and_the_network_goes_on(nodes: NodeNetwork):
    before = balance(nodes, nodes.first)
    told = nodes.kick(nodes.first)

    assert told.names[-1] == "Kicked"
    assert told.only("NodeKickedOut")["nodeAddress"] == nodes.first
    assert (nodes.status(nodes.first), nodes.stake(nodes.first)) == (QUIT, 0)
    assert balance(nodes, nodes.first) - before == STAKE
    nodes.join(4)
    nodes.members.remove(nodes.first)
    nodes.rest(nodes.work())
    assert [nodes.status(one) for one in nodes.members] == [AVAILABLE] * 3


def test_the_oracle_alone_puts_a_node_out(nodes: NodeNetwork):
    call = nodes.adapter.functions.kick(nodes.first, EVIDENCE)
    for account in (nodes.owner, nodes.first, nodes.chain.accounts[9]):
        assert refusal(nodes, call, account) == "NotAllowed"
    assert nodes.status(nodes.first) == AVAILABLE


def test_who_is_no_member_is_left_alone(nodes: NodeNetwork):
    told = nodes.kick(nodes.chain.accounts[9])
    assert told.names == ["Kicked"]
    nodes.kick(nodes.first)
    assert nodes.kick(nodes.first).names == ["Kicked"]


def test_a_busy_node_is_put_out_once_its_task_has_ended(nodes: NodeNetwork):
    work = nodes.work()
    assert nodes.status(nodes.first) == BUSY
    told = nodes.kick(nodes.first)
    assert told.names == ["Refused"]
    assert nodes.reason(told) == selector(nodes.chain.web3, NODE_BUSY)

    nodes.rest(work)
    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    assert nodes.status(nodes.first) == QUIT


def test_a_node_that_pauses_is_put_out_once_it_is_back(nodes: NodeNetwork):
    nodes.by_node(nodes.first, "pause")
    assert nodes.status(nodes.first) == PAUSED
    told = nodes.kick(nodes.first)
    assert nodes.reason(told) == selector(nodes.chain.web3, NODE_BUSY)

    nodes.by_node(nodes.first, "resume")
    assert nodes.kick(nodes.first).names[-1] == "Kicked"


def test_a_node_with_good_tasks_behind_it_is_put_out_as_well(nodes: NodeNetwork):
    for _ in range(3):
        nodes.rest(nodes.work())
    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    assert nodes.status(nodes.first) == QUIT


def test_at_any_line_of_the_networks_own_three_empty_tasks_are_enough(nodes: NodeNetwork):
    nodes.send(nodes.qos.functions.updateKickoutThreshold(0))
    assert nodes.kick(nodes.first).names[-1] == "Kicked"
    assert nodes.status(nodes.first) == QUIT


def test_what_waits_for_a_node_does_not_start_in_the_middle_of_its_kickout(nodes: NodeNetwork):
    # A first one keeps all three busy; the second one waits for them, or for one of them.
    work = nodes.work()
    for other in nodes.members[1:]:
        nodes.by_node(other, "quit")
    nodes.rest(work)
    nodes.send(nodes.task.functions.nodeAvailableCallback(nodes.first), sender=nodes.owner)
    assert nodes.status(nodes.first) == AVAILABLE
    assert nodes.kick(nodes.first).names[-1] == "Kicked"


def test_only_the_node_contract_tells_of_a_free_node(nodes: NodeNetwork):
    call = nodes.adapter.functions.nodeAvailableCallback(nodes.first)
    for account in (nodes.owner, nodes.caller.address):
        with pytest.raises(RevertedError, match="NotAllowed"):
            nodes.send(call, sender=nodes.owner if account == nodes.owner else nodes.first)


def test_slashing_works_and_the_owner_fetches_what_it_brought(nodes: NodeNetwork):
    told = nodes.slash(nodes.work())
    assert "NodeSlashed" in told.names
    assert balance(nodes, nodes.adapter.address) == STAKE

    purse = "0x" + 36 * "0" + "7777"
    assert refusal(nodes, nodes.adapter.functions.collect(purse), nodes.first) == "NotAllowed"
    nodes.send(nodes.adapter.functions.collect(purse))
    assert balance(nodes, purse) == STAKE


def test_the_owner_names_another_task_contract_and_kickouts_put_that_one_back(nodes: NodeNetwork):
    generation = nodes.name.removesuffix("TaskAdapter")
    more = () if generation == "Vss" else (50,)
    told = (nodes.node.address, nodes.qos.address, *more)
    task = nodes.chain.deploy(f"testing/{generation}Task", *told)
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


def test_a_task_contract_without_code_is_refused(nodes: NodeNetwork):
    call = nodes.adapter.functions.updateTaskContractAddress(nodes.first)
    assert refusal(nodes, call, nodes.owner) == "NoCode"


def test_the_role_goes_back_to_whom_the_owner_names_and_nowhere_else(nodes: NodeNetwork):
    call = nodes.adapter.functions.giveBack(nodes.chain.accounts[8])
    for account in (nodes.first, nodes.chain.accounts[8]):
        assert refusal(nodes, call, account) == "NotAllowed"
    nodes.send(call)
    assert nodes.node.functions.owner().call() == nodes.chain.accounts[8]
    # Kickouts are refused from now on, and harm nobody.
    assert nodes.kick(nodes.first).names == ["Refused"]
    assert nodes.status(nodes.first) == AVAILABLE


def test_the_owners_place_changes_hands_in_two_steps(nodes: NodeNetwork):
    heir = nodes.chain.accounts[8]
    functions = nodes.adapter.functions
    assert refusal(nodes, functions.transferOwnership(heir), heir) == "NotAllowed"
    nodes.send(functions.transferOwnership(heir))
    assert functions.owner().call() == nodes.owner
    assert refusal(nodes, functions.acceptOwnership(), nodes.first) == "NotAllowed"
    nodes.send(functions.acceptOwnership(), sender=heir)
    assert functions.owner().call() == heir
    assert refusal(nodes, functions.giveBack(nodes.owner), nodes.owner) == "NotAllowed"


def test_nothing_else_of_the_role_can_be_reached_through_it(nodes: NodeNetwork):
    passed_on = {"updateTaskContractAddress", "giveBack", "collect"}
    own = {"kick", "nodeAvailableCallback", "transferOwnership", "acceptOwnership"}
    writing = {
        part["name"]
        for part in nodes.adapter.abi
        if part["type"] == "function" and part["stateMutability"] not in {"view", "pure"}
    }
    assert writing | {"nodeAvailableCallback"} == passed_on | own
    # Ownable has it, and a network whose owner has renounced can never be helped again.
    for call in (
        nodes.node.functions.renounceOwnership(),
        nodes.node.functions.finishTask(nodes.first),
    ):
        with pytest.raises(RevertedError):
            nodes.chain.transact(to=nodes.adapter.address, data=encoded(call), sender=nodes.owner)
    assert nodes.node.functions.owner().call() == nodes.adapter.address


def test_a_wrong_qos_is_found_before_a_task_ends(nodes: NodeNetwork):
    other = nodes.chain.deploy("testing/CrynuxQos", 10, 10)
    told = (nodes.caller.address, nodes.owner, nodes.node.address, other.address)
    wrong = nodes.chain.deploy(f"adapters/{nodes.name}", *told, nodes.task.address)
    nodes.send(nodes.adapter.functions.giveBack(wrong.address))
    nodes.adapter = wrong

    refused = nodes.kick(nodes.first)
    assert nodes.reason(refused) == selector(nodes.chain.web3, "WrongQos()")
    assert nodes.status(nodes.first) == AVAILABLE
    nodes.rest(nodes.work())
