"""What the reference network reads from its oracle and its scores,
and its behaviour without them.
"""

from dataclasses import dataclass
from enum import IntEnum

import pytest
from web3.contract import Contract

from tests.support.evm.chain import Chain, Receipt, RevertedError
from tests.support.evm.network import (
    MIN_STAKE,
    NOBODY,
    NOTHING,
    Network,
    Standing,
    Status,
    encode_word,
)

pytestmark = pytest.mark.evm

EVIDENCE = encode_word(0xE71D)


class Mood(IntEnum):
    """The behaviour of the oracle in these tests."""

    SOUND = 0
    REVERTING = 1
    ENDLESS = 2
    WORDY = 3


UNWELL = [Mood.REVERTING, Mood.ENDLESS, Mood.WORDY]


@dataclass(frozen=True)
class Watched:
    """A network with two nodes and an oracle; the network may read scores
    from the contract `scores`.
    """

    network: Network
    oracle: Contract
    scores: Contract

    @property
    def bob(self) -> str:
        return self.network.nodes[1]

    def set_oracle(self, function: str, *values: object) -> None:
        self.network.chain.send(getattr(self.oracle.functions, function)(*values))

    def score(self, function: str, *values: object) -> None:
        self.network.chain.send(getattr(self.scores.functions, function)(*values))

    def set_scores(self, to: str) -> None:
        self.network.by(self.network.admin, self.network.does.setScores(to))

    def kick(self, node: str) -> Receipt:
        call = self.oracle.functions.kick(self.network.contract.address, node, EVIDENCE)
        return self.network.chain.send(call)

    def quit(self) -> Receipt:
        return self.network.by(self.bob, self.network.does.quit())


@pytest.fixture(scope="module")
def pair(fresh_chain: Chain) -> Watched:
    network = Network.deployed(fresh_chain)
    oracle, scores = (fresh_chain.deploy("testing/PlainOracle") for _ in range(2))
    network.by(network.admin, network.does.setOracle(oracle.address))
    for node in network.nodes[:2]:
        network.join(node)
    return Watched(network, oracle, scores)


@pytest.fixture
def watched(pair: Watched, chain: Chain) -> Watched:
    return pair


# --- leaving while a kickout is proposed ---


def test_quit_during_the_veto_period_becomes_a_kickout(watched: Watched):
    watched.set_oracle("setPending", watched.bob, True)
    left = watched.quit()

    event = left.only("NodeKickedOut")
    assert event == {"node": watched.bob, "stake": MIN_STAKE, "evidence": NOTHING}
    assert "NodeQuit" not in left.names
    assert watched.network.owed(watched.bob) == MIN_STAKE
    watched.network.chain.later(10 * 365 * 86400)
    with pytest.raises(RevertedError, match="KickedOut"):
        watched.network.join(watched.bob)


def test_pending_quit_becomes_a_kickout_if_the_node_is_accused(watched: Watched):
    network = watched.network
    task = network.submitted(watched.bob)
    watched.quit()
    watched.set_oracle("setPending", watched.bob, True)

    ended = network.by(network.creator, network.does.validateTask(task))
    assert "NodeQuit" not in ended.names
    assert network.standing(watched.bob) is Standing.KICKED_OUT


def test_pending_quit_takes_effect_after_kick_proposal_is_cleared(watched: Watched):
    network = watched.network
    task = network.submitted(watched.bob)
    watched.set_oracle("setPending", watched.bob, True)
    watched.quit()
    watched.set_oracle("setPending", watched.bob, False)

    network.by(network.creator, network.does.validateTask(task))
    assert network.standing(watched.bob) is Standing.QUIT


@pytest.mark.parametrize("quits_first", [True, False])
def test_quit_and_kickout_in_the_same_block_result_in_a_kickout(
    watched: Watched, *, quits_first: bool
):
    network, chain = watched.network, watched.network.chain
    watched.set_oracle("setPending", watched.bob, True)
    to = network.contract.address
    acts = [
        chain.request(network.does.quit(), sender=watched.bob),
        chain.request(watched.oracle.functions.kick(to, watched.bob, EVIDENCE)),
    ]
    chain.together(*(acts if quits_first else reversed(acts)))

    assert network.standing(watched.bob) is Standing.KICKED_OUT
    assert network.owed(watched.bob) == MIN_STAKE


