"""Fixtures: both generations with a Node contract, deployed once per module,
reset for each test.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contracts.adapters.crynux_driver import NodeNetwork, commit_nodes, vss_nodes
from tests.support.evm.chain import Chain

GENERATIONS: dict[str, Callable[[Chain], NodeNetwork]] = {"vss": vss_nodes, "commit": commit_nodes}


@pytest.fixture(scope="module", params=GENERATIONS)
def fresh_nodes(request: pytest.FixtureRequest, fresh_chain: Chain) -> NodeNetwork:
    """Return a network with three members; the adapter has the owner's role."""
    network = GENERATIONS[request.param](fresh_chain)
    for place in (5, 6, 7):
        network.join(place)
    return network


@pytest.fixture
def nodes(chain: Chain, fresh_nodes: NodeNetwork) -> NodeNetwork:
    return replace(fresh_nodes, members=[*fresh_nodes.members])
