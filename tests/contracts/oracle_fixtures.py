"""An oracle with twenty nodes, deployed once a module; each test on a clean state of it."""

import pytest

from tests.contracts.oracle_driver import Oracle, deployed
from tests.support.evm.chain import Chain

NODES = 20


@pytest.fixture(scope="module")
def fresh_oracle(fresh_chain: Chain) -> Oracle:
    oracle = deployed(fresh_chain)
    oracle.by_network("joinMany", 1, NODES)
    oracle.registered(NODES)
    fresh_chain.later(10)
    fresh_chain.mine(3)
    return oracle


@pytest.fixture
def oracle(chain: Chain, fresh_oracle: Oracle) -> Oracle:
    """Nodes 0 to 19 are members and got their indexes in round 1, with a QoS of 0.5 each."""
    return fresh_oracle
