"""Groups of the reference network: who may compare which tasks, when, and with which outcome."""

from typing import Any

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import (
    GROUP,
    compare_answers,
    create_member_tasks,
    list_task_ends,
    play_group,
)
from tests.support.evm.network import (
    ETHER,
    SALT,
    TIMEOUT,
    TOLL,
    AbortReasonCode,
    Network,
    Standing,
    compute_commitment,
    encode_word,
)

pytestmark = pytest.mark.evm

UNDECIDED = {"ABC", "ABe", "AB-", "Ae-", "A--", "e--", "A-", "AABB"}


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("AAA", "Succeeded Refunded Refunded"),
        ("AAB", "Succeeded Refunded Invalidated"),
        ("BAA", "Invalidated Succeeded Refunded"),
        ("AAe", "Succeeded Refunded Invalidated"),
        ("-AA", " Succeeded Refunded"),
        ("Aee", "Invalidated Aborted Aborted"),
        ("ABC", "Aborted Aborted Aborted"),
        ("ABe", "Aborted Aborted Aborted"),
        ("AB-", "Aborted Aborted "),
        ("Ae-", "Aborted Aborted "),
        ("A--", "Aborted  "),
        ("eee", "Aborted Aborted Aborted"),
        ("ee-", "Aborted Aborted "),
        ("e--", "Aborted  "),
        ("---", "  "),
        ("AA", "Succeeded Refunded"),
        ("A-", "Aborted "),
        ("AABB", "Aborted Aborted Aborted Aborted"),
        ("ABAAB", "Succeeded Invalidated Refunded Refunded Invalidated"),
    ],
)
def test_group_outcome_and_payments_match_answers(network: Network, answers: str, expected: str):
    tasks = play_group(network, answers)
    receipt = compare_answers(network, tasks)
    outcome = list_task_ends(receipt, tasks)

    assert outcome == expected.split(" ")
    assert receipt.names[0] == "GroupValidated"
    assert receipt.only("GroupValidated")["tasks"] == tasks
    paid = [ETHER * place for place, end in enumerate(outcome, 1) if end == "Succeeded"]
    # A group without a verdict costs its creator the toll of every answer.
    undecided = len(outcome) - outcome.count("") if answers in UNDECIDED else 0
    tolls = TOLL * (answers.count("-") + undecided)
    fees = ETHER * sum(range(1, len(tasks) + 1))
    assert network.owed(network.creator) == fees - sum(paid) - tolls
    assert sum(map(network.owed, network.nodes)) == sum(paid)
    assert network.owed(network.treasury) == tolls
    # A single comparison slashes no node.
    assert receipt.names.count("NodeContested") == outcome.count("Invalidated")
    assert network.does.activeCount().call() == len(network.nodes)


def test_group_comparison_emits_events_in_task_order(network: Network):
    tasks = play_group(network, "ABA")
    receipt = compare_answers(network, tasks)
    names = [name for name in receipt.names if name != "Credited"]

    assert names == [
        "GroupValidated",
        *("TaskValidated", "TaskSucceeded"),
        *("TaskInvalidated", "NodeContested"),
        *("TaskValidated", "TaskRefunded"),
    ]
    contested = receipt.only("NodeContested")
    assert contested == {"node": network.nodes[1], "task": tasks[1]}
    assert network.standing(network.nodes[1]) is Standing.ACTIVE


@pytest.mark.parametrize(
    ("answers", "reasons"),
    [
        (
            "ABe",
            [
                AbortReasonCode.INCORRECT_RESULT,
                AbortReasonCode.INCORRECT_RESULT,
                AbortReasonCode.ERROR_REPORTED,
            ],
        ),
        ("Aee", [AbortReasonCode.ERROR_REPORTED, AbortReasonCode.ERROR_REPORTED]),
    ],
)
def test_abort_event_contains_the_reason(
    network: Network, answers: str, reasons: list[AbortReasonCode]
):
    events = compare_answers(network, play_group(network, answers)).events
    assert [event.args["reason"] for event in events if event.event == "TaskAborted"] == reasons


def test_member_with_the_shortest_time_since_its_own_start_is_fastest(network: Network):
    tasks = create_member_tasks(network)
    nodes = network.nodes[:3]
    network.start(tasks[0], nodes[0])
    network.chain.later(50)
    network.start(tasks[1], nodes[1])
    network.start(tasks[2], nodes[2])
    for task, node in zip(tasks, nodes, strict=True):
        network.chain.later(5)
        network.commit(task, node, encode_word(1))
    for task in tasks:
        network.reveal(task)

    assert list_task_ends(compare_answers(network, tasks), tasks) == [
        "Refunded",
        "Succeeded",
        "Refunded",
    ]


