"""If a node does not reveal, its partner is paid, and its own stake is at risk."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.contests import IN, OUT, WINDOW, list_created_tasks, order_second_group
from tests.support.evm.groups import GROUP, compare_answers, create_member_tasks, list_task_ends
from tests.support.evm.network import (
    ETHER,
    MIN_STAKE,
    SALT,
    TOLL,
    Network,
    Standing,
    compute_answer,
    encode_word,
)

pytestmark = pytest.mark.evm

REVEAL, VALIDATION = 120, 600
SECOND = encode_word(2)


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def hide(network: Network, answers: str, hidden: str, group: bytes = GROUP) -> list[bytes]:
    """Run a group whose nodes commit to `answers`;
    a node with an x in `hidden` does not reveal.
    """
    first = group != GROUP
    nodes = network.nodes[len(answers) :] if first else network.nodes
    creator = network.dispatcher if first else network.creator
    if first:
        contested = network.key(network.creator, GROUP)
        judges = nodes[: len(answers)]
        tasks = list_created_tasks(order_second_group(network, contested, group, judges))
    else:
        tasks = create_member_tasks(network, len(answers), group=group, creator=creator)
    key = network.key(creator, group)
    for task, node, letter in zip(tasks, nodes, answers, strict=False):
        if not first:
            network.start(task, node)
        network.commit(task, node, compute_answer(key, ord(letter) if letter != "e" else 0))
    for task, does in zip(tasks, hidden, strict=True):
        if does != "x":
            network.reveal(task)
    network.chain.later(REVEAL + 1)
    network.chain.mine()
    for task, does in zip(tasks, hidden, strict=True):
        if does == "x":
            network.time_out(task)
    return tasks


def second(network: Network, answers: str) -> None:
    tasks = hide(network, answers, "." * len(answers), SECOND)
    network.by(network.dispatcher, network.does.validateGroup(SECOND, tasks))


def settle(network: Network, tasks: list[bytes], result: str) -> None:
    key = network.key(network.creator, GROUP)
    call = network.does.settleContest(key, tasks, encode_word(ord(result) if result else 0))
    network.by(network.admin, call)


def standings(network: Network, many: int) -> list[Standing]:
    return [network.standing(node) for node in network.nodes[:many]]


@pytest.mark.parametrize(
    ("answers", "hidden", "expected"),
    [
        ("AB", ".x", ["Succeeded", ""]),
        ("AAB", "..x", ["Succeeded", "Refunded", ""]),
        ("ABB", ".xx", ["Succeeded", "", ""]),
        ("ABA", "..x", ["Aborted", "Aborted", ""]),
        ("AB", "xx", ["", ""]),
    ],
)
def test_group_outcome_depends_only_on_revealed_answers(
    network: Network, answers: str, hidden: str, expected: list[str]
):
    tasks = hide(network, answers, hidden)
    receipt = compare_answers(network, tasks)

    assert list_task_ends(receipt, tasks) == expected
    assert network.owed(network.nodes[0]) == (ETHER if expected[0] == "Succeeded" else 0)
    undecided = 2 if expected[0] == "Aborted" else 0
    assert network.owed(network.treasury) == (hidden.count("x") + undecided) * TOLL
    contested = {s.args["node"] for s in receipt.events if s.event == "NodeContested"}
    if "." in hidden:
        concealing = {n for n, does in zip(network.nodes, hidden, strict=False) if does == "x"}
        assert concealing <= contested
        assert {network.node(node)["open"] for node in network.nodes[: len(answers)]} == {1}
    else:
        assert not contested
        assert [network.node(node)["open"] for node in network.nodes[:2]] == [0, 0]


def test_hiding_an_answer_does_not_avoid_a_contest(network: Network):
    liar = network.nodes[1]
    tasks = hide(network, "AB", ".x")
    network.by(liar, network.does.quit())
    compare_answers(network, tasks)
    second(network, "AA")
    settle(network, tasks, "A")

    assert standings(network, 2) == [IN, OUT]
    assert network.owed(network.nodes[0]) == ETHER
    assert network.owed(liar) == 0
    assert network.owed(network.treasury) == MIN_STAKE


def test_late_reveal_by_an_honest_node_saves_its_stake(network: Network):
    honest = network.nodes[1]
    tasks = hide(network, "AA", ".x")
    compare_answers(network, tasks)
    second(network, "AA")
    event = network.reveal(tasks[1]).only("AnswerShownLate")
    key = network.key(network.creator, GROUP)
    assert event == {"task": tasks[1], "node": honest, "answer": compute_answer(key, ord("A"))}
    with pytest.raises(RevertedError, match="WrongReveal"):
        network.reveal(tasks[1])
    settle(network, tasks, "A")

    assert standings(network, 2) == [IN, IN]
    assert network.node(honest)["open"] == 0
    assert network.owed(honest) == 0
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.reveal(tasks[1])


@pytest.mark.parametrize("wrong", ["answer", "salt", "stranger"])
def test_late_reveal_must_match_commitment(network: Network, wrong: str):
    tasks = hide(network, "AB", ".x")
    compare_answers(network, tasks)
    key = network.key(network.creator, GROUP)
    node = network.nodes[0] if wrong == "stranger" else network.nodes[1]
    answer = compute_answer(key, ord("A" if wrong == "answer" else "B"))
    call = network.does.revealAnswer(tasks[1], answer, encode_word(9) if wrong == "salt" else SALT)
    with pytest.raises(RevertedError, match=r"WrongReveal|NotItsTask"):
        network.by(node, call)


def test_node_with_a_garbage_answer_is_slashed_after_a_late_reveal(network: Network):
    """The reveal of an honest node was delayed: the wrong answer is paid at first,
    and slashed later.
    """
    tasks = hide(network, "GA", ".x")
    compare_answers(network, tasks)
    network.reveal(tasks[1])
    second(network, "AA")
    settle(network, tasks, "A")
    assert standings(network, 2) == [OUT, IN]


def test_hidden_answer_costs_no_stake_without_a_second_group(network: Network):
    tasks = hide(network, "AB", ".x")
    compare_answers(network, tasks)
    network.chain.later(WINDOW + 1)
    network.chain.mine()
    settle(network, tasks, "")
    assert standings(network, 2) == [IN, IN]
    assert [network.node(node)["open"] for node in network.nodes[:2]] == [0, 0]


def test_undecided_second_group_does_not_slash_any_node(network: Network):
    """Nor does its error report, which a group without a verdict counts as one."""
    tasks = hide(network, "eeA", "...")
    compare_answers(network, tasks)
    again = hide(network, "Aee", "..x", SECOND)
    network.by(network.dispatcher, network.does.validateGroup(SECOND, again))
    key = network.key(network.dispatcher, SECOND)
    network.by(network.admin, network.does.settleContest(key, again, encode_word(0)))
    assert [network.standing(node) for node in network.nodes] == [IN] * 6
    settle(network, tasks, "")
    assert [network.standing(node) for node in network.nodes] == [IN] * 6
    assert {network.node(node)["open"] for node in network.nodes} == {0}


# --- a group that its creator does not have compared ---


def test_node_with_a_hidden_answer_cannot_quit_with_its_stake(network: Network):
    node = network.nodes[1]
    hide(network, "AB", ".x")
    network.by(node, network.does.quit())
    assert network.standing(node) is IN
    assert network.owed(node) == 0


@pytest.mark.parametrize("hidden", [".x", "xx"])
def test_inactive_creator_does_not_lock_stakes_forever(network: Network, hidden: str):
    tasks = hide(network, "AB", hidden)
    node = network.nodes[1]
    with pytest.raises(RevertedError, match="StillTime"):
        network.by(node, network.does.endUnvalidated(tasks[1]))
    network.chain.later(VALIDATION + 1)
    network.by(node, network.does.endUnvalidated(tasks[1]))

    assert network.node(node)["open"] == 0
    with pytest.raises(RevertedError, match="WrongStatus"):
        network.by(node, network.does.endUnvalidated(tasks[1]))
    with pytest.raises(RevertedError, match="GroupClosed"):
        compare_answers(network, tasks)
    network.by(node, network.does.quit())
    assert network.owed(node) == MIN_STAKE


def test_contested_hidden_answer_cannot_be_ended_as_unvalidated(network: Network):
    tasks = hide(network, "AB", ".x")
    compare_answers(network, tasks)
    network.chain.later(VALIDATION + 1)
    with pytest.raises(RevertedError, match="GroupClosed"):
        network.by(network.nodes[1], network.does.endUnvalidated(tasks[1]))
