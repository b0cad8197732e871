"""Nodes that have only a stake on chain are kicked out by returning it."""

from dataclasses import dataclass

import pytest
from web3.contract import Contract

from tests.contracts.adapters.crynux_driver import EVIDENCE, GAS, STAKE
from tests.support.evm.chain import Chain, Receipt, RevertedError, encode_calldata

pytestmark = pytest.mark.evm

UNSTAKED, STAKED, PENDING = 0, 1, 2
# Runtime code of a beneficiary: one reverts with a megabyte, one never ends.
BOMB, LOOP = "0x620fffff5ffd", "0x5b5f56"


@dataclass
class Staking:
    """NodeStaking, its owner, and the adapter that is its admin."""

    chain: Chain
    staking: Contract
    parameters: Contract
    caller: Contract
    adapter: Contract

    def __post_init__(self) -> None:
        self.owner, self.relay, self.writer, self.receiver, self.node, self.other = (
            self.chain.accounts[:6]
        )

    def stake(self, node: str) -> None:
        self.chain.send(self.staking.functions.stake(STAKE), sender=node, value=STAKE)

    def status(self, node: str) -> int:
        return int(self.staking.functions.getStakingInfo(node).call()[3])

    def kick(self, node: str) -> Receipt:
        gas = GAS["NodeStakingAdapter"]
        call = self.caller.functions.kick(self.adapter.address, node, EVIDENCE, gas)
        return self.chain.send(call)


@pytest.fixture
def network(chain: Chain) -> Staking:
    owner, relay, writer, receiver, *nodes = chain.accounts
    staking = chain.deploy("testing/CrynuxStaking", receiver)
    parameters = chain.deploy("testing/CrynuxParameters", staking.address, writer)
    chain.send(staking.functions.setParameterController(parameters.address))
    caller = chain.deploy("testing/KickCaller")
    adapter_arguments = (caller.address, owner, staking.address, relay)
    adapter = chain.deploy("adapters/NodeStakingAdapter", *adapter_arguments)
    chain.send(parameters.functions.setNodeStakingAdminAddress(adapter.address), sender=writer)
    staking_network = Staking(chain, staking, parameters, caller, adapter)
    for node in nodes[:2]:
        staking_network.stake(node)
    return staking_network


def get_refusal(network: Staking, call, sender: str) -> str:
    with pytest.raises(RevertedError) as caught:
        network.chain.send(call, sender=sender)
    return str(caught.value)


def test_kicked_node_receives_its_stake(network: Staking):
    receipt = network.kick(network.node)
    assert receipt.names == ["NodeUnstaked", "Kicked"]
    assert receipt.only("NodeUnstaked")["stakedBalance"] == STAKE
    assert network.status(network.node) == UNSTAKED
    assert receipt.gas < 150_000


def test_kicked_node_with_pending_unstake_is_unstaked(network: Staking):
    network.chain.send(network.staking.functions.tryUnstake(), sender=network.node)
    assert network.status(network.node) == PENDING
    assert network.kick(network.node).names[-1] == "Kicked"
    assert network.status(network.node) == UNSTAKED


def test_kick_of_a_node_without_a_stake_has_no_effect(network: Staking):
    assert network.kick(network.receiver).names == ["Kicked"]
    network.kick(network.node)
    assert network.kick(network.node).names == ["Kicked"]


def test_only_oracle_may_kick(network: Staking):
    call = network.adapter.functions.kick(network.node, EVIDENCE)
    for account in (network.owner, network.relay, network.writer, network.node):
        assert get_refusal(network, call, account).startswith("NotAllowed")


def test_relay_can_unstake_and_slash_through_the_adapter(network: Staking):
    functions = network.adapter.functions
    receipt = network.chain.send(functions.unstake(network.node), sender=network.relay)
    assert receipt.names == ["NodeUnstaked"]
    receipt = network.chain.send(functions.slashStaking(network.other), sender=network.relay)
    assert receipt.names == ["NodeSlashed"]


def test_only_the_relay_can_unstake_or_slash_through_the_adapter(network: Staking):
    functions = network.adapter.functions
    for call in (functions.unstake(network.node), functions.slashStaking(network.node)):
        for account in (network.owner, network.node):
            assert get_refusal(network, call, account).startswith("NotAllowed")
    names = {part["name"] for part in network.adapter.abi if part["type"] == "function"}
    own = {"kick", "transferOwnership", "acceptOwnership", "setOperator"}
    views = {"ORACLE", "STAKING", "owner", "pendingOwner", "operator"}
    assert names == own | views | {"unstake", "slashStaking"}


def test_only_owner_can_change_operator(network: Staking):
    call = network.adapter.functions.setOperator(network.other)
    assert get_refusal(network, call, network.relay).startswith("NotAllowed")
    network.chain.send(call, sender=network.owner)
    unstake = network.adapter.functions.unstake(network.node)
    assert get_refusal(network, unstake, network.relay).startswith("NotAllowed")
    network.chain.send(unstake, sender=network.other)


def test_kickout_is_refused_after_the_adapter_loses_its_admin_role(network: Staking):
    call = network.parameters.functions.setNodeStakingAdminAddress(network.relay)
    network.chain.send(call, sender=network.writer)
    receipt = network.kick(network.node)
    assert receipt.names == ["Refused"]
    assert network.status(network.node) == STAKED


@pytest.mark.parametrize("code", [BOMB, LOOP])
def test_kick_with_a_malicious_beneficiary_is_refused_within_the_gas_limit(
    network: Staking, code: str
):
    there = "0x" + 36 * "0" + "7777"
    network.chain.rpc("anvil_setCode", there, code)
    call = network.staking.functions.setBenefitAddress(there)
    network.chain.send(call, sender=network.node)
    receipt = network.kick(network.node)
    assert receipt.names == ["Refused"]
    assert network.status(network.node) == STAKED
    assert receipt.gas < 700_000


def test_failed_stake_payment_is_reported_with_its_revert_reason(network: Staking):
    stubborn = network.chain.deploy("testing/StubbornNode")
    say = stubborn.functions.say(
        network.staking.address, encode_calldata(network.staking.functions.stake(STAKE))
    )
    network.chain.send(say, value=STAKE)
    receipt = network.kick(stubborn.address)
    assert bytes(receipt.only("Refused")["reason"])[:4].hex() == "08c379a0"
    assert network.status(stubborn.address) == STAKED
