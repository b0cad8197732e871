"""Fixtures: an oracle of roots with a round of twenty healthy nodes."""

from dataclasses import replace

import pytest

from tests.contracts.roots.root_rounds import make_leaves
from tests.contracts.roots.roots_driver import RootsOracle, deploy_roots
from tests.support.evm.chain import Chain

NODES = 20


@pytest.fixture(scope="module")
def fresh_roots(fresh_chain: Chain) -> RootsOracle:
    fresh_chain.mine(3)
    oracle = deploy_roots(fresh_chain)
    oracle.push_leaves(make_leaves(NODES))
    return oracle


@pytest.fixture
def roots(chain: Chain, fresh_roots: RootsOracle) -> RootsOracle:
    """Return the oracle, whose round 1 has the leaves of twenty members with a QoS of 0.7 each."""
    return replace(fresh_roots)
