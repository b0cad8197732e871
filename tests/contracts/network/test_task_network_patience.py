"""Groups that nobody compares, or that never get ready: no answer waits for ever."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import compare, members, play
from tests.support.evm.network import ETHER, Last, Network, Why

pytestmark = pytest.mark.evm

VALIDATION, PATIENCE = 600, 3600


@pytest.fixture(scope="module")
def staffed(fresh_chain: Chain) -> Network:
    """A network with six nodes."""
    network = Network.deployed(fresh_chain)
    for node in network.nodes:
        network.join(node)
    return network


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def test_a_ready_group_that_is_not_compared_is_given_up(network: Network):
    tasks = play(network, "AeB")
    ready = network.chain.time
    network.chain.at(ready + VALIDATION)
    with pytest.raises(RevertedError, match="StillTime"):
        network.by(network.nodes[5], network.does.endUnvalidated(tasks[0]))
    network.chain.at(ready + VALIDATION + 1)
    first = network.by(network.nodes[5], network.does.endUnvalidated(tasks[0]))

    said = first.only("TaskAborted")
    reason = (said["reason"], said["lastStatus"])
    assert reason == (Why.CREATOR_VALIDATION_TIMEOUT, Last.SUBMITTED)
    with pytest.raises(RevertedError, match="GroupClosed"):
        compare(network, tasks)
    for task in tasks[1:]:
        network.by(network.nodes[5], network.does.endUnvalidated(task))
    # Results are paid for, an error report is not.
    owed = [network.owed(node) for node in (*network.nodes[:3], network.creator)]
    assert owed == [ETHER, 0, 3 * ETHER, 2 * ETHER]


def test_a_result_does_not_wait_for_ever_for_the_rest_of_its_group(network: Network):
    tasks = members(network)
    network.start(tasks[0], network.nodes[0])
    network.submit(tasks[0], network.nodes[0])
    answered = network.chain.time
    network.start(tasks[1], network.nodes[1])

    network.chain.at(answered + PATIENCE)
    with pytest.raises(RevertedError, match="StillTime"):
        network.by(network.nodes[0], network.does.endUnvalidated(tasks[0]))
    network.chain.at(answered + PATIENCE + 1)
    said = network.by(network.nodes[0], network.does.endUnvalidated(tasks[0])).only("TaskAborted")

    assert said["reason"] == Why.GROUP_TIMEOUT
    assert network.owed(network.nodes[0]) == ETHER
    # No other member starts, what runs may end, and the creator gets back what nobody ran.
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.start(tasks[2], network.nodes[2])
    network.time_out(tasks[1])
    network.by(network.creator, network.does.cancelTask(tasks[2]))
    assert network.owed(network.creator) == 5 * ETHER


def test_an_answer_to_a_group_given_up_may_be_ended_at_once(network: Network):
    tasks = members(network, 2, timeout=PATIENCE * 2)
    for task, node in zip(tasks, network.nodes, strict=False):
        network.start(task, node)
    network.submit(tasks[0], network.nodes[0])
    network.chain.later(PATIENCE + 1)
    network.by(network.nodes[0], network.does.endUnvalidated(tasks[0]))
    network.submit(tasks[1], network.nodes[1])

    ended = network.by(network.nodes[1], network.does.endUnvalidated(tasks[1]))
    assert ended.only("TaskAborted")["reason"] == Why.CREATOR_VALIDATION_TIMEOUT
    assert network.owed(network.nodes[1]) == 2 * ETHER
