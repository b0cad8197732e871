"""The reference network with its oracle, and the hot set as its scores: the effects on a node."""

from dataclasses import dataclass, replace

import pytest

from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from tests.contracts.roots.due_leaves import DELAY, DUE, ROUNDS, leaves_of, wait_until_ready
from tests.contracts.roots.roots_driver import (
    KICK_LIMITS,
    LAG,
    LIMITS,
    RootsOracle,
    as_tuple,
    deploy_roots,
    make_setup,
)
from tests.contracts.roots.words_driver import HotSet, deploy_words
from tests.support.evm.chain import Chain, Receipt, RevertedError, encode_calldata
from tests.support.evm.network import GPU, MIN_STAKE, VERSION, VRAM, Network, Standing, Status

pytestmark = pytest.mark.evm

# Ann's seat; bob and cyd have the seats 1 and 2, and a creator of the tests seat 3.
ANN = 0
REJOIN_DELAY = 1_800
NEWCOMER = 5_000
KICKED = ["KickExecuted", "NodeKickedOut", "StakeReturned", "Credited"]


@dataclass
class Town:
    """A network with three members, its oracle, and the words of the last round."""

    oracle: RootsOracle
    network: Network
    words: HotSet
    extra: tuple[str, ...] = ()

    @property
    def ann(self) -> str:
        return self.network.nodes[1]

    def leaves(self, *due: int, closed: tuple[int, ...] = ()) -> list[NodeLeaf]:
        """Return leaves in which kickouts of the seats `due` are due,
        and the nodes of `closed` are paused.
        """
        leaves = leaves_of([*self.network.nodes[1:5], *self.extra], *due)
        for seat in closed:
            leaves[seat] = replace(leaves[seat], lane=1, flags=LeafFlag.MEMBER | LeafFlag.PAUSED)
        return leaves

    def push(self, *due: int, closed: tuple[int, ...] = ()) -> None:
        """Push one more round and send its words."""
        self.oracle.push_leaves(self.leaves(*due, closed=closed))
        self.words.bring(self.oracle.last_round)

    def prepare(self, seat: int) -> None:
        """Accuse a node, and let the delay and the rounds before an execution pass."""
        leaves = self.leaves(seat)
        self.oracle.push_leaves(leaves)
        self.oracle.accuse(seat)
        wait_until_ready(self.oracle, leaves)

    def kick_ann(self) -> Receipt:
        self.prepare(ANN)
        return self.oracle.execute(ANN)

    def weight(self, node: str) -> int:
        return int(self.words.read("weightOf", node))

    def quit(self, node: str) -> Receipt:
        return self.network.by(node, self.network.does.quit())

    def rejoin(self, node: str) -> Receipt:
        self.network.chain.later(REJOIN_DELAY)
        return self.network.join(node)


@pytest.fixture(scope="module")
def fresh_town(fresh_chain: Chain) -> Town:
    fresh_chain.mine(3)
    network = Network.deployed(fresh_chain)
    admin, pauser, vetoer = roles = fresh_chain.accounts[:3]
    arguments = make_setup(
        network.contract.address,
        roles,
        limits=LIMITS | {"minOpen": 1},
        kickLimits=KICK_LIMITS | {"kickGas": 600_000},
    )
    contract = fresh_chain.deploy("roots/QoSRoots", as_tuple(arguments))
    oracle = RootsOracle(
        fresh_chain, contract, network.contract, admin, pauser, vetoer, network.nodes[0]
    )
    words = deploy_words(oracle)
    network.by(network.admin, network.does.setOracle(contract.address))
    network.by(network.admin, network.does.setScores(words.contract.address))
    for node in network.nodes[1:4]:
        network.join(node)
    town = Town(oracle, network, words)
    town.push()
    first = oracle.last_round
    for _ in range(LAG):
        town.push()
    words.bind(first, 0, 1, 2)
    return town


@pytest.fixture
def town(chain: Chain, fresh_town: Town) -> Town:
    oracle = replace(fresh_town.oracle)
    return replace(fresh_town, oracle=oracle, words=replace(fresh_town.words, roots=oracle))


def test_new_member_without_a_leaf_gets_a_task_as_a_newcomer(town: Town):
    newcomer = town.network.nodes[5]
    assert town.network.join(newcomer).names == ["NodeJoined"]
    assert town.weight(newcomer) == NEWCOMER
    task = town.network.create_started_task(newcomer)
    assert town.network.status(task) is Status.STARTED


def test_node_with_a_closed_lane_gets_no_task(town: Town):
    """A daemon pauses a node in its next report; the network reads this from the scores."""
    network = town.network
    task = network.create()
    town.push(closed=(ANN,))
    with pytest.raises(RevertedError, match="NotSelectable"):
        network.start(task, town.ann)
    town.push()
    network.start(task, town.ann)
    assert network.status(task) is Status.STARTED


def test_expelled_node_immediately_gets_no_task(town: Town):
    """The network refuses the kickout, so the node is still its member."""
    network = town.network
    town.oracle.do("setTarget", town.words.contract.address, sender=town.oracle.admin)
    town.prepare(ANN)
    assert town.oracle.execute(ANN).names == ["KickExecuted", "KickRefused"]
    assert network.standing(town.ann) is Standing.ACTIVE
    task = network.create()
    for scores in (town.words.contract.address, "0x" + 40 * "0"):
        network.by(network.admin, network.does.setScores(scores))
        with pytest.raises(RevertedError, match="NotSelectable"):
            network.start(task, town.ann)


def test_paused_node_can_be_kicked_out(town: Town):
    town.network.by(town.ann, town.network.does.pause())
    assert town.kick_ann().names == KICKED


