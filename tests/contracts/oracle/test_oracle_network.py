"""The oracle with the reference network: what befalls a node, and what its score then says."""

from dataclasses import dataclass, replace

import pytest

from tests.contracts.oracle_driver import (
    EVIDENCE,
    KICK_LIMITS,
    LIMITS,
    Oracle,
    as_tuple,
    full,
    setup,
)
from tests.support.evm.chain import Chain, Receipt, RevertedError, encoded
from tests.support.evm.network import GPU, MIN_STAKE, VERSION, VRAM, Network, Standing, Status

pytestmark = pytest.mark.evm

BAD, GOOD, REJOIN_DELAY = 1_500, 9_000, 1_800
NEWCOMER = 5_000
KICKED = ["KickExecuted", "NodeKickedOut", "StakeReturned", "Credited"]


@dataclass(frozen=True)
class Town:
    """The reference network and its oracle; ann, bob and cyd have the indexes 0 to 2."""

    oracle: Oracle
    network: Network

    @property
    def ann(self) -> str:
        return self.network.nodes[1]

    def weight(self, node: str) -> int:
        return int(self.oracle.read("weightOf", node))

    def reported(self, *lanes: int, fresh: tuple[str, ...] = ()) -> None:
        """One more round; who is not named stays good."""
        count = self.oracle.head("nodeCount") + len(fresh)
        all_lanes = (*lanes, *(count - len(lanes)) * (GOOD,))
        self.oracle.reported((0, full(*all_lanes, of=count)), fresh=fresh)

    def kick_is_ready(self, node: str, *lanes: int) -> None:
        """After proposal, delay and two more rounds in which every lane stays what it is."""
        self.oracle.propose(node)
        for _ in range(LIMITS["kickRounds"]):
            self.reported(*lanes)
        self.oracle.chain.later(LIMITS["vetoDelay"])
        self.oracle.chain.mine()

    def kicked(self) -> Receipt:
        """Ann."""
        self.reported(BAD)
        self.kick_is_ready(self.ann, BAD)
        return self.oracle.execute(self.ann)

    def quits(self, node: str) -> Receipt:
        return self.network.by(node, self.network.does.quit())

    def returns(self, node: str) -> Receipt:
        self.network.chain.later(REJOIN_DELAY)
        return self.network.join(node)


@pytest.fixture(scope="module")
def fresh_town(fresh_chain: Chain) -> Town:
    network = Network.deployed(fresh_chain)
    admin, pauser, vetoer = roles = fresh_chain.accounts[:3]
    kicks = KICK_LIMITS | {"kickGas": 600_000}
    limits = LIMITS | {"minOpen": 1}
    arguments = setup(network.contract.address, roles, limits=limits, kickLimits=kicks)
    contract = fresh_chain.deploy("QoSOracle", as_tuple(arguments))
    network.by(network.admin, network.does.setOracle(contract.address))
    for node in network.nodes[1:4]:
        network.join(node)
    oracle = Oracle(
        fresh_chain, contract, network.contract, admin, pauser, vetoer, network.nodes[0]
    )
    town = Town(oracle, network)
    town.reported(GOOD, GOOD, GOOD, fresh=tuple(network.nodes[1:4]))
    return town


@pytest.fixture
def town(chain: Chain, fresh_town: Town) -> Town:
    return fresh_town


def test_joining_the_network_does_not_register_a_node_in_the_oracle(town: Town):
    newcomer = town.network.nodes[4]
    assert town.network.join(newcomer).names == ["NodeJoined"]
    assert town.oracle.score(newcomer) == (False, True, 0)
    assert town.weight(newcomer) == NEWCOMER
    town.reported(fresh=(newcomer,))
    assert town.oracle.score(newcomer) == (True, True, GOOD - 2)


def test_paused_node_is_not_selectable_after_the_next_report(town: Town):
    town.network.by(town.ann, town.network.does.pause())
    town.reported(1)
    assert town.oracle.score(town.ann) == (True, False, 0)

    town.network.by(town.ann, town.network.does.resume())
    town.reported()
    assert town.oracle.score(town.ann) == (True, True, GOOD - 2)


def test_paused_node_can_be_kicked_out(town: Town):
    town.network.by(town.ann, town.network.does.pause())
    town.reported(1)
    town.kick_is_ready(town.ann, 1)
    assert town.oracle.execute(town.ann).names == KICKED


def test_rejoined_node_keeps_index_and_score(town: Town):
    town.quits(town.ann)
    town.reported(1)
    assert town.oracle.score(town.ann) == (True, False, 0)
    assert town.returns(town.ann).names == ["NodeJoined"]
    town.reported(BAD)
    assert town.oracle.score(town.ann) == (True, True, BAD - 2)
    assert town.oracle.read("indexOf", town.ann) == 0


