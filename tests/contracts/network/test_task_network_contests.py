"""Slashing: one group slashes no node, and two groups slash the nodes that they prove wrong."""

import pytest

from tests.support.evm.chain import Chain, RevertedError
from tests.support.evm.contests import (
    ERROR,
    IN,
    OUT,
    SILENT,
    WINDOW,
    Group,
    create_second_group,
    list_standings,
    make_result,
)
from tests.support.evm.groups import list_task_ends
from tests.support.evm.network import ETHER, MIN_STAKE, TOLL, Network, Standing, encode_word

pytestmark = pytest.mark.evm


@pytest.fixture
def network(staffed: Network, chain: Chain) -> Network:
    return staffed


@pytest.fixture
def first(network: Network) -> Group:
    return Group(network, network.creator, encode_word(1), network.nodes[:3])


@pytest.mark.parametrize(
    ("says", "slashed"),
    [
        # The second group agrees with the first one's majority, with its minority, or
        # with neither.
        ("AAB AAA A", [IN, IN, OUT]),
        ("AAB BBB B", [OUT, OUT, IN]),
        ("AAB CCC C", [IN, IN, IN]),
        ("AAB ABC A", [IN, IN, IN]),
        ("AAB eee e", [IN, IN, IN]),
        ("AAe AA- A", [IN, IN, OUT]),
        ("AAe eee e", [OUT, OUT, IN]),
        ("Aee eee e", [OUT, IN, IN]),
        ("Aee AAA A", [IN, OUT, OUT]),
        ("AAB AAC A", [IN, IN, OUT]),
    ],
)
def test_second_group_decides_the_contest(first: Group, says: str, slashed: list[Standing]):
    network = first.network
    first_says, second_says, proof = says.split()
    first.play(first_says)
    create_second_group(first).play(second_says)
    settled = first.settle(make_result(proof))

    assert list_standings(first) == slashed
    assert [network.node(node)["open"] for node in first.nodes] == [0, 0, 0]
    slashed_stake = MIN_STAKE * slashed.count(OUT)
    cost = TOLL if slashed_stake and proof != ERROR else 0
    assert settled.names.count("NodeSlashed") == slashed.count(OUT)
    assert sum(s.args["amount"] for s in settled.events if s.event == "Credited") == slashed_stake
    # A second group without a verdict costs the dispatcher the toll of each answer.
    tolls = TOLL * (3 if second_says == "ABC" else second_says.count(SILENT))
    assert network.owed(network.treasury) == slashed_stake - cost + tolls


def test_contested_minority_is_not_slashed_by_comparison_alone(network: Network, first: Group):
    receipt = first.play("AAB")

    assert list_task_ends(receipt, first.tasks) == ["Succeeded", "Refunded", "Invalidated"]
    assert receipt.only("NodeContested") == {"node": first.nodes[2], "task": first.tasks[2]}
    assert list_standings(first) == [IN, IN, IN]
    assert network.owed(first.nodes[0]) == ETHER
    assert network.owed(network.treasury) == 0


def test_unanimous_group_does_not_open_a_contest(network: Network, first: Group):
    first.play("AA-")
    assert [network.node(node)["open"] for node in first.nodes] == [0, 0, 0]
    with pytest.raises(RevertedError, match="NotContested"):
        first.settle()


def test_contested_node_can_still_start_tasks(network: Network, first: Group):
    first.play("AAB")
    task = network.create_started_task(first.nodes[2])
    assert network.read_task(task)["node"] == first.nodes[2]


@pytest.mark.parametrize("place", [0, 2])
def test_quitting_during_a_contest_does_not_save_the_stake(
    network: Network, first: Group, place: int
):
    """Two nodes with the same lie could otherwise leave before the second group has answered."""
    liar = first.nodes[place]
    first.play("AAB")
    network.by(liar, network.does.quit())
    assert network.owed(liar) == (ETHER if place == 0 else 0)
    create_second_group(first).play("BBB" if place == 0 else "AAA")
    first.settle(ord("B") if place == 0 else ord("A"))

    assert network.standing(liar) is OUT
    assert network.owed(liar) == (ETHER if place == 0 else 0)


def test_node_kicked_out_during_a_contest_still_loses_its_stake(network: Network, first: Group):
    oracle = network.chain.deploy("testing/PlainOracle")
    network.by(network.admin, network.does.setOracle(oracle.address))
    first.play("AAB")
    kick = oracle.functions.kick(network.contract.address, first.nodes[2], encode_word(5))
    network.chain.send(kick)
    create_second_group(first).play("AAA")
    settled = first.settle(ord("A"))

    forfeited = settled.only("StakeForfeited")
    assert forfeited == {"node": first.nodes[2], "amount": MIN_STAKE}
    assert network.standing(first.nodes[2]) is Standing.KICKED_OUT
    assert network.owed(first.nodes[2]) == 0


def test_slash_aborts_the_running_task_of_the_node(network: Network, first: Group):
    first.play("AAB")
    create_second_group(first).play("AAA")
    running = network.create_started_task(first.nodes[2])
    names = first.settle(ord("A")).names

    assert names.index("TaskAborted") < names.index("NodeSlashed")
    assert network.read_task(running)["status"] == 11


def test_node_in_two_contests_is_slashed_only_once(network: Network, first: Group):
    other_group = Group(
        network, network.creator, encode_word(9), [*network.nodes[3:5], first.nodes[2]]
    )
    first.play("AAB")
    other_group.play("AAB")
    create_second_group(first).play("AAA")
    first.settle(ord("A"))
    network.chain.later(WINDOW + 1)
    other_group.settle()

    assert network.standing(first.nodes[2]) is OUT
    assert network.balance() == MIN_STAKE * 5 + sum(map(network.owed, network.chain.accounts))


# --- the window ---


def test_contested_node_is_cleared_without_a_second_group(network: Network, first: Group):
    first.play("AAB")
    compared = network.chain.time
    network.chain.at(compared + WINDOW)
    with pytest.raises(RevertedError, match="ContestOpen") as early:
        first.settle()
    assert early.value.values[1] == compared + WINDOW
    network.chain.at(compared + WINDOW + 1)
    cleared = first.settle().only("NodeCleared")

    assert cleared == {"node": first.nodes[2], "task": first.tasks[2]}
    assert list_standings(first) == [IN, IN, IN]
    assert [network.node(node)["open"] for node in first.nodes] == [0, 0, 0]


def test_second_group_settled_after_the_window_does_not_slash(network: Network, first: Group):
    first.play("AAB")
    second = create_second_group(first)
    second.play("AAA")
    network.chain.later(WINDOW + 1)

    assert first.settle(ord("A")).names == ["NodeCleared"]


def test_second_group_after_the_window_is_rejected(network: Network, first: Group):
    first.play("AAB")
    network.chain.later(WINDOW + 1)
    network.chain.mine()
    with pytest.raises(RevertedError, match="NotContested"):
        create_second_group(first)


def test_contest_can_be_settled_only_once(network: Network, first: Group):
    first.play("AAB")
    create_second_group(first).play("AAA")
    first.settle(ord("A"))
    with pytest.raises(RevertedError, match="NotContested"):
        first.settle(ord("A"))
