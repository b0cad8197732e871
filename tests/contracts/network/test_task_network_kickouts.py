"""Kickouts from the reference network: only by the oracle, immediately, and their duration."""

from dataclasses import dataclass

import pytest
from web3.contract import Contract

from tests.support.evm.chain import Chain, Receipt, RevertedError
from tests.support.evm.groups import GROUP, compare_answers, list_task_ends
from tests.support.evm.network import (
    FEE,
    MIN_STAKE,
    AbortReasonCode,
    LastStatusCode,
    Network,
    Standing,
    encode_word,
)

pytestmark = pytest.mark.evm

EVIDENCE = encode_word(0xE71D)
FOREVER = 2**32 - 1


@dataclass(frozen=True)
class Watched:
    """A network and its oracle."""

    network: Network
    oracle: Contract

    def kick(self, node: str, evidence: bytes = EVIDENCE) -> Receipt:
        call = self.oracle.functions.kick(self.network.contract.address, node, evidence)
        return self.network.chain.send(call)


@pytest.fixture(scope="module")
def pair(fresh_chain: Chain) -> Watched:
    network = Network.deployed(fresh_chain)
    oracle = fresh_chain.deploy("testing/PlainOracle")
    network.by(network.admin, network.does.setOracle(oracle.address))
    return Watched(network, oracle)


@pytest.fixture
def watched(pair: Watched, chain: Chain) -> Watched:
    return pair


@pytest.fixture
def network(watched: Watched) -> Network:
    return watched.network


@pytest.fixture
def bob(network: Network) -> str:
    node = network.nodes[1]
    network.join(node)
    return node


def test_kickout_ends_membership_and_credits_the_stake(watched: Watched, bob: str):
    network = watched.network
    receipt = watched.kick(bob)

    assert receipt.names == ["NodeKickedOut", "StakeReturned", "Credited"]
    event = receipt.only("NodeKickedOut")
    assert event == {"node": bob, "stake": MIN_STAKE, "evidence": EVIDENCE}
    assert network.owed(bob) == MIN_STAKE
    assert network.standing(bob) is Standing.KICKED_OUT
    assert network.does.activeCount().call() == 0


def test_only_oracle_may_kick_out(network: Network, bob: str):
    for sender in (network.admin, network.dispatcher, bob):
        with pytest.raises(RevertedError, match="NotOracle"):
            network.by(sender, network.does.kick(bob, EVIDENCE))


def test_kick_of_non_member_has_no_effect(watched: Watched, bob: str):
    stranger = watched.network.nodes[5]
    watched.kick(bob)

    assert watched.kick(bob).names == watched.kick(stranger).names == []
    assert watched.network.owed(bob) == MIN_STAKE
    assert watched.network.standing(stranger) is Standing.UNKNOWN


def test_kickout_aborts_the_running_task_and_returns_its_fee(watched: Watched, bob: str):
    network = watched.network
    task = network.create_started_task(bob)
    receipt = watched.kick(bob)

    left = ["NodeKickedOut", "StakeReturned", "Credited"]
    assert receipt.names == ["TaskAborted", "Credited", *left]
    event = receipt.only("TaskAborted")
    reason, last = AbortReasonCode.CANCELLED, LastStatusCode.STARTED
    assert event == {"task": task, "node": bob, "reason": reason, "lastStatus": last}
    assert network.owed(network.creator) == FEE
    assert network.owed(bob) == MIN_STAKE


def test_kickout_returns_stake_only_after_validation(watched: Watched, bob: str):
    network = watched.network
    network.change(cool_down=0, rejoin=0)
    task = network.submitted(bob)

    assert watched.kick(bob).names == ["NodeKickedOut"]
    assert network.standing(bob) is Standing.KICKED_OUT
    with pytest.raises(RevertedError, match=r"AnswersOpen\(.*, 1\)"):
        network.join(bob)
    ended = network.by(network.creator, network.does.validateTask(task))
    assert ended.only("StakeReturned") == {"node": bob, "amount": MIN_STAKE}
    assert network.owed(bob) == MIN_STAKE + FEE
    network.join(bob)


def committing_group(network: Network, first: str) -> tuple[list[bytes], list[str]]:
    """Create a running group of three with this node and two more that join for it."""
    nodes = [first, *network.nodes[2:4]]
    for node in nodes[1:]:
        network.join(node)
    tasks = [network.create(group=GROUP, group_size=3) for _ in nodes]
    for task, node in zip(tasks, nodes, strict=True):
        network.start(task, node)
    return tasks, nodes


