"""Networks for most tests of the task contract; each test gets them as deployed."""

import pytest

from tests.support.evm.chain import Chain
from tests.support.evm.network import Network


@pytest.fixture(scope="module")
def busy(fresh_chain: Chain) -> Network:
    """Return a network with one node."""
    network = Network.deployed(fresh_chain)
    network.join(network.nodes[0])
    return network


@pytest.fixture(scope="module")
def staffed(fresh_chain: Chain) -> Network:
    """Return a network with six nodes: two groups of three."""
    network = Network.deployed(fresh_chain)
    for node in network.nodes:
        network.join(node)
    return network
