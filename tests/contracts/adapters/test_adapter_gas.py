"""What a kickout costs on each kind of network, and what a node with many models does to it."""

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


def member_with(nodes: NodeNetwork, place: int, models: int) -> str:
    """A node with so many models; it joins with one, and reports the others as it likes."""
    account = nodes.join(place)
    for number in range(1, models):
        nodes.by_node(account, "reportModelDownloaded", f"model {number}")
    return account


def kicked(nodes: NodeNetwork, place: int, models: int) -> int:
    """The gas of the whole transaction, with as much as it wants."""
    account = member_with(nodes, place, models)
    with nodes.chain.undone():
        receipt = nodes.kick(account, gas=10_000_000)
        assert nodes.status(account) == QUIT
        return receipt.gas


def test_kickout_of_a_node_with_one_model_stays_within_the_gas_limit(chain: Chain):
    for nodes in (vss_nodes(chain), commit_nodes(chain)):
        assert kicked(nodes, 4, 1) < GAS[nodes.name]


def test_kickout_gas_grows_with_the_number_of_models(
    chain: Chain, capsys: pytest.CaptureFixture[str]
):
    nodes = vss_nodes(chain)
    gas = {models: kicked(nodes, place, models) for place, models in enumerate(MODELS, start=4)}
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


def test_kickout_that_exceeds_the_gas_limit_is_refused_without_effect(chain: Chain):
    nodes = vss_nodes(chain)
    account = member_with(nodes, 4, 100)
    receipt = nodes.kick(account)
    assert receipt.names == ["Refused"]
    assert nodes.status(account) == AVAILABLE
    # The task contract is restored, so the network works.
    nodes.rest(nodes.work())
