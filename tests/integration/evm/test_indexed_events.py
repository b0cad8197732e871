"""An event of the reference network is indexed, and shown by `explain` and on the node's page."""

import pytest

from tests.support.evm.indexed_network import IndexedNetwork

pytestmark = pytest.mark.evm


def test_timeout_on_chain_is_explained_and_shown_on_page(indexed_network: IndexedNetwork):
    network = indexed_network.network
    indexed_network.change_rules(penalty="0.4")
    node = network.nodes[0]
    network.join(node)
    task = network.create_started_task(node)
    network.chain.later(301)
    network.time_out(task)
    indexed_network.index()

    (change,) = indexed_network.explain(node)["reliability"]["changes"][1:]
    assert (change["cause"], change["before"]) == ("timed_out", "1.000000000000000000")
    assert change["after"] == "0.400000000000000000"
    assert "timed out at block" in indexed_network.read_output("explain", node, "--full")
    page = indexed_network.load_page(node)
    assert "One timeout in the last" in page
    assert "reliability 1.00 to 0.40" in page


def test_paused_node_on_chain_is_shown_as_paused(indexed_network: IndexedNetwork):
    network = indexed_network.network
    node = network.nodes[0]
    network.join(node)
    network.by(node, network.does.pause())
    indexed_network.index()

    assert "Paused by its owner" in indexed_network.load_page(node)