def test_kick_passes_evidence_to_network_and_returns_stake(town: Town):
    receipt = town.kicked()
    assert receipt.names == KICKED
    expected_event = {"node": town.ann, "stake": MIN_STAKE, "evidence": EVIDENCE}
    assert receipt.only("NodeKickedOut") == expected_event
    assert town.network.standing(town.ann) is Standing.KICKED_OUT
    assert town.weight(town.ann) == 0
    before = town.network.balance(town.ann)
    town.network.by(town.ann, town.network.does.withdraw())
    assert town.network.balance(town.ann) - before == MIN_STAKE


def test_kicked_out_node_cannot_rejoin(town: Town):
    town.kicked()
    with pytest.raises(RevertedError, match="KickedOut"):
        town.returns(town.ann)


def test_node_readmitted_only_by_the_network_has_zero_weight(town: Town):
    """Both have to: the network lets it in, the oracle lets it work."""
    town.kicked()
    town.network.by(town.network.admin, town.network.does.readmit(town.ann))
    town.returns(town.ann)
    town.reported()
    assert town.weight(town.ann) == 0
    # Told of again, the network puts it out again.
    town.reported()
    assert "NodeKickedOut" in town.oracle.retry(town.ann).names


def test_node_readmitted_by_network_and_oracle_gets_its_weight_back(town: Town):
    town.kicked()
    town.network.by(town.network.admin, town.network.does.readmit(town.ann))
    town.oracle.do("readmit", town.ann, sender=town.oracle.admin)
    town.returns(town.ann)
    town.reported()
    assert town.weight(town.ann) == GOOD - 1


def test_quit_during_veto_period_becomes_kickout(town: Town):
    town.reported(BAD)
    town.kick_is_ready(town.ann, BAD)
    left = town.quits(town.ann)
    assert "NodeKickedOut" in left.names
    assert "NodeQuit" not in left.names
    with pytest.raises(RevertedError, match="KickedOut"):
        town.returns(town.ann)
    # The network has nothing left to do; the expulsion stands all the same.
    assert town.oracle.execute(town.ann).names == ["KickExecuted"]
    assert town.weight(town.ann) == 0


def test_quit_and_kick_in_the_same_block_both_succeed(town: Town):
    town.reported(BAD)
    town.kick_is_ready(town.ann, BAD)
    chain = town.network.chain
    leaving = chain.request(town.network.does.quit(), sender=town.ann)
    execution = chain.request(town.oracle.contract.functions.executeKick(town.ann))
    left, executed = chain.together(leaving, execution)
    assert "NodeKickedOut" in chain.receipt(left).names
    assert chain.receipt(executed).names == ["KickExecuted"]
    assert town.network.owed(town.ann) == MIN_STAKE
    assert town.weight(town.ann) == 0


def test_node_that_quits_after_a_veto_can_rejoin(town: Town):
    town.reported(BAD)
    town.kick_is_ready(town.ann, BAD)
    town.oracle.cancel(town.ann)
    assert "NodeQuit" in town.quits(town.ann).names
    assert town.returns(town.ann).names == ["NodeJoined"]


def test_kick_aborts_running_task(town: Town):
    task = town.network.begun(town.ann)
    names = town.kicked().names
    assert names[:2] == ["KickExecuted", "TaskAborted"]
    assert "NodeKickedOut" in names
    assert town.network.status(task) is Status.ABORTED


def test_node_that_rejects_its_stake_payment_can_still_be_kicked(town: Town):
    chain, network = town.network.chain, town.network
    stubborn = chain.deploy("testing/StubbornNode")
    join = encoded(network.does.join(GPU, VRAM, *VERSION, []))
    say = stubborn.functions.say(network.contract.address, join)
    chain.send(say, sender=network.nodes[5], value=MIN_STAKE)
    lanes = (GOOD, GOOD, GOOD, BAD)
    town.reported(*lanes, fresh=(stubborn.address,))
    town.kick_is_ready(stubborn.address, *lanes)

    receipt = town.oracle.execute(stubborn.address)
    assert receipt.only("NodeKickedOut")["node"] == stubborn.address
    assert network.owed(stubborn.address) == MIN_STAKE
    withdraw = encoded(network.does.withdraw())
    with pytest.raises(RevertedError):
        chain.send(stubborn.functions.say(network.contract.address, withdraw))


def test_kick_by_a_foreign_oracle_is_refused_by_the_network(town: Town):
    """Its word is refused by the network; whoever reads it knows what he reads."""
    chain = town.network.chain
    arguments = setup(town.network.contract.address, chain.accounts[:3])
    contract = chain.deploy("QoSOracle", as_tuple(arguments))
    foreign_town = Town(replace(town.oracle, contract=contract), town.network)
    foreign_town.reported(BAD, fresh=(town.ann,))
    foreign_town.oracle.limited(minOpen=0)
    foreign_town.kick_is_ready(town.ann, BAD)
    assert foreign_town.oracle.execute(town.ann).names == ["KickExecuted", "KickRefused"]
    assert (foreign_town.weight(town.ann), town.weight(town.ann)) == (0, GOOD - 1)
    assert town.network.standing(town.ann) is Standing.ACTIVE
