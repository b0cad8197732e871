"""The oracle contract itself puts out nodes of networks that know nothing of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from tests.contracts.adapters.crynux_driver import AVAILABLE, GAS, QUIT, NodeNetwork
from tests.contracts.oracle_driver import KICK_LIMITS, Oracle, deployed
from tests.contracts.oracle_kickouts import BAD, DELAY, GOOD, ROUNDS
from tests.contracts.oracle_signing import word
from tests.support.evm.chain import Receipt

pytestmark = pytest.mark.evm

REFUSED = 3


@dataclass
class Put:
    """A network whose first member has a bad score, and the oracle that is to put it out."""

    oracle: Oracle
    nodes: NodeNetwork

    @property
    def bad(self) -> str:
        return self.nodes.first

    def round(self, fresh: Sequence[str] = ()) -> None:
        self.oracle.reported((0, word(BAD, GOOD, GOOD)), fresh=fresh)

    def ready(self) -> None:
        """Everything that must come before an execution has come."""
        self.oracle.propose(self.bad)
        for _ in range(ROUNDS):
            self.round()
        self.oracle.chain.later(DELAY)
        self.oracle.chain.mine()


@pytest.fixture
def put(nodes: NodeNetwork) -> Put:
    """Three members with scores; the oracle's target is the network's adapter."""
    gas = KICK_LIMITS | {"kickGas": GAS[nodes.name]}
    oracle = deployed(nodes.chain, kickLimits=gas)
    adapter_arguments = (
        oracle.contract.address,
        nodes.owner,
        nodes.node.address,
        nodes.qos.address,
    )
    adapter = nodes.chain.deploy(f"adapters/{nodes.name}", *adapter_arguments, nodes.task.address)
    nodes.send(nodes.adapter.functions.giveBack(adapter.address))
    oracle.do("setTarget", adapter.address, sender=oracle.admin)
    oracle_and_nodes = Put(oracle, replace(nodes, adapter=adapter))
    oracle_and_nodes.round(fresh=nodes.members)
    return oracle_and_nodes


def kicked(receipt: Receipt) -> list[str]:
    """What oracle and network say; the adapter's own events are none of it."""
    return [name for name in receipt.names if name.startswith(("Kick", "Node"))]


def test_executed_kick_expels_node_and_returns_stake(put: Put, capsys: pytest.CaptureFixture[str]):
    put.ready()
    receipt = put.oracle.execute(put.bad)

    assert kicked(receipt) == ["KickExecuted", "NodeKickedOut"]
    assert (put.nodes.status(put.bad), put.nodes.stake(put.bad)) == (QUIT, 0)
    assert put.oracle.read("weightOf", put.bad) == 0
    with capsys.disabled():
        print(f"\nexecuteKick through {put.nodes.name}: {receipt.gas:,} gas")  # noqa: T201


def test_busy_node_is_expelled_at_once_and_kicked_out_after_its_task(put: Put):
    put.ready()
    work = put.nodes.work()
    receipt = put.oracle.execute(put.bad)
    assert kicked(receipt) == ["KickExecuted", "KickRefused"]
    assert put.oracle.held(put.bad)["kick"] == REFUSED
    assert put.oracle.read("weightOf", put.bad) == 0

    put.nodes.rest(work)
    assert kicked(put.oracle.retry(put.bad)) == ["KickExecuted", "NodeKickedOut"]
    assert put.nodes.status(put.bad) == QUIT


def test_rejoined_node_can_be_kicked_out_again_without_a_new_proposal(put: Put):
    put.ready()
    put.oracle.execute(put.bad)
    place = put.nodes.chain.accounts.index(put.bad)
    put.nodes.join(place)
    assert put.nodes.status(put.bad) == AVAILABLE
    for _ in range(ROUNDS):
        put.round()
    assert kicked(put.oracle.retry(put.bad))[-1] == "NodeKickedOut"
    assert put.nodes.status(put.bad) == QUIT


def test_kickout_refused_by_an_adapter_without_the_role_succeeds_with_a_new_adapter(put: Put):
    put.ready()
    put.nodes.send(put.nodes.adapter.functions.giveBack(put.nodes.owner))
    assert kicked(put.oracle.execute(put.bad)) == ["KickExecuted", "KickRefused"]

    oracle_owner_node = (put.oracle.contract.address, put.nodes.owner, put.nodes.node.address)
    qos_and_task = (put.nodes.qos.address, put.nodes.task.address)
    adapter = put.nodes.chain.deploy(
        f"adapters/{put.nodes.name}", *oracle_owner_node, *qos_and_task
    )
    put.nodes.by_node(put.nodes.owner, "transferOwnership", adapter.address)
    put.oracle.do("setTarget", adapter.address, sender=put.oracle.admin)
    assert kicked(put.oracle.retry(put.bad))[-1] == "NodeKickedOut"
