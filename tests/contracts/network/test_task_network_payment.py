"""The split of a group's fee by points equals the library's to the wei, or does not happen."""

from itertools import permutations

import pytest

from oracle.domain.scoring.group_ranking import split_fee_by_scores
from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.groups import GROUP, compare_answers, create_member_tasks
from tests.support.evm.network import FLOOR, Network, encode_word

pytestmark = pytest.mark.evm

POINTS = (10, 5, 2)


@pytest.fixture(scope="module")
def staffed(fresh_chain: Chain) -> Network:
    """Return a network that pays by points, with three nodes."""
    network = Network.deployed(fresh_chain)
    for node in network.nodes[:3]:
        network.join(node)
    network.by(network.admin, network.does.setPayment(True))
    return network


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


def play_group(
    network: Network,
    order: tuple[int, ...],
    answers: str = "AAA",
    reveals: tuple[int, ...] = (0, 1, 2),
) -> list[bytes]:
    """Run a group whose members commit and reveal in these orders, a second apart."""
    tasks = create_member_tasks(network, 3)
    for task, node in zip(tasks, network.nodes, strict=False):
        network.start(task, node)
    for place in order:
        network.commit(tasks[place], network.nodes[place], encode_word(ord(answers[place])))
    for place in reveals:
        network.reveal(tasks[place])
    return tasks


def fastest_of(network: Network, tasks: list[bytes]) -> bytes:
    """Return the task with the shortest time from start to commitment, the first of equals."""

    def elapsed(task: bytes) -> int:
        task_view = network.read_task(task)
        return int(task_view["finishedAt"] - task_view["startedAt"])

    return min(tasks, key=elapsed)


def points_of(order: tuple[int, ...], reveals: tuple[int, ...]) -> list[int]:
    """Return the points of both rounds, by position in the group."""
    return [
        POINTS[order.index(place)] + POINTS[reveals.index(place)] for place in range(len(order))
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize(
    ("named", "reveals"), [((0, 1, 2), (0, 1, 2)), ((2, 0, 1), (0, 1, 2)), ((0, 1, 2), (2, 0, 1))]
)
def test_group_fee_is_split_by_commit_and_reveal_ranks(
    network: Network, order: tuple[int, ...], named: tuple[int, ...], reveals: tuple[int, ...]
):
    tasks = play_group(network, order, reveals=reveals)
    fee = network.read_task(fastest_of(network, tasks))["fee"]
    before = [network.owed(node) for node in network.nodes[:3]]
    receipt = compare_answers(network, [tasks[place] for place in named])

    of_both = points_of(order, reveals)
    points = [of_both[place] for place in named]
    expected = dict(zip(named, split_fee_by_scores(fee, points), strict=True))
    paid = [network.owed(node) - old for node, old in zip(network.nodes, before, strict=False)]
    assert paid == [expected[place] for place in range(3)]
    shared = [event.args["amount"] for event in receipt.events if event.event == "FeeShared"]
    assert shared == split_fee_by_scores(fee, points)


def test_node_with_a_wrong_result_keeps_its_rank_but_gets_no_fee(network: Network):
    tasks = play_group(network, (0, 1, 2), "BAA")
    fee = network.read_task(tasks[1])["fee"]
    receipt = compare_answers(network, tasks)

    shared = [event.args["amount"] for event in receipt.events if event.event == "FeeShared"]
    assert shared == split_fee_by_scores(fee, points_of((0, 1, 2), (0, 1, 2))[1:])


def test_payment_mode_is_fixed_at_group_creation(network: Network):
    tasks = play_group(network, (0, 1, 2))
    network.by(network.admin, network.does.setPayment(False))
    later = create_member_tasks(network, 3, group=encode_word(78))

    shared = [
        event.event
        for event in compare_answers(network, tasks).events
        if event.event == "FeeShared"
    ]
    assert len(shared) == 3
    assert network.does.groupOf(network.read_task(tasks[0])["group"]).call()[-4] is True
    assert network.does.groupOf(network.read_task(later[0])["group"]).call()[-4] is False
    assert encode_word(78) != GROUP


def test_only_admin_may_set_payment_mode(network: Network):
    with pytest.raises(RevertedError, match="NotAdmin"):
        network.by(network.creator, network.does.setPayment(False))


def test_shorter_node_timeout_applies_to_task(network: Network):
    alice = network.nodes[0]
    with pytest.raises(RevertedError, match="NotPaused"):
        network.by(alice, network.does.setTimeout(60))
    for call in (network.does.pause(), network.does.setTimeout(60), network.does.resume()):
        network.by(alice, call)
    quick = network.create_started_task(alice, timeout=61)
    long = network.create_started_task(network.nodes[1], timeout=61)

    assert network.read_task(quick)["timeout"] == 60
    assert network.read_task(long)["timeout"] == 61


@pytest.mark.parametrize("promised", [0, 1, 59])
def test_node_timeout_below_floor_is_raised_to_floor(network: Network, promised: int):
    """Otherwise, a timeout of 0 would end every task at once, for its creator's toll."""
    alice = network.nodes[0]
    for call in (network.does.pause(), network.does.setTimeout(promised), network.does.resume()):
        network.by(alice, call)
    task = network.create_started_task(alice, timeout=120)

    assert network.read_task(task)["timeout"] == 60
    with pytest.raises(RevertedError, match="TooEarly"):
        network.time_out(task)
    network.submit(task, alice)


def test_node_timeout_is_raised_to_floor_set_at_task_creation(network: Network):
    """Later settings of the admin do not change existing tasks."""
    task = network.create(timeout=120)
    network.by(network.admin, network.does.setFloor(0, (*FLOOR[:2], 100, 0)))
    alice = network.nodes[0]
    for call in (network.does.pause(), network.does.setTimeout(1), network.does.resume()):
        network.by(alice, call)
    network.start(task, alice)
    assert network.read_task(task)["timeout"] == 60
