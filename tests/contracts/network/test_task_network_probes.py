"""System tasks of the dispatcher: created, paid and started in one call, or not at all."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import ETHER, NOTHING, Network, Status, encode_word

pytestmark = pytest.mark.evm

FEE = ETHER // 10
NAME = encode_word(1 << 40)


@pytest.fixture(scope="module")
def staffed(fresh_chain: Chain) -> Network:
    """Return a network with three nodes and a credit of one ether for its dispatcher."""
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
    ids = [encode_word((1 << 40) + place) for place in range(size)]
    return [network.key(network.dispatcher, task_id) for task_id in ids]


@pytest.mark.parametrize("size", [1, 3])
def test_probe_starts_immediately_and_is_paid_from_dispatcher_credit(network: Network, size: int):
    nodes = network.nodes[:size]
    tasks = probe(network, nodes)

    assert [network.status(task) for task in tasks] == [Status.STARTED] * size
    assert [network.read_task(task)["node"] for task in tasks] == nodes
    assert {network.read_task(task)["fee"] for task in tasks} == {FEE}
    assert network.owed(network.dispatcher) == ETHER - size * FEE


def test_probe_with_a_busy_node_reverts_and_starts_no_task(network: Network):
    network.create_started_task(network.nodes[2])
    with pytest.raises(RevertedError, match="NodeBusy"):
        probe(network, network.nodes[:3])

    assert network.owed(network.dispatcher) == ETHER
    assert network.node(network.nodes[0])["task"] == NOTHING


def test_probe_with_a_paused_node_reverts_with_little_gas(network: Network):
    network.by(network.nodes[2], network.does.pause())
    with pytest.raises(RevertedError, match="NodeIsPaused"):
        probe(network, network.nodes[:3])
    block = network.chain.rpc("eth_getBlockByNumber", "latest", False)
    assert int(block["gasUsed"], 16) < 60_000


def test_probe_that_exceeds_the_dispatchers_credit_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="PurseTooSmall"):
        probe(network, network.nodes[:3], fee=ETHER // 2)


def test_duplicate_probe_is_rejected(network: Network):
    (task,) = probe(network, network.nodes[:1])
    network.submit(task, network.nodes[0])
    with pytest.raises(RevertedError, match="TaskExists"):
        probe(network, network.nodes[:1])


def test_only_dispatcher_may_probe(network: Network):
    with pytest.raises(RevertedError, match="NotDispatcher"):
        probe(network, network.nodes[:1], sender=network.creator)
