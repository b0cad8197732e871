"""How a task without a group ends, and who gets its fee."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.network import (
    FEE,
    NOBODY,
    TIMEOUT,
    TOLL,
    AbortReasonCode,
    LastStatusCode,
    Network,
    Standing,
    encode_word,
)

pytestmark = pytest.mark.evm

VALIDATION = 600


@pytest.fixture
def network(busy: Network, chain: Chain) -> Network:
    return busy


@pytest.fixture
def alice(network: Network) -> str:
    return network.nodes[0]


def test_answer_is_accepted_until_last_second_of_timeout(network: Network, alice: str):
    task = network.create_started_task(alice)
    limit = network.time_limit(task)
    assert limit == network.chain.time + TIMEOUT

    network.chain.at(limit)
    with pytest.raises(RevertedError, match="TooEarly") as early:
        network.time_out(task)
    assert early.value.values[1] == limit
    network.chain.at(limit)
    assert network.submit(task, alice).names == ["TaskSubmitted"]


def test_task_can_be_timed_out_only_after_its_time_limit(network: Network, alice: str):
    task = network.create_started_task(alice)
    limit = network.time_limit(task)
    network.chain.at(limit + 1)
    with pytest.raises(RevertedError, match="TooLate") as late:
        network.submit(task, alice)
    assert late.value.values[1] == limit

    network.chain.at(limit + 1)
    ended = network.time_out(task, sender=network.chain.accounts[9])
    event = ended.only("TaskTimedOut")
    assert event == {"task": task, "node": alice, "lastStatus": LastStatusCode.STARTED}
    assert network.owed(network.creator) == FEE - TOLL
    assert network.owed(network.treasury) == TOLL
    assert network.standing(alice) is Standing.ACTIVE
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.time_out(task)


def test_quitting_node_may_time_out_its_own_task(network: Network, alice: str):
    task = network.create_started_task(alice)
    network.by(alice, network.does.quit())
    network.chain.later(TIMEOUT + 1)

    names = network.time_out(task, sender=alice).names
    left = ["NodeQuit", "StakeReturned", "Credited"]
    assert names == ["TaskTimedOut", "Credited", "Credited", *left]


@pytest.mark.parametrize("last", [LastStatusCode.CREATED, LastStatusCode.QUEUED])
def test_creator_cancels_unstarted_task(network: Network, last: LastStatusCode):
    task = network.create()
    if last is LastStatusCode.QUEUED:
        network.by(network.dispatcher, network.does.queueTask(task))
    event = network.by(network.creator, network.does.cancelTask(task)).only("TaskAborted")

    assert event == {
        "task": task,
        "node": NOBODY,
        "reason": AbortReasonCode.CANCELLED,
        "lastStatus": last,
    }
    assert network.owed(network.creator) == FEE - TOLL
    assert network.owed(network.treasury) == TOLL


def test_started_task_cannot_be_cancelled_or_dropped(network: Network, alice: str):
    task = network.create_started_task(alice)
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.by(network.creator, network.does.cancelTask(task))
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.by(network.dispatcher, network.does.dropTask(task, AbortReasonCode.TIMEOUT))


def test_only_creator_may_cancel_validate_or_accept_error(network: Network, alice: str):
    for act in ("cancelTask", "validateTask", "acceptError"):
        with pytest.raises(RevertedError, match="NotCreator"):
            network.by(alice, getattr(network.does, act)(network.create()))


@pytest.mark.parametrize("reason", [AbortReasonCode.TIMEOUT, AbortReasonCode.FEE_TOO_LOW])
def test_dispatcher_drops_queued_task(network: Network, reason: AbortReasonCode):
    task = network.create()
    network.by(network.dispatcher, network.does.queueTask(task))
    event = network.by(network.dispatcher, network.does.dropTask(task, reason)).only("TaskAborted")

    assert (event["reason"], event["lastStatus"]) == (reason, LastStatusCode.QUEUED)
    assert network.owed(network.creator) == FEE


@pytest.mark.parametrize("reason", [0, 2, 3, 5, 6, 7, 8, 9, 10, 11, 255])
def test_dropping_a_task_for_another_reason_is_rejected(network: Network, reason: int):
    with pytest.raises(RevertedError, match="BadReason"):
        network.by(network.dispatcher, network.does.dropTask(network.create(), reason))


def test_accepted_error_returns_fee_to_creator(network: Network, alice: str):
    task = network.create_started_task(alice)
    reported = network.report_error(task, alice)
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.by(network.creator, network.does.validateTask(task))
    ended = network.by(network.creator, network.does.acceptError(task)).only("TaskAborted")

    assert reported.only("TaskErrorReported") == {"task": task, "node": alice}
    assert (ended["reason"], ended["lastStatus"]) == (
        AbortReasonCode.ERROR_REPORTED,
        LastStatusCode.ERROR_REPORTED,
    )
    assert (network.owed(alice), network.owed(network.creator)) == (0, FEE)


def test_result_cannot_be_accepted_as_error(network: Network, alice: str):
    task = network.submitted(alice)
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.by(network.creator, network.does.acceptError(task))


@pytest.mark.parametrize("last", [LastStatusCode.SUBMITTED, LastStatusCode.ERROR_REPORTED])
def test_any_account_can_end_unvalidated_task_after_deadline(
    network: Network, alice: str, last: LastStatusCode
):
    task = network.create_started_task(alice)
    answer = network.submit if last is LastStatusCode.SUBMITTED else network.report_error
    answer(task, alice)
    answered = network.chain.time

    network.chain.at(answered + VALIDATION)
    with pytest.raises(RevertedError, match="StillTime") as early:
        network.by(alice, network.does.endUnvalidated(task))
    assert early.value.values[1] == answered + VALIDATION
    network.chain.at(answered + VALIDATION + 1)
    event = network.by(alice, network.does.endUnvalidated(task)).only("TaskAborted")

    assert (event["reason"], event["lastStatus"]) == (
        AbortReasonCode.CREATOR_VALIDATION_TIMEOUT,
        last,
    )
    paid = (FEE, 0) if last is LastStatusCode.SUBMITTED else (0, FEE)
    assert (network.owed(alice), network.owed(network.creator)) == paid


def test_task_without_an_answer_cannot_be_ended_as_unvalidated(network: Network, alice: str):
    for task in (network.create(), network.create_started_task(alice), encode_word(404)):
        with pytest.raises(RevertedError, match="WrongStatus"):
            network.by(alice, network.does.endUnvalidated(task))
