"""What a second group is, and the attacks that it is there for."""

from typing import Any

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.contests import IN, OUT, SECOND, WINDOW, Group, second_of, standings
from tests.support.evm.network import MIN_STAKE, TIMEOUT, TOLL, Network, Standing, answer_of, word

pytestmark = pytest.mark.evm


@pytest.fixture(scope="module")
def staffed(fresh_chain: Chain) -> Network:
    """A network with six nodes: two groups of three."""
    network = Network.deployed(fresh_chain)
    for node in network.nodes:
        network.join(node)
    return network


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


@pytest.fixture
def first(network: Network) -> Group:
    return Group(network, network.creator, word(1), network.nodes[:3])


# --- what a second group is ---


def test_a_second_group_has_other_nodes(network: Network, first: Group):
    first.play("AAB")
    second = second_of(first)
    for node in first.nodes:
        with pytest.raises(RevertedError, match="TookPart"):
            network.start(second.tasks[0], node)
    network.start(second.tasks[0], second.nodes[0])


@pytest.mark.parametrize("wrong", ["order", "size", "incomplete", "begun", "stranger"])
def test_a_second_group_is_like_the_first(network: Network, first: Group, wrong: str):
    first.play("AAB")
    like: dict[str, Any] = {"creator": network.dispatcher, "group": SECOND, "group_size": 3}
    like |= {"order": {"timeout": TIMEOUT + 1}, "size": {"group_size": 2}}.get(wrong, {})
    size = like["group_size"] - (wrong == "incomplete")
    tasks = [network.create(**like) for _ in range(size)]
    if wrong == "begun":
        network.start(tasks[0], network.nodes[0])
    sender = network.creator if wrong == "stranger" else network.dispatcher
    error = "NotDispatcher" if wrong == "stranger" else "NotItsLike"
    with pytest.raises(RevertedError, match=error):
        network.by(sender, network.does.revalidate(first.key, SECOND))


def test_a_group_has_one_second_group_and_that_has_none(network: Network, first: Group):
    first.play("AAB")
    second_of(first).play("AAB")
    Group(network, network.dispatcher, word(3), [])
    for key in (first.key, network.key(network.dispatcher, SECOND)):
        with pytest.raises(RevertedError, match="NotContested"):
            network.by(network.dispatcher, network.does.revalidate(key, word(3)))


@pytest.mark.parametrize(
    ("second_says", "slashed"),
    [("AAC", [IN, IN, OUT]), ("BBA", [IN, IN, IN]), ("CCA", [IN, IN, IN])],
)
def test_its_own_minority_is_slashed_where_both_groups_agree(
    network: Network, first: Group, second_says: str, slashed: list[Standing]
):
    first.play("AAB")
    second = second_of(first)
    second.play(second_says)
    second.settle(ord("A"))

    assert standings(second) == slashed
    assert [network.node(node)["open"] for node in second.nodes] == [0, 0, 0]


# --- attacks ---


def test_two_of_three_that_lie_alike_take_nobodys_stake_and_lose_their_own(
    network: Network, first: Group
):
    honest = first.nodes[2]
    first.play("LLA")
    assert network.standing(honest) is IN
    second_of(first).play("AAA")
    first.settle(ord("A"))

    assert standings(first) == [OUT, OUT, IN]
    assert network.owed(network.treasury) == 2 * MIN_STAKE - TOLL
    network.by(honest, network.does.quit())
    assert network.owed(honest) == MIN_STAKE


def test_a_lazy_second_group_cannot_copy_what_the_first_has_shown(network: Network, first: Group):
    """What the first majority answered is public by then, and means nothing in another group."""
    first.play("LLA")
    second = second_of(first)
    shown = answer_of(first.key, ord("L"))
    for task, node in zip(second.tasks, second.nodes, strict=True):
        network.start(task, node)
        network.commit(task, node, shown)
    for task in second.tasks:
        network.reveal(task)
    second.compare()

    for guess in ("L", "A"):
        with pytest.raises(RevertedError, match="WrongResult"):
            first.settle(ord(guess))
    network.chain.later(WINDOW + 1)
    first.settle()
    assert standings(first) == [IN, IN, IN]


def test_nobody_settles_a_contest_by_a_result_that_was_not_found(network: Network, first: Group):
    first.play("AAB")
    second_of(first).play("BBB")
    for wrong in ("A", "C"):
        with pytest.raises(RevertedError, match="WrongResult"):
            first.settle(ord(wrong))
    with pytest.raises(RevertedError, match="WrongResult"):
        first.settle()


def test_a_second_group_that_nobody_compares_slashes_nobody(network: Network, first: Group):
    first.play("AAB")
    second = second_of(first)
    for task, node in zip(second.tasks, second.nodes, strict=True):
        network.start(task, node)
        network.commit(task, node, answer_of(second.key, ord("A")))
    with pytest.raises(RevertedError, match="ContestOpen"):
        first.settle(ord("A"))
    assert standings(first) == [IN, IN, IN]
