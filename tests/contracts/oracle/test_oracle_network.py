"""The oracle with the reference network: what befalls a node, and what its score then says."""

from dataclasses import dataclass, replace

import pytest

from tests.contracts.oracle_driver import EVIDENCE, LIMITS, Oracle, as_tuple, setup, word
from tests.support.evm.chain import Chain, Receipt, RevertedError, encoded
from tests.support.evm.network import GPU, MIN_STAKE, VERSION, VRAM, Network, Standing, Status

pytestmark = pytest.mark.evm

BAD, REJOIN_DELAY = 1_500, 1_800


@dataclass(frozen=True)
class Town:
    """The reference network and its oracle; ann, bob and cyd have joined, in this order."""

    oracle: Oracle
    network: Network

    @property
    def ann(self) -> str:
        return self.network.nodes[1]

    def reported(self, *lanes: int) -> None:
        self.oracle.reported((0, word(*lanes)))

    def kick_is_ready(self, index: int, *lanes: int) -> None:
        """After proposal, delay and two more rounds in which every lane stays what it is."""
        self.oracle.propose(index)
        for _ in range(LIMITS["kickRounds"]):
            self.reported(*lanes)
        self.oracle.chain.later(LIMITS["vetoDelay"])
        self.oracle.chain.mine()

    def kicked(self) -> Receipt:
        """Ann, index 0."""
        self.reported(BAD, 9_000, 9_000)
        self.kick_is_ready(0, BAD, 9_000, 9_000)
        return self.oracle.execute(0)

    def quits(self, node: str) -> None:
        self.network.by(node, self.network.does.quit())

    def returns(self, node: str) -> Receipt:
        self.network.chain.later(REJOIN_DELAY)
        return self.network.join(node)


@pytest.fixture(scope="module")
def fresh_town(fresh_chain: Chain) -> Town:
    network = Network.deployed(fresh_chain)
    admin, pauser, vetoer = roles = fresh_chain.accounts[:3]
    arguments = setup(network.contract.address, roles, limits=LIMITS | {"minActive": 1})
    contract = fresh_chain.deploy("QoSOracle", as_tuple(arguments))
    network.by(network.admin, network.does.setOracle(contract.address))
    for node in network.nodes[1:4]:
        network.join(node)
    oracle = Oracle(
        fresh_chain, contract, network.contract, admin, pauser, vetoer, network.nodes[0]
    )
    return Town(oracle, network)


@pytest.fixture
def town(chain: Chain, fresh_town: Town) -> Town:
    return fresh_town


def test_a_join_registers_the_node(town: Town):
    newcomer = town.network.nodes[4]
    receipt = town.network.join(newcomer)
    assert receipt.names == ["NodeJoined", "NodeRegistered"]
    assert receipt.only("NodeRegistered") == {"index": 3, "node": newcomer}
    assert town.oracle.score(newcomer) == (False, True, 0)


def test_a_node_whose_first_score_is_0_is_known_and_selectable(town: Town):
    town.reported(2, 9_000, 9_000)
    assert town.oracle.score(town.ann) == (True, True, 0)


def test_a_paused_node_stays_a_member_and_is_not_selected_once_reported(town: Town):
    town.reported(9_000)
    town.network.by(town.ann, town.network.does.pause())
    town.reported(1)
    assert town.oracle.score(town.ann) == (True, False, 0)
    assert town.oracle.read("indexOf", town.ann) == 0

    town.network.by(town.ann, town.network.does.resume())
    town.reported(9_000)
    assert town.oracle.score(town.ann) == (True, True, 8_998)


def test_a_paused_node_can_still_be_kicked_out(town: Town):
    town.network.by(town.ann, town.network.does.pause())
    town.reported(1)
    town.kick_is_ready(0, 1)
    assert town.oracle.execute(0).names == ["KickExecuted", "NodeKickedOut", "Credited"]


def test_a_node_that_quits_and_returns_starts_anew(town: Town):
    town.reported(BAD, 9_000, 9_000)
    town.quits(town.ann)
    town.reported(1, 9_000, 9_000)
    assert town.oracle.score(town.ann) == (True, False, 0)

    assert town.returns(town.ann).names == ["NodeJoined", "NodeIndexRetired", "NodeRegistered"]
    assert town.oracle.score(town.ann) == (False, True, 0)
    assert town.oracle.read("indexOf", town.ann) == 3


def test_a_node_that_quits_before_any_report_keeps_its_index(town: Town):
    town.quits(town.ann)
    assert town.returns(town.ann).names == ["NodeJoined"]
    assert town.oracle.read("indexOf", town.ann) == 0


