"""System tasks of the dispatcher: created, paid and started at once, or not at all."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import ETHER, NOTHING, Network, Status, word

pytestmark = pytest.mark.evm

FEE = ETHER // 10
NAME = word(1 << 40)


@pytest.fixture(scope="module")
def staffed(fresh_chain: Chain) -> Network:
    """A network with three nodes and an ether in its dispatcher's purse."""
    network = Network.deployed(fresh_chain)
    for node in network.nodes[:3]:
        network.join(node)
    network.by(network.admin, network.does.fund(network.dispatcher), value=ETHER)
    return network


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def probe(network: Network, nodes: list[str], fee: int = FEE, sender: str = "") -> list[bytes]:
    size = len(nodes)
    group = (NAME, size) if size > 1 else (NOTHING, 0)
    order = network.order(id=NAME, group=group[0], group_size=group[1])
    network.by(sender or network.dispatcher, network.does.probe(order, fee, nodes, NOTHING))
    ids = [word((1 << 40) + place) for place in range(size)]
    return [network.key(network.dispatcher, each) for each in ids]


@pytest.mark.parametrize("size", [1, 3])
def test_it_runs_at_once_and_is_paid_out_of_the_dispatchers_credit(network: Network, size: int):
    nodes = network.nodes[:size]
    tasks = probe(network, nodes)

    assert [network.status(task) for task in tasks] == [Status.STARTED] * size
    assert [network.told(task)["node"] for task in tasks] == nodes
    assert {network.told(task)["fee"] for task in tasks} == {FEE}
    assert network.owed(network.dispatcher) == ETHER - size * FEE


def test_a_node_that_may_not_have_it_leaves_everything_as_it_was(network: Network):
    network.begun(network.nodes[2])
    with pytest.raises(RevertedError, match="NodeBusy"):
        probe(network, network.nodes[:3])

    assert network.owed(network.dispatcher) == ETHER
    assert network.node(network.nodes[0])["task"] == NOTHING


def test_node_that_pauses_first_costs_no_orders(network: Network):
    network.by(network.nodes[2], network.does.pause())
    with pytest.raises(RevertedError, match="NodeIsPaused"):
        probe(network, network.nodes[:3])
    block = network.chain.rpc("eth_getBlockByNumber", "latest", False)
    assert int(block["gasUsed"], 16) < 60_000


def test_more_than_the_dispatcher_is_credited_with_is_refused(network: Network):
    with pytest.raises(RevertedError, match="PurseTooSmall"):
        probe(network, network.nodes[:3], fee=ETHER // 2)


def test_the_same_one_is_refused_a_second_time(network: Network):
    (task,) = probe(network, network.nodes[:1])
    network.submit(task, network.nodes[0])
    with pytest.raises(RevertedError, match="TaskExists"):
        probe(network, network.nodes[:1])


def test_nobody_but_the_dispatcher_may(network: Network):
    with pytest.raises(RevertedError, match="NotDispatcher"):
        probe(network, network.nodes[:1], sender=network.creator)
