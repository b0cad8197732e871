"""A node that is paid its stake may reject the payment, or join again in the same call.

In the commit generation a contract can be a node. In the VSSTask generation a node proves its
key, but since EIP-7702 an account with a key may have code.
"""

import pytest
from web3.contract import Contract

from tests.contracts.adapters.crynux_driver import AVAILABLE, QUIT, STAKE, NodeNetwork
from tests.support.evm.chain import encode_calldata

pytestmark = pytest.mark.evm

# EIP-7702: an account whose code is this prefix and an address runs that address's code.
DELEGATED = "0xef0100"


@pytest.fixture
def stubborn(nodes: NodeNetwork) -> Contract:
    """Add a member that is a contract, and rejects payments until the test lets it accept them."""
    chain = nodes.chain
    code = chain.deploy("testing/StubbornNode")
    if nodes.name == "CommitTaskAdapter":
        join = nodes.join_call(0)
        nodes.send(code.functions.say(nodes.node.address, encode_calldata(join)), value=STAKE)
        return code
    chain.rpc("anvil_setCode", nodes.first, DELEGATED + code.address[2:].lower())
    return chain.contract("testing/StubbornNode", nodes.first)


def test_node_that_rejects_its_stake_payment_stays_a_member(
    nodes: NodeNetwork, stubborn: Contract
):
    receipt = nodes.kick(stubborn.address)
    # Error(string): the network's own "Token transfer failed".
    assert (receipt.names, nodes.reason(receipt).hex()) == (["Refused"], "08c379a0")
    assert nodes.status(stubborn.address) == AVAILABLE
    other_members = [member for member in nodes.members if member != stubborn.address]
    assert nodes.kick(other_members[0]).names[-1] == "Kicked"


def test_node_that_stops_rejecting_its_stake_can_be_kicked_out(
    nodes: NodeNetwork, stubborn: Contract
):
    nodes.kick(stubborn.address)
    nodes.send(stubborn.functions.answerWith(nodes.node.address, b"", 0))
    assert nodes.kick(stubborn.address).names[-1] == "Kicked"
    assert nodes.status(stubborn.address) == QUIT


def test_node_that_rejoins_during_its_stake_payment_is_a_new_member(
    nodes: NodeNetwork, stubborn: Contract
):
    place = (
        nodes.chain.accounts.index(stubborn.address) if stubborn.address in nodes.members else 0
    )
    again = encode_calldata(nodes.join_call(place))
    nodes.send(stubborn.functions.answerPaying(nodes.node.address, again, STAKE))

    receipt = nodes.kick(stubborn.address)
    assert receipt.names[-1] == "Kicked"
    assert receipt.only("NodeKickedOut")["nodeAddress"] == stubborn.address
    assert nodes.status(stubborn.address) == AVAILABLE

    # It is due at once, and has accepted its stake this time.
    nodes.kick(stubborn.address)
    assert nodes.status(stubborn.address) == QUIT


def test_reentrant_kickout_is_refused_and_can_be_retried(nodes: NodeNetwork, stubborn: Contract):
    other_member = next(member for member in nodes.members if member != stubborn.address)
    inner = nodes.caller.functions.kick(nodes.adapter.address, other_member, bytes(32), 3_000_000)
    nodes.send(stubborn.functions.answerWith(nodes.caller.address, encode_calldata(inner), 1))

    receipt = nodes.kick(stubborn.address, gas=6_000_000)
    assert [name for name in receipt.names if name in {"Kicked", "Refused"}] == [
        "Refused",
        "Kicked",
    ]
    assert nodes.status(stubborn.address) == QUIT
    assert nodes.status(other_member) == AVAILABLE
    assert nodes.kick(other_member).names[-1] == "Kicked"