def test_kickout_passes_evidence_and_returns_stake(town: Town):
    receipt = town.kick_ann()
    assert receipt.names == KICKED
    evidence = town.oracle.last_round.leaves[ANN].pool_hash
    expected_event = {"node": town.ann, "stake": MIN_STAKE, "evidence": evidence}
    assert receipt.only("NodeKickedOut") == expected_event
    assert town.network.standing(town.ann) is Standing.KICKED_OUT
    assert town.weight(town.ann) == 0
    before = town.network.balance(town.ann)
    town.network.by(town.ann, town.network.does.withdraw())
    assert town.network.balance(town.ann) - before == MIN_STAKE


def test_kicked_out_node_cannot_rejoin(town: Town):
    town.kick_ann()
    with pytest.raises(RevertedError, match="KickedOut"):
        town.rejoin(town.ann)


def test_node_readmitted_only_by_network_gets_no_task(town: Town):
    """Both must readmit the node: the network as a member, the oracle for work."""
    town.kick_ann()
    town.network.by(town.network.admin, town.network.does.readmit(town.ann))
    town.rejoin(town.ann)
    for _ in range(ROUNDS):
        town.push()
    with pytest.raises(RevertedError, match="NotSelectable"):
        town.network.start(town.network.create(), town.ann)
    assert "NodeKickedOut" in town.oracle.retry(ANN).names


def test_node_readmitted_by_network_and_oracle_regains_weight(town: Town):
    before = town.weight(town.ann)
    town.kick_ann()
    town.network.by(town.network.admin, town.network.does.readmit(town.ann))
    town.oracle.do("readmit", town.ann, sender=town.oracle.admin)
    town.rejoin(town.ann)
    town.push()
    assert town.weight(town.ann) == before


def test_quit_of_an_accused_node_becomes_a_kickout(town: Town):
    town.prepare(ANN)
    left = town.quit(town.ann)
    assert "NodeKickedOut" in left.names
    assert "NodeQuit" not in left.names
    with pytest.raises(RevertedError, match="KickedOut"):
        town.rejoin(town.ann)
    # The network has nothing to do, but the oracle still expels the node.
    assert town.oracle.execute(ANN).names == ["KickExecuted"]
    assert town.weight(town.ann) == 0


def test_quit_and_kickout_execution_in_the_same_block_both_succeed(town: Town):
    town.prepare(ANN)
    chain = town.network.chain
    leaving = chain.request(town.network.does.quit(), sender=town.ann)
    execution = chain.request(town.oracle.execution(ANN))
    left, executed = chain.together(leaving, execution)
    assert "NodeKickedOut" in chain.receipt(left).names
    assert chain.receipt(executed).names == ["KickExecuted"]
    assert town.network.owed(town.ann) == MIN_STAKE


def test_node_that_quits_after_a_veto_can_rejoin(town: Town):
    town.prepare(ANN)
    town.oracle.veto(ANN)
    assert "NodeQuit" in town.quit(town.ann).names
    assert town.rejoin(town.ann).names == ["NodeJoined"]


def test_case_f55_accusation_survives_a_quit_and_a_rejoin(town: Town):
    """An accusation is tied to an address: leaving within the veto delay does not avoid it."""
    town.push(ANN)
    town.oracle.accuse(ANN)
    town.quit(town.ann)
    town.network.by(town.network.admin, town.network.does.readmit(town.ann))
    town.rejoin(town.ann)
    assert town.oracle.is_pending(ANN)
    town.oracle.chain.later(DELAY)
    for _ in range(ROUNDS):
        town.push(ANN)
    assert "NodeKickedOut" in town.oracle.execute(ANN).names


def test_kickout_aborts_the_running_task(town: Town):
    task = town.network.create_started_task(town.ann)
    names = town.kick_ann().names
    assert names[:2] == ["KickExecuted", "TaskAborted"]
    assert "NodeKickedOut" in names
    assert town.network.status(task) is Status.ABORTED


def test_node_that_rejects_its_stake_payment_can_still_be_kicked_out(town: Town):
    chain, network = town.network.chain, town.network
    stubborn = chain.deploy("testing/StubbornNode")
    join = encode_calldata(network.does.join(GPU, VRAM, *VERSION, []))
    say = stubborn.functions.say(network.contract.address, join)
    chain.send(say, sender=network.nodes[5], value=MIN_STAKE)
    town.extra = (stubborn.address,)
    town.prepare(4)

    receipt = town.oracle.execute(4)
    assert receipt.only("NodeKickedOut")["node"] == stubborn.address
    assert network.owed(stubborn.address) == MIN_STAKE
    withdraw = encode_calldata(network.does.withdraw())
    with pytest.raises(RevertedError):
        chain.send(stubborn.functions.say(network.contract.address, withdraw))


def test_network_refuses_a_kickout_by_another_oracle(town: Town):
    foreign = deploy_roots(town.network.chain, limits=LIMITS | {"minOpen": 0})
    target = town.network.contract.address
    foreign.do("setTarget", target, sender=foreign.admin)
    leaves = leaves_of(town.network.nodes[1:5], ANN)
    foreign.push_leaves(leaves)
    foreign.accuse(ANN)
    wait_until_ready(foreign, leaves)
    assert foreign.execute(ANN).names == ["KickExecuted", "KickRefused"]
    assert not town.oracle.is_expelled(ANN)
    assert town.network.standing(town.ann) is Standing.ACTIVE


def test_case_f57_node_without_a_score_cannot_be_accused(town: Town):
    """A newcomer's leaf states no due kickout; an address without a leaf has no proof."""
    town.push()
    with pytest.raises(RevertedError, match="NotDue"):
        town.oracle.accuse(3)
    assert DUE["kickout_due_since"] > 0