def test_earliest_task_wins_a_tie_between_equally_fast_tasks(network: Network):
    chain = network.chain
    tasks = create_member_tasks(network)
    starts, answers, reveals = [], [], []
    for task, node in zip(tasks, network.nodes, strict=False):
        starts.append(chain.request(network.does.startTask(task, node), sender=network.dispatcher))
        call = network.does.commitAnswer(task, compute_commitment(task, node, encode_word(1)))
        answers.append(chain.request(call, sender=node))
        reveal_call = network.does.revealAnswer(task, encode_word(1), SALT)
        reveals.append(chain.request(reveal_call, sender=node))
    for together in (starts, answers, reveals):
        chain.together(*reversed(together))

    backwards = tasks[::-1]
    assert list_task_ends(compare_answers(network, backwards), tasks) == [
        "Succeeded",
        "Refunded",
        "Refunded",
    ]


def test_pending_quit_takes_effect_after_the_comparison(network: Network):
    tasks = play_group(network, "AAA")
    network.by(network.nodes[1], network.does.quit())
    names = compare_answers(network, tasks).names

    assert names.index("NodeQuit") > names.index("TaskRefunded")


def test_group_can_be_compared_only_once(network: Network):
    tasks = play_group(network, "AAA")
    compare_answers(network, tasks)
    with pytest.raises(RevertedError, match="GroupClosed"):
        compare_answers(network, tasks)
    with pytest.raises(RevertedError, match="GroupClosed"):
        create_member_tasks(network)


def test_only_creator_may_validate_group(network: Network):
    tasks = play_group(network, "AAA")
    with pytest.raises(RevertedError, match="UnknownGroup"):
        network.by(network.nodes[0], network.does.validateGroup(GROUP, tasks))


@pytest.mark.parametrize("waiting", ["unstarted", "running", "hidden"])
def test_group_with_unanswered_member_cannot_be_compared(network: Network, waiting: str):
    tasks = create_member_tasks(network)
    for task, node in zip(tasks, network.nodes[:2], strict=False):
        network.start(task, node)
        network.commit(task, node, encode_word(1))
    revealed_count = 0
    if waiting != "unstarted":
        network.start(tasks[2], network.nodes[2])
    if waiting == "hidden":
        network.commit(tasks[2], network.nodes[2], encode_word(1))
        network.reveal(tasks[0])
        revealed_count = 1

    with pytest.raises(RevertedError, match="GroupNotReady") as refused:
        compare_answers(network, tasks)
    assert refused.value.values[1:] == (revealed_count, 3)


def test_comparison_must_list_exactly_the_tasks_of_the_group(network: Network):
    tasks = play_group(network, "AAA")
    stranger = network.create()
    wrong: tuple[list[bytes], ...] = (
        tasks[:2],
        [*tasks[:2], tasks[0]],
        [*tasks[:2], stranger],
        [*tasks, tasks[0]],
        [],
    )
    for listed in wrong:
        with pytest.raises(RevertedError, match="WrongMembers"):
            compare_answers(network, listed)


def test_group_size_cannot_change(network: Network):
    network.create(group=GROUP, group_size=2)
    with pytest.raises(RevertedError, match="BadGroupSize"):
        network.create(group=GROUP, group_size=3)
    network.create(group=GROUP, group_size=2)
    with pytest.raises(RevertedError, match="GroupFull"):
        network.create(group=GROUP, group_size=2)


@pytest.mark.parametrize(
    "other",
    [{"size": 2}, {"timeout": TIMEOUT + 1}, {"models": ["llama"]}, {"kind": 1}, {"min_vram": 9}],
)
def test_tasks_of_a_group_must_have_identical_parameters(network: Network, other: dict[str, Any]):
    network.create(group=GROUP, group_size=2)
    with pytest.raises(RevertedError, match="OrderDiffers"):
        network.create(group=GROUP, group_size=2, **other)


def test_group_may_have_sixteen_members(network: Network):
    tasks = create_member_tasks(network, 16)
    network.by(network.creator, network.does.cancelGroup(tasks))
    assert network.owed(network.treasury) == 16 * TOLL


def test_node_can_take_part_in_a_group_only_once(network: Network):
    tasks = create_member_tasks(network)
    network.start(tasks[0], network.nodes[0])
    network.chain.later(TIMEOUT + 1)
    network.time_out(tasks[0])
    with pytest.raises(RevertedError, match="TookPart"):
        network.start(tasks[1], network.nodes[0])


def test_group_member_cannot_be_validated_alone(network: Network):
    tasks = play_group(network, "Ae-")
    with pytest.raises(RevertedError, match="InGroup"):
        network.by(network.creator, network.does.validateTask(tasks[0]))
    with pytest.raises(RevertedError, match="InGroup"):
        network.by(network.creator, network.does.acceptError(tasks[1]))
