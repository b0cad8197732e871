"""Download requests to nodes: from the dispatcher, for members, one at a time."""

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
    """Ask a node to download a model; return the end of the request."""
    call = network.does.requestDownload(node, model)
    event = network.by(sender or network.dispatcher, call).only("DownloadRequested")
    assert (event["node"], event["model"]) == (node, model)
    return int(event["until"])


def test_download_request_lasts_30_minutes(network: Network):
    assert ask(network, network.nodes[0]) == network.chain.time + DOWNLOAD_TIME


def test_duplicate_download_request_is_rejected_until_expiry(network: Network):
    node, other_node = network.nodes[:2]
    until = ask(network, node)
    network.chain.at(until - 1)
    with pytest.raises(RevertedError, match="AlreadyAsked"):
        ask(network, node)
    network.chain.at(until)
    assert ask(network, node) == until + DOWNLOAD_TIME
    assert ask(network, node, "another") > 0
    assert ask(network, other_node) > 0


def test_only_dispatcher_may_request_downloads(network: Network):
    for sender in (network.admin, network.nodes[0], network.creator):
        with pytest.raises(RevertedError, match="NotDispatcher"):
            ask(network, network.nodes[0], sender=sender)


def test_download_request_to_a_non_member_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="NotMember"):
        ask(network, network.nodes[2])


@pytest.mark.parametrize("model", ["", "m" * 129])
def test_empty_or_oversized_model_name_is_rejected(network: Network, model: str):
    with pytest.raises(RevertedError, match="BadName"):
        ask(network, network.nodes[0], model)


def test_node_can_add_a_model_with_or_without_a_request(network: Network):
    node, other_node = network.nodes[:2]
    ask(network, node)
    for sender in (node, other_node):
        assert (
            network.by(sender, network.does.addModel(MODEL)).only("ModelAdded")["node"] == sender
        )
