"""A group is cancelled as a whole, and does not start without the chance of a majority."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import GROUP, compare_answers, create_member_tasks, play_group
from tests.support.evm.network import (
    ETHER,
    NOBODY,
    TIMEOUT,
    TOLL,
    AbortReasonCode,
    LastStatusCode,
    Network,
    Status,
    encode_word,
)

pytestmark = pytest.mark.evm

GROUP_TIMEOUT = 3600
DAY = 86_400


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def statuses(network: Network, tasks: list[bytes]) -> list[Status]:
    return [network.status(task) for task in tasks]


# --- cancelled ---


def test_cancelling_or_dropping_one_task_of_a_group_is_rejected(network: Network):
    """If one of two tasks is cancelled, the other's answer would never be compared."""
    tasks = create_member_tasks(network, 2)
    with pytest.raises(RevertedError, match="InGroup"):
        network.by(network.creator, network.does.cancelTask(tasks[0]))
    with pytest.raises(RevertedError, match="InGroup"):
        network.by(
            network.dispatcher, network.does.dropTask(tasks[0], AbortReasonCode.FEE_TOO_LOW)
        )
    assert statuses(network, tasks) == [Status.CREATED] * 2


@pytest.mark.parametrize("created", [1, 3])
def test_cancelling_a_group_charges_a_toll_for_each_task(network: Network, created: int):
    tasks = [network.create(fee=ETHER, group=GROUP, group_size=3) for _ in range(created)]
    receipt = network.by(network.creator, network.does.cancelGroup(tasks[::-1]))

    aborted = [event.args for event in receipt.events if event.event == "TaskAborted"]
    expected = {
        "node": NOBODY,
        "reason": AbortReasonCode.CANCELLED,
        "lastStatus": LastStatusCode.CREATED,
    }
    assert aborted == [{"task": task, **expected} for task in tasks[::-1]]
    assert network.owed(network.treasury) == created * TOLL
    assert network.owed(network.creator) == created * (ETHER - TOLL)
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.start(tasks[0], network.nodes[0])
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.create(group=GROUP, group_size=3)
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.by(network.creator, network.does.validateGroup(GROUP, tasks))


def test_group_unstarted_for_24_hours_is_cancelled_without_a_toll(network: Network):
    tasks = create_member_tasks(network)
    network.chain.at(network.chain.time + DAY + 1)
    network.by(network.creator, network.does.cancelGroup(tasks))
    assert network.owed(network.creator) == 6 * ETHER


def test_dropping_a_group_costs_the_creator_no_toll(network: Network):
    tasks = create_member_tasks(network)
    receipt = network.by(
        network.dispatcher, network.does.dropGroup(tasks, AbortReasonCode.FEE_TOO_LOW)
    )

    reasons = [event.args["reason"] for event in receipt.events if event.event == "TaskAborted"]
    assert reasons == [AbortReasonCode.FEE_TOO_LOW] * 3
    assert network.owed(network.creator) == 6 * ETHER
    assert network.owed(network.treasury) == 0


@pytest.mark.parametrize("act", ["cancelGroup", "dropGroup"])
@pytest.mark.parametrize("wrong", ["part", "twice", "other", "none"])
def test_cancelling_or_dropping_part_of_a_group_is_rejected(
    network: Network, act: str, wrong: str
):
    tasks = create_member_tasks(network)
    alone = network.create()
    keys = {
        "part": tasks[:2],
        "twice": [*tasks[:2], tasks[0]],
        "other": [*tasks[:2], alone],
        "none": [],
    }[wrong]
    reason = [AbortReasonCode.TIMEOUT] if act == "dropGroup" else []
    sender = network.dispatcher if act == "dropGroup" else network.creator
    with pytest.raises(RevertedError, match="WrongMembers"):
        network.by(sender, getattr(network.does, act)(keys, *reason))
    assert statuses(network, tasks) == [Status.CREATED] * 3


def test_only_creator_cancels_and_only_dispatcher_drops_group(network: Network):
    tasks = create_member_tasks(network)
    with pytest.raises(RevertedError, match="NotCreator"):
        network.by(network.nodes[0], network.does.cancelGroup(tasks))
    with pytest.raises(RevertedError, match="NotDispatcher"):
        network.by(network.creator, network.does.dropGroup(tasks, AbortReasonCode.TIMEOUT))
    with pytest.raises(RevertedError, match="BadReason"):
        network.by(network.dispatcher, network.does.dropGroup(tasks, AbortReasonCode.CANCELLED))


@pytest.mark.parametrize("first", ["runs", "ended"])
def test_started_group_cannot_be_cancelled(network: Network, first: str):
    tasks = create_member_tasks(network)
    network.start(tasks[0], network.nodes[0])
    if first == "ended":
        network.chain.later(TIMEOUT + 1)
        network.time_out(tasks[0])
    with pytest.raises(RevertedError, match="GroupRuns"):
        network.by(network.creator, network.does.cancelGroup(tasks))
    with pytest.raises(RevertedError, match="GroupRuns"):
        network.by(network.dispatcher, network.does.dropGroup(tasks, AbortReasonCode.TIMEOUT))
    for task in tasks[1:]:
        with pytest.raises(RevertedError, match="InGroup"):
            network.by(network.creator, network.does.cancelTask(task))


# --- not started any more ---