def test_accused_node_cannot_quit_with_a_low_gas_limit(watched: Watched):
    """Limiting the gas of the query cannot make leaving succeed."""
    network, chain = watched.network, watched.network.chain
    watched.set_oracle("setPending", watched.bob, True)
    quit_ = chain.request(network.does.quit(), sender=watched.bob)
    for gas in (*range(24_000, 60_000, 1_500), *range(60_000, 200_000, 8_000)):
        with chain.undone():
            chain.together({**quit_, "gas": hex(gas)})
            assert network.standing(watched.bob) in (Standing.ACTIVE, Standing.KICKED_OUT)


@pytest.mark.parametrize("mood", UNWELL, ids=lambda mood: mood.name.lower())
def test_failing_oracle_does_not_prevent_the_return_of_a_stake(watched: Watched, mood: Mood):
    watched.set_oracle("setPending", watched.bob, True)
    watched.set_oracle("setMood", mood)

    assert watched.quit().names == ["NodeQuit", "StakeReturned", "Credited"]
    assert watched.network.owed(watched.bob) == MIN_STAKE


def test_replaced_oracle_can_neither_kick_nodes_nor_block_quits(watched: Watched):
    network = watched.network
    watched.set_oracle("setPending", watched.bob, True)
    another = network.chain.deploy("testing/PlainOracle").address
    network.by(network.admin, network.does.setOracle(another))

    with pytest.raises(RevertedError, match="NotOracle"):
        watched.kick(watched.bob)
    assert "NodeQuit" in watched.quit().names


# --- giving work ---


def test_task_cannot_start_on_a_node_that_is_excluded_by_its_score(watched: Watched):
    network = watched.network
    task = network.create()
    watched.set_scores(watched.scores.address)
    watched.score("setExcluded", watched.bob, True)

    with pytest.raises(RevertedError, match="NotSelectable"):
        network.start(task, watched.bob)
    network.start(task, network.nodes[0])


def test_only_expelled_nodes_are_excluded_without_a_score_source(watched: Watched):
    network = watched.network
    task = network.create()
    watched.set_oracle("setExcluded", network.nodes[0], True)
    watched.set_oracle("setExpelled", watched.bob, True)

    with pytest.raises(RevertedError, match="NotSelectable"):
        network.start(task, watched.bob)
    network.start(task, network.nodes[0])


def test_removed_score_source_excludes_no_node(watched: Watched):
    watched.set_scores(watched.scores.address)
    watched.score("setExcluded", watched.bob, True)
    watched.set_scores(NOBODY)

    task = watched.network.create_started_task(watched.bob)
    assert watched.network.status(task) is Status.STARTED


@pytest.mark.parametrize("mood", UNWELL, ids=lambda mood: mood.name.lower())
def test_failing_score_source_does_not_prevent_task_starts(watched: Watched, mood: Mood):
    watched.set_scores(watched.scores.address)
    watched.score("setExcluded", watched.bob, True)
    watched.score("setMood", mood)

    task = watched.network.create_started_task(watched.bob)
    assert watched.network.status(task) is Status.STARTED


@pytest.mark.parametrize("mood", UNWELL, ids=lambda mood: mood.name.lower())
def test_failing_oracle_does_not_prevent_task_starts(watched: Watched, mood: Mood):
    watched.set_oracle("setExpelled", watched.bob, True)
    watched.set_oracle("setMood", mood)

    task = watched.network.create_started_task(watched.bob)
    assert watched.network.status(task) is Status.STARTED


def test_long_return_data_of_a_score_source_is_not_copied(watched: Watched):
    network = watched.network
    watched.set_scores(watched.scores.address)
    gas_by_mood = {}
    for mood in (Mood.SOUND, Mood.WORDY):
        with network.chain.undone():
            watched.score("setMood", mood)
            gas_by_mood[mood] = network.start(network.create(), watched.bob).gas

    # The scores contract pays for its memory of 4096 bytes; nothing of it is copied.
    assert abs(gas_by_mood[Mood.WORDY] - gas_by_mood[Mood.SOUND]) < 2_000
