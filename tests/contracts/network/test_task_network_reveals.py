"""Nodes of a group commit to hidden answers and reveal them together, so that none can copy."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import compare_answers, create_member_tasks, list_task_ends
from tests.support.evm.network import (
    NOTHING,
    SALT,
    TIMEOUT,
    TOLL,
    LastStatusCode,
    Network,
    Status,
    compute_answer,
    compute_commitment,
    encode_word,
)

pytestmark = pytest.mark.evm

REVEAL = 120


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


@pytest.fixture
def tasks(network: Network) -> list[bytes]:
    """Create a running group of three."""
    created_tasks = create_member_tasks(network)
    for task, node in zip(created_tasks, network.nodes, strict=False):
        network.start(task, node)
    return created_tasks


def commit_all(network: Network, tasks: list[bytes], *answers: int) -> None:
    for task, node, answer in zip(tasks, network.nodes, answers, strict=False):
        network.commit(task, node, encode_word(answer))


# --- the life of an answer ---


def test_commitment_hides_answer_until_reveal(network: Network, tasks: list[bytes]):
    node = network.nodes[0]
    event = network.commit(tasks[0], node, encode_word(7)).only("TaskCommitted")
    hidden = compute_commitment(tasks[0], node, encode_word(7))
    assert event == {"task": tasks[0], "node": node, "commitment": hidden}
    assert network.does.commitmentOf(tasks[0], node, encode_word(7), SALT).call() == hidden
    assert network.status(tasks[0]) is Status.COMMITTED

    network.commit(tasks[1], network.nodes[1], encode_word(7))
    network.commit(tasks[2], network.nodes[2])
    revealed = network.reveal(tasks[0]).only("TaskRevealed")
    assert revealed == {"task": tasks[0], "node": node, "answer": encode_word(7)}
    error = network.reveal(tasks[2]).only("TaskErrorRevealed")
    assert error == {"task": tasks[2], "node": network.nodes[2]}
    assert network.status(tasks[2]) is Status.ERROR_REPORTED


def test_rank_follows_commitment_order_not_reveal_order(network: Network, tasks: list[bytes]):
    for task, node in zip(tasks, network.nodes, strict=False):
        network.chain.later(10)
        network.commit(task, node, encode_word(1))
    for task in reversed(tasks):
        network.chain.later(5)
        network.reveal(task)

    assert list_task_ends(compare_answers(network, tasks), tasks) == [
        "Succeeded",
        "Refunded",
        "Refunded",
    ]


def test_group_tasks_require_commitments_and_single_tasks_reject_them(
    network: Network, tasks: list[bytes]
):
    node = network.nodes[0]
    with pytest.raises(RevertedError, match="InGroup"):
        network.submit(tasks[0], node)
    with pytest.raises(RevertedError, match="InGroup"):
        network.report_error(tasks[0], node)
    alone = network.create_started_task(network.nodes[3])
    with pytest.raises(RevertedError, match="Alone"):
        network.commit(alone, network.nodes[3], encode_word(1))


def test_commitment_is_accepted_until_last_second_of_timeout(network: Network, tasks: list[bytes]):
    limit = network.time_limit(tasks[0])
    network.chain.at(limit)
    network.commit(tasks[0], network.nodes[0], encode_word(1))
    network.chain.at(network.time_limit(tasks[2]) + 1)
    with pytest.raises(RevertedError, match="TooLate"):
        network.commit(tasks[2], network.nodes[2], encode_word(1))


# --- reveals ---


def test_reveal_before_last_commitment_is_rejected(network: Network, tasks: list[bytes]):
    commit_all(network, tasks[:2], 1, 1)
    with pytest.raises(RevertedError, match="RevealsLater"):
        network.reveal(tasks[0])
    with pytest.raises(RevertedError, match="RevealsLater"):
        network.time_out(tasks[0])
    network.commit(tasks[2], network.nodes[2], encode_word(1))
    network.reveal(tasks[0])


def test_reveals_do_not_wait_for_a_timed_out_member(network: Network, tasks: list[bytes]):
    commit_all(network, tasks[:2], 1, 1)
    network.chain.later(TIMEOUT + 1)
    network.time_out(tasks[2])
    network.reveal(tasks[0])
    network.reveal(tasks[1])

    assert list_task_ends(compare_answers(network, tasks), tasks) == ["Succeeded", "Refunded", ""]


def test_reveal_is_accepted_until_last_second_of_window(network: Network, tasks: list[bytes]):
    commit_all(network, tasks, 1, 1, 1)
    settled = network.chain.time
    network.chain.at(settled + REVEAL)
    network.reveal(tasks[0])
    network.chain.at(settled + REVEAL + 1)
    with pytest.raises(RevertedError, match="TooLate") as late:
        network.reveal(tasks[1])
    assert late.value.values[1] == settled + REVEAL


def test_unrevealed_answer_times_out(network: Network, tasks: list[bytes]):
    commit_all(network, tasks, 1, 1, 1)
    settled = network.chain.time
    network.reveal(tasks[0])
    network.reveal(tasks[1])
    network.chain.at(settled + REVEAL)
    with pytest.raises(RevertedError, match="TooEarly"):
        network.time_out(tasks[2])
    network.chain.at(settled + REVEAL + 1)
    event = network.time_out(tasks[2]).only("TaskTimedOut")

    assert event == {
        "task": tasks[2],
        "node": network.nodes[2],
        "lastStatus": LastStatusCode.SUBMITTED,
    }
    assert network.owed(network.treasury) == TOLL
    # Its stake waits for the comparison.
    assert network.node(network.nodes[2])["open"] == 1
    assert list_task_ends(compare_answers(network, tasks), tasks) == ["Succeeded", "Refunded", ""]


@pytest.mark.parametrize("wrong", ["answer", "salt", "twice", "stranger"])
def test_mismatching_or_repeated_reveal_is_rejected(
    network: Network, tasks: list[bytes], wrong: str
):
    commit_all(network, tasks, 1, 1, 1)
    node, other_node = network.nodes[:2]
    reveal = network.does.revealAnswer
    if wrong == "twice":
        network.reveal(tasks[0])
    call, sender, error = {
        "answer": (reveal(tasks[0], encode_word(2), SALT), node, "WrongReveal"),
        "salt": (reveal(tasks[0], encode_word(1), encode_word(9)), node, "WrongReveal"),
        "twice": (reveal(tasks[0], encode_word(1), SALT), node, "WrongStatus"),
        "stranger": (reveal(tasks[0], encode_word(1), SALT), other_node, "NotItsTask"),
    }[wrong]
    with pytest.raises(RevertedError, match=error):
        network.by(sender, call)


def test_group_is_not_compared_before_every_reveal(network: Network, tasks: list[bytes]):
    commit_all(network, tasks, 1, 1, 1)
    network.reveal(tasks[0])
    with pytest.raises(RevertedError, match="GroupNotReady") as early:
        compare_answers(network, tasks)
    assert early.value.values[1:] == (1, 3)
    with pytest.raises(RevertedError, match="GroupNotReady"):
        network.by(network.admin, network.does.endUnvalidated(tasks[0]))


# --- attacks ---


def test_copied_commitment_cannot_be_revealed(network: Network, tasks: list[bytes]):
    """A node that always copies sees nothing before it has committed."""
    honest = network.nodes[0]
    copier = network.nodes[2]
    commit_all(network, tasks[:2], 7, 7)
    copied = network.read_task(tasks[0])["answer"]
    network.by(copier, network.does.commitAnswer(tasks[2], copied))
    network.reveal(tasks[0])
    network.reveal(tasks[1])

    for task, node in ((tasks[2], copier), (tasks[0], honest)):
        with pytest.raises(RevertedError, match=r"WrongReveal|WrongStatus|NotItsTask"):
            network.by(copier, network.does.revealAnswer(task, encode_word(7), SALT))
        assert compute_commitment(task, node, encode_word(7)) != copied or node == honest
    network.chain.later(REVEAL + 1)
    assert network.time_out(tasks[2]).only("TaskTimedOut")["node"] == copier
    assert list_task_ends(compare_answers(network, tasks), tasks) == ["Succeeded", "Refunded", ""]


def test_node_cannot_see_other_answers_before_committing(network: Network, tasks: list[bytes]):
    commit_all(network, tasks[:2], 7, 7)
    answers = [network.read_task(task)["answer"] for task in tasks[:2]]

    assert encode_word(7) not in answers
    network.chain.at(network.time_limit(tasks[2]) + 1)
    with pytest.raises(RevertedError, match="TooLate"):
        network.commit(tasks[2], network.nodes[2], encode_word(7))


def test_answer_hash_depends_on_group(network: Network):
    first = encode_word(1)
    second = encode_word(2)
    answer_hashes = [
        network.does.answerOf(group, encode_word(7)).call() for group in (first, second)
    ]

    assert answer_hashes == [compute_answer(first, 7), compute_answer(second, 7)]
    assert answer_hashes[0] != answer_hashes[1]
    assert network.does.answerOf(first, NOTHING).call() == NOTHING