def test_group_that_cannot_reach_a_majority_starts_no_more_tasks(network: Network):
    tasks = create_member_tasks(network, 2)
    network.start(tasks[0], network.nodes[0])
    network.chain.later(TIMEOUT + 1)
    network.time_out(tasks[0])
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.start(tasks[1], network.nodes[1])

    network.by(network.creator, network.does.cancelTask(tasks[1]))
    assert network.owed(network.creator) == 3 * ETHER - TOLL
    assert compare_answers(network, tasks).names == ["GroupValidated"]


def test_group_of_three_with_one_timeout_can_reach_majority(network: Network):
    tasks = create_member_tasks(network)
    network.start(tasks[0], network.nodes[0])
    network.chain.later(TIMEOUT + 1)
    network.time_out(tasks[0])
    for task, node in zip(tasks[1:], network.nodes[1:3], strict=True):
        network.start(task, node)
        network.commit(task, node, encode_word(1))
    for task in tasks[1:]:
        network.reveal(task)

    names = compare_answers(network, tasks).names
    assert names.count("TaskSucceeded") == 1


def test_second_timeout_in_a_group_of_three_blocks_the_last_task(network: Network):
    tasks = create_member_tasks(network)
    for task, node in zip(tasks[:2], network.nodes, strict=False):
        network.start(task, node)
    network.chain.later(TIMEOUT + 1)
    for task in tasks[:2]:
        network.time_out(task)
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.start(tasks[2], network.nodes[2])


# --- costs of a group without a verdict ---


@pytest.mark.parametrize(("answers", "tolls"), [("AB", 2), ("A-", 2), ("ABC", 3), ("Ae-", 3)])
def test_undecided_group_costs_the_creator_the_toll_of_every_task(
    network: Network, answers: str, tolls: int
):
    """A group without a verdict would otherwise give scores for gas alone."""
    compare_answers(network, play_group(network, answers))
    assert network.owed(network.treasury) == tolls * TOLL
    assert sum(map(network.owed, network.nodes)) == 0


@pytest.mark.parametrize("answers", ["ee", "eee", "AAA", "AA-"])
def test_decided_group_costs_only_the_tolls_of_its_timeouts(network: Network, answers: str):
    compare_answers(network, play_group(network, answers))
    assert network.owed(network.treasury) == answers.count("-") * TOLL


# --- groups that are not complete in time ---


def test_group_deadline_starts_at_the_latest_time_limit_of_its_tasks(network: Network):
    """If it counted from its own answer, the first wrong answer would end a
    group that still works.
    """
    tasks = create_member_tasks(network, 2, timeout=2 * GROUP_TIMEOUT)
    for task, node in zip(tasks, network.nodes, strict=False):
        network.start(task, node)
    latest = network.time_limit(tasks[1])
    network.commit(tasks[0], network.nodes[0], encode_word(9))
    network.chain.later(GROUP_TIMEOUT + 1)
    with pytest.raises(RevertedError, match="StillTime") as early:
        network.by(network.nodes[0], network.does.giveUpGroup(tasks[0]))
    assert early.value.values[1] == latest + GROUP_TIMEOUT

    network.commit(tasks[1], network.nodes[1], encode_word(1))
    for task in tasks:
        network.reveal(task)
    compare_answers(network, tasks)
    assert [network.owed(node) for node in network.nodes[:2]] == [0, 0]
    assert network.owed(network.creator) == 3 * ETHER - 2 * TOLL


def test_results_of_an_abandoned_group_are_paid_only_the_toll(network: Network):
    tasks = create_member_tasks(network)
    for task, node in zip(tasks[:2], network.nodes, strict=False):
        network.start(task, node)
        network.commit(task, node, encode_word(1))
    latest = network.time_limit(tasks[1])
    network.chain.at(latest + GROUP_TIMEOUT)
    with pytest.raises(RevertedError, match="StillTime"):
        network.by(network.admin, network.does.giveUpGroup(tasks[0]))
    network.chain.at(latest + GROUP_TIMEOUT + 1)
    network.by(network.admin, network.does.giveUpGroup(tasks[0]))
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.by(network.admin, network.does.giveUpGroup(tasks[0]))
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.start(tasks[2], network.nodes[2])
    for task in tasks[:2]:
        network.reveal(task)
        ended = network.by(network.admin, network.does.endUnvalidated(task))
        assert ended.only("TaskAborted")["reason"] == AbortReasonCode.GROUP_TIMEOUT
    network.by(network.creator, network.does.cancelTask(tasks[2]))

    assert [network.owed(node) for node in network.nodes[:2]] == [TOLL, TOLL]
    assert network.owed(network.creator) == 6 * ETHER - 2 * TOLL


def test_unstarted_group_cannot_be_abandoned(network: Network):
    tasks = create_member_tasks(network)
    network.chain.later(GROUP_TIMEOUT + 1)
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.by(network.admin, network.does.giveUpGroup(tasks[0]))


def test_inactive_creator_pays_every_result_in_full(network: Network):
    """Otherwise an inactive creator would pay less than an active one."""
    tasks = play_group(network, "AAA")
    network.chain.later(601)
    for task in tasks:
        network.by(network.admin, network.does.endUnvalidated(task))
    assert [network.owed(node) for node in network.nodes[:3]] == [ETHER, 2 * ETHER, 3 * ETHER]
