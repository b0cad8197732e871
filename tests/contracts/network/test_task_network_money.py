"""Money of the reference network: only its owner can withdraw it."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import FEE, MIN_STAKE, Network

pytestmark = pytest.mark.evm


@pytest.fixture(scope="module")
def open_for_all(fresh_chain: Chain) -> Network:
    return Network.deployed(fresh_chain)


@pytest.fixture
def network(open_for_all: Network, chain: Chain) -> Network:
    return open_for_all


def test_credit_can_be_withdrawn_only_once(network: Network):
    node = network.nodes[0]
    network.join(node)
    network.by(network.creator, network.does.validateTask(network.submitted(node)))
    before = network.balance(node)
    event = network.by(node, network.does.withdraw()).only("Withdrawn")

    assert event == {"account": node, "amount": FEE}
    assert network.balance(node) == before + FEE
    assert network.owed(node) == 0
    with pytest.raises(RevertedError, match="NothingToWithdraw"):
        network.by(node, network.does.withdraw())


def test_reentrant_withdrawal_is_rejected(network: Network):
    chain, at = network.chain, network.contract.address
    withdraw = network.contract.encode_abi("withdraw")
    thief = chain.deploy("testing/StubbornNode")
    join = network.contract.encode_abi("join", ["Any", 8, 1, 0, 0, []])
    chain.send(thief.functions.say(at, join), value=MIN_STAKE)
    chain.send(thief.functions.say(at, network.contract.encode_abi("quit")))
    network.join(network.nodes[0])

    chain.send(thief.functions.answerWith(at, withdraw, 1))
    with pytest.raises(RevertedError, match="PaymentRefused"):
        chain.send(thief.functions.say(at, withdraw))
    assert network.owed(thief.address) == MIN_STAKE
    assert network.balance() == 2 * MIN_STAKE
    chain.send(thief.functions.answerWith(at, b"", 0))
    chain.send(thief.functions.say(at, withdraw))
    assert network.balance() == MIN_STAKE