def test_kicked_out_group_member_can_still_reveal_answer(watched: Watched, bob: str):
    network = watched.network
    tasks, nodes = committing_group(network, bob)
    for task, node in zip(tasks, nodes, strict=True):
        network.commit(task, node, encode_word(1))
    watched.kick(bob)
    for task in tasks:
        network.reveal(task)
    ended = compare_answers(network, tasks)

    assert list_task_ends(ended, tasks) == ["Succeeded", "Refunded", "Refunded"]
    assert ended.only("StakeReturned")["node"] == bob


def test_group_does_not_wait_for_a_kicked_out_member(watched: Watched, bob: str):
    network = watched.network
    tasks, nodes = committing_group(network, bob)
    for task, node in zip(tasks[1:], nodes[1:], strict=True):
        network.commit(task, node, encode_word(1))
    watched.kick(bob)
    for task in tasks[1:]:
        network.reveal(task)

    assert list_task_ends(compare_answers(network, tasks), tasks) == ["", "Succeeded", "Refunded"]


def test_kickout_overrides_a_pending_quit(watched: Watched, bob: str):
    watched.network.create_started_task(bob)
    watched.network.by(bob, watched.network.does.quit())

    assert "NodeQuit" not in watched.kick(bob).names
    assert watched.network.standing(bob) is Standing.KICKED_OUT


def test_kicked_out_node_cannot_rejoin_by_default(watched: Watched, bob: str):
    watched.kick(bob)
    watched.network.chain.later(100 * 365 * 86400)

    with pytest.raises(RevertedError, match="KickedOut") as refused:
        watched.network.join(bob)
    assert refused.value.values == (bob.lower(), 2**40 - 1)


def test_kickout_cooldown_ends_exactly_on_time(watched: Watched, bob: str):
    network = watched.network
    network.change(cool_down=5000)
    watched.kick(bob)
    kicked = network.chain.time

    network.chain.at(kicked + 4999)
    with pytest.raises(RevertedError, match="KickedOut") as refused:
        network.join(bob)
    assert refused.value.values[1] == kicked + 5000
    network.chain.at(kicked + 5000)
    network.join(bob)
    network.by(bob, network.does.quit())
    network.chain.later(1800)
    # The earlier kickout has no effect any more.
    network.join(bob)


def test_kickout_cooldown_is_at_least_rejoin_delay(watched: Watched, bob: str):
    watched.network.change(cool_down=1)
    watched.kick(bob)
    kicked = watched.network.chain.time

    with pytest.raises(RevertedError, match="KickedOut") as refused:
        watched.network.join(bob)
    assert refused.value.values[1] == kicked + 1800


@pytest.mark.parametrize("later", [5, FOREVER])
def test_new_cooldown_does_not_apply_to_earlier_kickouts(watched: Watched, bob: str, later: int):
    network = watched.network
    network.change(cool_down=5000)
    watched.kick(bob)
    kicked = network.chain.time
    network.change(cool_down=later)

    network.chain.at(kicked + 4999)
    with pytest.raises(RevertedError, match="KickedOut"):
        network.join(bob)
    network.chain.at(kicked + 5000)
    network.join(bob)


def test_admin_can_readmit_a_node_immediately(watched: Watched, bob: str):
    network = watched.network
    watched.kick(bob)
    event = network.by(network.admin, network.does.readmit(bob)).only("NodeReadmitted")

    assert event == {"node": bob}
    with pytest.raises(RevertedError, match="NotKickedOut"):
        network.by(network.admin, network.does.readmit(bob))
    network.join(bob)
    assert network.standing(bob) is Standing.ACTIVE


def test_only_the_admin_can_readmit_and_only_kicked_out_nodes(network: Network, bob: str):
    with pytest.raises(RevertedError, match="NotKickedOut"):
        network.by(network.admin, network.does.readmit(bob))
    with pytest.raises(RevertedError, match="NotAdmin"):
        network.by(bob, network.does.readmit(bob))


def test_node_that_rejects_ether_can_still_be_kicked_out(watched: Watched):
    network, chain = watched.network, watched.network.chain
    stubborn = chain.deploy("testing/StubbornNode")
    join = network.contract.encode_abi("join", ["Any", 8, 1, 0, 0, []])
    at = network.contract.address
    chain.send(stubborn.functions.say(at, join), value=MIN_STAKE)

    assert "NodeKickedOut" in watched.kick(stubborn.address).names
    withdraw = stubborn.functions.say(at, network.contract.encode_abi("withdraw"))
    with pytest.raises(RevertedError, match="PaymentRefused"):
        chain.send(withdraw)
    assert network.owed(stubborn.address) == MIN_STAKE == network.balance()
