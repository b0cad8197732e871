"""Groups that are never compared or never complete: no answer waits forever."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import compare_answers, play_group
from tests.support.evm.network import ETHER, AbortReasonCode, LastStatusCode, Network

pytestmark = pytest.mark.evm

VALIDATION = 600


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def test_uncompared_group_can_be_ended_after_its_deadline(network: Network):
    tasks = play_group(network, "AeB")
    ready = network.chain.time
    network.chain.at(ready + VALIDATION)
    with pytest.raises(RevertedError, match="StillTime"):
        network.by(network.nodes[5], network.does.endUnvalidated(tasks[0]))
    network.chain.at(ready + VALIDATION + 1)
    first = network.by(network.nodes[5], network.does.endUnvalidated(tasks[0]))

    event = first.only("TaskAborted")
    reason = (event["reason"], event["lastStatus"])
    assert reason == (AbortReasonCode.CREATOR_VALIDATION_TIMEOUT, LastStatusCode.SUBMITTED)
    with pytest.raises(RevertedError, match="GroupClosed"):
        compare_answers(network, tasks)
    for task in tasks[1:]:
        network.by(network.nodes[5], network.does.endUnvalidated(task))
    # Results are paid for, an error report is not.
    owed = [network.owed(node) for node in (*network.nodes[:3], network.creator)]
    assert owed == [ETHER, 0, 3 * ETHER, 2 * ETHER]
