"""The definition of a second group, and the attacks that it prevents."""

from typing import Any

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.contests import (
    IN,
    OUT,
    SECOND,
    WINDOW,
    Group,
    create_second_group,
    list_standings,
    order_second_group,
)
from tests.support.evm.network import (
    ETHER,
    MIN_STAKE,
    NOTHING,
    TIMEOUT,
    TOLL,
    Network,
    Standing,
    Status,
    compute_answer,
    encode_word,
)

pytestmark = pytest.mark.evm


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


@pytest.fixture
def first(network: Network) -> Group:
    return Group(network, network.creator, encode_word(1), network.nodes[:3])


# --- definition of a second group ---


def test_second_group_must_use_different_nodes(network: Network, first: Group):
    first.play("AAB")
    for node in first.nodes:
        with pytest.raises(RevertedError, match="TookPart"):
            order_second_group(network, first.key, SECOND, [*network.nodes[3:5], node])
    second = create_second_group(first)
    assert [network.status(task) for task in second.tasks] == [Status.STARTED] * 3
    assert network.owed(network.dispatcher) == 3 * 3 * ETHER


@pytest.mark.parametrize("wrong", ["order", "size", "alone"])
def test_second_group_must_match_the_first_group(network: Network, first: Group, wrong: str):
    first.play("AAB")
    like: dict[str, Any] = {"order": {"timeout": TIMEOUT + 1}}.get(wrong, {})
    like |= {"group": NOTHING, "group_size": 0} if wrong == "alone" else {}
    nodes = network.nodes[3 : {"size": 5, "alone": 4}.get(wrong, 6)]
    with pytest.raises(RevertedError, match="NotItsLike"):
        order_second_group(network, first.key, SECOND, nodes, **like)


@pytest.mark.parametrize("state", ["waits", "runs with the first group's nodes", "cancelled"])
def test_existing_group_cannot_become_second_group(network: Network, first: Group, state: str):
    """Otherwise nodes of the first group could judge themselves,
    in a group linked after its start.
    """
    first.play("AAB")
    before = Group(network, network.dispatcher, SECOND, first.nodes)
    if state == "cancelled":
        network.by(network.dispatcher, network.does.cancelGroup(before.tasks))
    elif state != "waits":
        for task, node in zip(before.tasks, before.nodes, strict=True):
            network.start(task, node)
    for nodes in ([], network.nodes[3:6]):
        refusal = "GroupFull|GroupClosed" if nodes else "NotItsLike"
        with pytest.raises(RevertedError, match=refusal):
            order_second_group(network, first.key, SECOND, nodes, group_size=3)


def test_incomplete_second_group_is_rejected(network: Network, first: Group):
    first.play("AAB")
    with pytest.raises(RevertedError, match="NotItsLike"):
        order_second_group(network, first.key, SECOND, network.nodes[3:5], group_size=3)


def test_only_dispatcher_can_order_second_group_within_window(network: Network, first: Group):
    first.play("AAB")
    order = network.order(group=SECOND, group_size=3)
    call = network.does.probe(order, ETHER, network.nodes[3:6], first.key)
    with pytest.raises(RevertedError, match="NotDispatcher"):
        network.by(network.creator, call)
    network.chain.later(WINDOW + 1)
    with pytest.raises(RevertedError, match="NotContested"):
        order_second_group(network, first.key, SECOND, network.nodes[3:6])


def test_contested_group_can_have_only_one_second_group(network: Network, first: Group):
    first.play("AAB")
    create_second_group(first).play("AAB")
    held = network.owed(network.dispatcher)
    for key in (first.key, network.key(network.dispatcher, SECOND)):
        with pytest.raises(RevertedError, match="NotContested"):
            order_second_group(network, key, encode_word(3), network.nodes[3:6])
    # A refused call does not change the credit, except for the amount just funded.
    assert network.owed(network.dispatcher) == held + 2 * 3 * ETHER


def test_second_group_for_a_unanimous_group_is_rejected(network: Network, first: Group):
    first.play("AAA")
    with pytest.raises(RevertedError, match="NotContested"):
        order_second_group(network, first.key, SECOND, network.nodes[3:6])


@pytest.mark.parametrize(
    ("second_says", "slashed"),
    [("AAC", [IN, IN, OUT]), ("BBA", [IN, IN, IN]), ("CCA", [IN, IN, IN])],
)
def test_minority_of_the_second_group_is_slashed_if_both_groups_agree(
    network: Network, first: Group, second_says: str, slashed: list[Standing]
):
    first.play("AAB")
    second = create_second_group(first)
    second.play(second_says)
    second.settle(ord("A"))

    assert list_standings(second) == slashed
    assert [network.node(node)["open"] for node in second.nodes] == [0, 0, 0]


# --- attacks ---


def test_two_colluding_liars_lose_their_stakes(network: Network, first: Group):
    honest = first.nodes[2]
    first.play("LLA")
    assert network.standing(honest) is IN
    create_second_group(first).play("AAA")
    first.settle(ord("A"))

    assert list_standings(first) == [OUT, OUT, IN]
    assert network.owed(network.treasury) == 2 * MIN_STAKE - TOLL
    network.by(honest, network.does.quit())
    assert network.owed(honest) == MIN_STAKE


def test_second_group_that_copies_answers_cannot_settle_the_contest(
    network: Network, first: Group
):
    """The first majority's answers are public by then, but are not valid in another group."""
    first.play("LLA")
    second = create_second_group(first)
    answer = compute_answer(first.key, ord("L"))
    for task, node in zip(second.tasks, second.nodes, strict=True):
        network.commit(task, node, answer)
    for task in second.tasks:
        network.reveal(task)
    second.compare()

    for guess in ("L", "A"):
        with pytest.raises(RevertedError, match="WrongResult"):
            first.settle(ord(guess))
    network.chain.later(WINDOW + 1)
    first.settle()
    assert list_standings(first) == [IN, IN, IN]


def test_settling_a_contest_with_a_wrong_result_is_rejected(network: Network, first: Group):
    first.play("AAB")
    create_second_group(first).play("BBB")
    for wrong in ("A", "C"):
        with pytest.raises(RevertedError, match="WrongResult"):
            first.settle(ord(wrong))
    with pytest.raises(RevertedError, match="WrongResult"):
        first.settle()


def test_uncompared_second_group_does_not_slash(network: Network, first: Group):
    first.play("AAB")
    second = create_second_group(first)
    for task, node in zip(second.tasks, second.nodes, strict=True):
        network.commit(task, node, compute_answer(second.key, ord("A")))
    with pytest.raises(RevertedError, match="ContestOpen"):
        first.settle(ord("A"))
    assert list_standings(first) == [IN, IN, IN]
