"""Nodes are asked to download a model: by the dispatcher, members only, one request at a time."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import Network

pytestmark = pytest.mark.evm

MODEL = "llama"
DOWNLOAD_TIME = 1800


@pytest.fixture(scope="module")
def joined(fresh_chain: Chain) -> Network:
    network = Network.deployed(fresh_chain)
    for node in network.nodes[:2]:
        network.join(node)
    return network


@pytest.fixture
def network(joined: Network, chain: Chain) -> Network:
    return joined


def ask(network: Network, node: str, model: str = MODEL, sender: str = "") -> int:
    """When the request is over."""
    call = network.does.requestDownload(node, model)
    said = network.by(sender or network.dispatcher, call).only("DownloadRequested")
    assert (said["node"], said["model"]) == (node, model)
    return int(said["until"])


def test_a_request_stands_for_half_an_hour(network: Network):
    assert ask(network, network.nodes[0]) == network.chain.time + DOWNLOAD_TIME


def test_nobody_is_asked_for_the_same_model_while_a_request_stands(network: Network):
    node, other = network.nodes[:2]
    until = ask(network, node)
    network.chain.at(until - 1)
    with pytest.raises(RevertedError, match="AlreadyAsked"):
        ask(network, node)
    network.chain.at(until)
    assert ask(network, node) == until + DOWNLOAD_TIME
    assert ask(network, node, "another") > 0
    assert ask(network, other) > 0


def test_only_the_dispatcher_asks(network: Network):
    for sender in (network.admin, network.nodes[0], network.creator):
        with pytest.raises(RevertedError, match="NotDispatcher"):
            ask(network, network.nodes[0], sender=sender)


def test_only_members_are_asked(network: Network):
    with pytest.raises(RevertedError, match="NotMember"):
        ask(network, network.nodes[2])


@pytest.mark.parametrize("model", ["", "m" * 129])
def test_a_model_has_a_name_of_at_most_128_bytes(network: Network, model: str):
    with pytest.raises(RevertedError, match="BadName"):
        ask(network, network.nodes[0], model)


def test_a_node_adds_a_model_whether_or_not_it_was_asked(network: Network):
    node, other = network.nodes[:2]
    ask(network, node)
    for one in (node, other):
        assert network.by(one, network.does.addModel(MODEL)).only("ModelAdded")["node"] == one
