"""Groups of the reference network: who may compare what, when, and with which outcome."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import GROUP, compare, ends, members, play
from tests.support.evm.network import ETHER, MIN_STAKE, TIMEOUT, Network, Standing, Why, word

pytestmark = pytest.mark.evm


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


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("AAA", "Succeeded Refunded Refunded"),
        ("AAB", "Succeeded Refunded Invalidated"),
        ("BAA", "Invalidated Succeeded Refunded"),
        ("AAe", "Succeeded Refunded Invalidated"),
        ("-AA", " Succeeded Refunded"),
        (".AA", " Succeeded Refunded"),
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
def test_every_group_comes_to_its_end(network: Network, answers: str, expected: str):
    tasks = play(network, answers)
    receipt = compare(network, tasks)
    outcome = ends(receipt, tasks)

    assert outcome == expected.split(" ")
    assert receipt.names[0] == "GroupValidated"
    assert receipt.only("GroupValidated")["tasks"] == tasks
    paid = [ETHER * place for place, end in enumerate(outcome, 1) if end == "Succeeded"]
    slashed = outcome.count("Invalidated")
    fees = ETHER * sum(range(1, len(tasks) + 1))
    assert network.owed(network.creator) == fees - sum(paid)
    assert sum(map(network.owed, network.nodes)) == sum(paid)
    assert network.owed(network.treasury) == MIN_STAKE * slashed
    assert network.does.activeCount().call() == len(network.nodes) - slashed


def test_the_logs_of_a_comparison_come_in_order(network: Network):
    tasks = play(network, "ABA")
    receipt = compare(network, tasks)
    names = [name for name in receipt.names if name != "Credited"]

    assert names == [
        "GroupValidated",
        *("TaskValidated", "TaskSucceeded"),
        *("TaskInvalidated", "NodeSlashed"),
        *("TaskValidated", "TaskRefunded"),
    ]
    slashed = receipt.only("NodeSlashed")
    assert slashed == {"node": network.nodes[1], "amount": MIN_STAKE}
    assert network.standing(network.nodes[1]) is Standing.SLASHED


@pytest.mark.parametrize(
    ("answers", "reasons"),
    [
        ("ABe", [Why.INCORRECT_RESULT, Why.INCORRECT_RESULT, Why.ERROR_REPORTED]),
        ("Aee", [Why.ERROR_REPORTED, Why.ERROR_REPORTED]),
    ],
)
def test_an_abort_says_why(network: Network, answers: str, reasons: list[Why]):
    events = compare(network, play(network, answers)).events
    assert [said.args["reason"] for said in events if said.event == "TaskAborted"] == reasons


def test_the_fastest_is_the_one_that_took_least_time_not_the_first_to_answer(network: Network):
    tasks = members(network)
    nodes = network.nodes[:3]
    network.start(tasks[0], nodes[0])
    network.chain.later(50)
    network.start(tasks[1], nodes[1])
    network.start(tasks[2], nodes[2])
    for task, node in zip(tasks, nodes, strict=True):
        network.chain.later(5)
        network.submit(task, node)

    assert ends(compare(network, tasks), tasks) == ["Refunded", "Succeeded", "Refunded"]


def test_of_equally_fast_members_the_one_created_first_succeeds(network: Network):
    chain, tasks = network.chain, members(network)
    starts, answers = [], []
    for task, node in zip(tasks, network.nodes, strict=False):
        starts.append(chain.request(network.does.startTask(task, node), sender=network.dispatcher))
        answers.append(chain.request(network.does.submitResult(task, word(1)), sender=node))
    chain.together(*starts)
    chain.together(*reversed(answers))

    backwards = tasks[::-1]
    assert ends(compare(network, backwards), tasks) == ["Succeeded", "Refunded", "Refunded"]


def test_a_request_is_granted_where_the_comparison_ends_the_task(network: Network):
    tasks = play(network, "AAB")
    for node in network.nodes[1:3]:
        network.by(node, network.does.quit())
    names = compare(network, tasks).names

    assert names.count("NodeQuit") == 1
    assert names.index("NodeQuit") > names.index("TaskRefunded")
    # The third one cannot save its stake by leaving.
    assert network.owed(network.nodes[2]) == 0


def test_a_group_is_compared_once(network: Network):
    tasks = play(network, "AAA")
    compare(network, tasks)
    with pytest.raises(RevertedError, match="GroupClosed"):
        compare(network, tasks)
    with pytest.raises(RevertedError, match="GroupClosed"):
        members(network)


def test_a_group_belongs_to_its_creator(network: Network):
    tasks = play(network, "AAA")
    with pytest.raises(RevertedError, match="UnknownGroup"):
        network.by(network.nodes[0], network.does.validateGroup(GROUP, tasks))


@pytest.mark.parametrize("waiting", ["uncreated", "unstarted", "running"])
def test_a_group_waits_for_its_last_member(network: Network, waiting: str):
    tasks = [network.create(group=GROUP, group_size=3) for _ in range(2)]
    for task, node in zip(tasks, network.nodes, strict=False):
        network.start(task, node)
        network.submit(task, node)
    if waiting != "uncreated":
        tasks.append(network.create(group=GROUP, group_size=3))
    if waiting == "running":
        network.start(tasks[2], network.nodes[2])

    with pytest.raises(RevertedError, match="GroupNotReady") as refused:
        compare(network, tasks)
    assert refused.value.values[1:] == (2, 3)


def test_exactly_the_group_is_listed(network: Network):
    tasks = play(network, "AAA")
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
            compare(network, listed)


def test_a_group_keeps_the_size_it_was_created_with(network: Network):
    network.create(group=GROUP, group_size=2)
    with pytest.raises(RevertedError, match="BadGroupSize"):
        network.create(group=GROUP, group_size=3)
    network.create(group=GROUP, group_size=2)
    with pytest.raises(RevertedError, match="GroupFull"):
        network.create(group=GROUP, group_size=2)


def test_a_group_may_have_sixteen_members(network: Network):
    tasks = members(network, 16)
    for task in tasks:
        network.by(network.creator, network.does.cancelTask(task))
    assert compare(network, tasks).names == ["GroupValidated"]


def test_a_node_takes_part_in_a_group_once(network: Network):
    tasks = members(network)
    network.start(tasks[0], network.nodes[0])
    network.chain.later(TIMEOUT + 1)
    network.time_out(tasks[0])
    with pytest.raises(RevertedError, match="TookPart"):
        network.start(tasks[1], network.nodes[0])


def test_a_member_is_not_judged_alone(network: Network):
    tasks = play(network, "Ae-")
    with pytest.raises(RevertedError, match="InGroup"):
        network.by(network.creator, network.does.validateTask(tasks[0]))
    with pytest.raises(RevertedError, match="InGroup"):
        network.by(network.creator, network.does.acceptError(tasks[1]))
