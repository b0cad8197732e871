"""The gas of a kickout on each kind of network, and the effect of a node with many models."""

import pytest

from tests.contracts.adapters.crynux_driver import (
    AVAILABLE,
    GAS,
    QUIT,
    NodeNetwork,
    commit_nodes,
    vss_nodes,
)
from tests.support.evm.chain import Chain

pytestmark = pytest.mark.evm

MODELS = (1, 10, 25, 50, 100)


def join_with_models(nodes: NodeNetwork, place: int, models: int) -> str:
    """Let a node join with one model, and report this number of others."""
    account = nodes.join(place)
    for number in range(1, models):
        nodes.by_node(account, "reportModelDownloaded", f"model {number}")
    return account


def measure_kick_gas(nodes: NodeNetwork, place: int, models: int) -> int:
    """Return the gas of the complete transaction without a gas limit."""
    account = join_with_models(nodes, place, models)
    with nodes.chain.undone():
        receipt = nodes.kick(account, gas=10_000_000)
        assert nodes.status(account) == QUIT
        return receipt.gas


def test_kickout_of_a_node_with_one_model_fits_in_the_gas_limit(chain: Chain):
    for nodes in (vss_nodes(chain), commit_nodes(chain)):
        assert measure_kick_gas(nodes, 4, 1) < GAS[nodes.name]


def test_kickout_gas_grows_with_the_number_of_models(
    chain: Chain, capsys: pytest.CaptureFixture[str]
):
    nodes = vss_nodes(chain)
    gas = {
        models: measure_kick_gas(nodes, place, models)
        for place, models in enumerate(MODELS, start=4)
    }
    with capsys.disabled():
        print("\nmodels  gas of a kickout")  # noqa: T201 - a table is what this is for
        for models, cost in gas.items():
            print(f"{models:>6}  {cost:>10,}")  # noqa: T201
    costs = list(gas.values())
    assert costs == sorted(costs)
    gas_per_model = (gas[100] - gas[10]) // 90
    assert 40_000 < gas_per_model < 90_000
    # The default suffices for an ordinary node, but not for one with artificially high costs.
    assert gas[25] < GAS["VssTaskAdapter"] < gas[100]


def test_kickout_above_the_gas_limit_is_refused_and_changes_nothing(chain: Chain):
    nodes = vss_nodes(chain)
    account = join_with_models(nodes, 4, 100)
    receipt = nodes.kick(account)
    assert receipt.names == ["Refused"]
    assert nodes.status(account) == AVAILABLE
    # The task contract is restored, so the network works.
    nodes.rest(nodes.work())
