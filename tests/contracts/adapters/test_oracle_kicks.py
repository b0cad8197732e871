"""The oracle contract itself kicks out nodes of networks without support for oracles."""

from dataclasses import dataclass, replace

import pytest
from web3.contract import Contract

from tests.contracts.adapters.crynux_driver import AVAILABLE, GAS, QUIT, NodeNetwork
from tests.contracts.roots.due_leaves import ROUNDS, leaves_of, wait_until_ready
from tests.contracts.roots.roots_driver import KICK_LIMITS, RootsOracle, deploy_roots
from tests.support.evm.chain import Receipt

pytestmark = pytest.mark.evm

SEAT = 0
REFUSED = 3


@dataclass
class DueNode:
    """A network, and an oracle whose last root states a due kickout of the first member."""

    oracle: RootsOracle
    nodes: NodeNetwork

    @property
    def address(self) -> str:
        return self.nodes.first

    def push(self) -> None:
        self.oracle.push_leaves(leaves_of([*self.nodes.members[:3], self.nodes.owner], SEAT))

    def prepare(self) -> None:
        """Accuse the node, and let the delay and the rounds before an execution pass."""
        self.oracle.accuse(SEAT)
        wait_until_ready(self.oracle, self.oracle.last_round.leaves)

    def deploy_adapter(self) -> Contract:
        nodes = self.nodes
        addresses = (nodes.owner, nodes.node.address, nodes.qos.address, nodes.task.address)
        oracle = self.oracle.contract.address
        return nodes.chain.deploy(f"adapters/{nodes.name}", oracle, *addresses)

    def set_target(self, adapter: Contract) -> None:
        self.oracle.do("setTarget", adapter.address, sender=self.oracle.admin)


@pytest.fixture
def due(nodes: NodeNetwork) -> DueNode:
    """Return a network with three members; the oracle's target is its adapter."""
    gas = KICK_LIMITS | {"kickGas": GAS[nodes.name]}
    due = DueNode(deploy_roots(nodes.chain, kickLimits=gas), nodes)
    adapter = due.deploy_adapter()
    nodes.send(nodes.adapter.functions.giveBack(adapter.address))
    due.set_target(adapter)
    due.nodes = replace(nodes, adapter=adapter)
    due.push()
    return due


def list_kick_events(receipt: Receipt) -> list[str]:
    """Return the events of the oracle and the network, without the adapter's own."""
    return [name for name in receipt.names if name.startswith(("Kick", "Node"))]


def test_executed_kickout_expels_node_and_returns_its_stake(
    due: DueNode, capsys: pytest.CaptureFixture[str]
):
    due.prepare()
    receipt = due.oracle.execute(SEAT)

    assert list_kick_events(receipt) == ["KickExecuted", "NodeKickedOut"]
    assert (due.nodes.status(due.address), due.nodes.stake(due.address)) == (QUIT, 0)
    assert due.oracle.is_expelled(SEAT)
    with capsys.disabled():
        print(f"\nexecuteKick through {due.nodes.name}: {receipt.gas:,} gas")  # noqa: T201


def test_busy_node_is_expelled_immediately_and_kicked_after_its_task(due: DueNode):
    due.prepare()
    work = due.nodes.work()
    receipt = due.oracle.execute(SEAT)
    assert list_kick_events(receipt) == ["KickExecuted", "KickRefused"]
    assert due.oracle.kick(SEAT)["state"] == REFUSED
    assert due.oracle.is_expelled(SEAT)

    due.nodes.rest(work)
    assert list_kick_events(due.oracle.retry(SEAT)) == ["KickExecuted", "NodeKickedOut"]
    assert due.nodes.status(due.address) == QUIT


def test_rejoined_node_can_be_kicked_again_without_accusation(due: DueNode):
    due.prepare()
    due.oracle.execute(SEAT)
    place = due.nodes.chain.accounts.index(due.address)
    due.nodes.join(place)
    assert due.nodes.status(due.address) == AVAILABLE
    for _ in range(ROUNDS):
        due.push()
    assert list_kick_events(due.oracle.retry(SEAT))[-1] == "NodeKickedOut"
    assert due.nodes.status(due.address) == QUIT


def test_refused_kickout_succeeds_with_a_new_adapter(
    due: DueNode,
):
    due.prepare()
    due.nodes.send(due.nodes.adapter.functions.giveBack(due.nodes.owner))
    assert list_kick_events(due.oracle.execute(SEAT)) == ["KickExecuted", "KickRefused"]

    adapter = due.deploy_adapter()
    due.nodes.by_node(due.nodes.owner, "transferOwnership", adapter.address)
    due.set_target(adapter)
    assert list_kick_events(due.oracle.retry(SEAT))[-1] == "NodeKickedOut"