def test_a_kickout_tells_the_network_why_and_gives_the_stake_back(town: Town):
    receipt = town.kicked()
    assert receipt.names == ["KickExecuted", "NodeKickedOut", "Credited"]
    told = {"node": town.ann, "stake": MIN_STAKE, "evidence": EVIDENCE}
    assert receipt.only("NodeKickedOut") == told
    assert town.network.standing(town.ann) is Standing.KICKED_OUT
    before = town.network.balance(town.ann)
    town.network.by(town.ann, town.network.does.withdraw())
    assert town.network.balance(town.ann) - before == MIN_STAKE


def test_a_kicked_out_node_cannot_be_kicked_out_again(town: Town):
    town.kicked()
    with pytest.raises(RevertedError, match=r"NotMember\(0\)"):
        town.oracle.propose(0)


def test_a_kicked_out_node_is_not_let_in_again(town: Town):
    town.kicked()
    with pytest.raises(RevertedError, match="KickedOut"):
        town.returns(town.ann)
    assert town.oracle.read("indexOf", town.ann) == 0


def test_a_readmitted_node_starts_anew(town: Town):
    town.kicked()
    town.network.by(town.network.admin, town.network.does.readmit(town.ann))
    assert "NodeIndexRetired" in town.returns(town.ann).names
    assert town.oracle.score(town.ann) == (False, True, 0)
    with pytest.raises(RevertedError, match=r"NotBelowThreshold\(0\)"):
        town.oracle.propose(3)


def test_a_node_that_quits_in_time_is_not_kicked_out(town: Town):
    town.reported(BAD)
    town.kick_is_ready(0, BAD)
    town.quits(town.ann)
    with pytest.raises(RevertedError, match=r"NotMember\(0\)"):
        town.oracle.execute(0)

    assert town.returns(town.ann).names[:2] == ["NodeJoined", "KickCancelled"]
    with pytest.raises(RevertedError, match=r"NoKick\(0\)"):
        town.oracle.execute(0)
    assert town.network.standing(town.ann) is Standing.ACTIVE


def test_quit_and_kickout_in_one_block_both_end_well(town: Town):
    town.reported(BAD)
    town.kick_is_ready(0, BAD)
    chain = town.network.chain
    leaving = chain.request(town.network.does.quit(), sender=town.ann)
    execution = chain.request(town.oracle.contract.functions.executeKick(0))
    left, late = chain.together(leaving, execution)
    assert "NodeQuit" in chain.receipt(left).names
    with pytest.raises(RevertedError, match=r"NotMember\(0\)"):
        chain.receipt(late)
    assert town.network.owed(town.ann) == MIN_STAKE


def test_a_kickout_ends_the_nodes_task(town: Town):
    task = town.network.begun(town.ann)
    names = town.kicked().names
    assert names[:3] == ["KickExecuted", "TaskAborted", "Credited"]
    assert "NodeKickedOut" in names
    assert town.network.status(task) is Status.ABORTED


def test_a_receiver_that_reverts_does_not_stand_in_its_kickouts_way(town: Town):
    chain, network = town.network.chain, town.network
    stubborn = chain.deploy("testing/StubbornNode")
    join = encoded(network.does.join(GPU, VRAM, *VERSION, []))
    say = stubborn.functions.say(network.contract.address, join)
    chain.send(say, sender=network.nodes[5], value=MIN_STAKE)
    town.reported(9_000, 9_000, 9_000, BAD)
    town.kick_is_ready(3, 9_000, 9_000, 9_000, BAD)

    receipt = town.oracle.execute(3)
    assert receipt.only("NodeKickedOut")["node"] == stubborn.address
    assert network.owed(stubborn.address) == MIN_STAKE
    withdraw = encoded(network.does.withdraw())
    with pytest.raises(RevertedError):
        chain.send(stubborn.functions.say(network.contract.address, withdraw))


def test_an_oracle_that_the_network_does_not_know_kicks_nobody(town: Town):
    """It knows no node either, and has no round: the network registers with its own oracle."""
    chain = town.network.chain
    arguments = setup(town.network.contract.address, chain.accounts[:3])
    contract = chain.deploy("QoSOracle", as_tuple(arguments))
    stranger = replace(town.oracle, contract=contract)
    with pytest.raises(RevertedError, match=r"WrongRound\(0, 0\)"):
        stranger.propose(0)
    assert stranger.score(town.ann) == (False, False, 0)
