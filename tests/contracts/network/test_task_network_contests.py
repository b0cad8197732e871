"""Who is slashed: nobody by one group, and by two whoever they prove wrong."""

from typing import Any

import pytest

from tests.support.evm.chain import Chain, Receipt, RevertedError
from tests.support.evm.groups import ends, time_out
from tests.support.evm.network import (
    ETHER,
    MIN_STAKE,
    TIMEOUT,
    TOLL,
    Network,
    Standing,
    answer_of,
    word,
)

pytestmark = pytest.mark.evm

FIRST, SECOND = word(1), word(2)
WINDOW = 86_400
ERROR, SILENT = "e", "-"


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


class Group:
    """A group of three: its creator, the creator's name for it, its tasks and nodes."""

    def __init__(self, network: Network, creator: str, name: bytes, nodes: list[str]) -> None:
        self.network, self.creator, self.name, self.nodes = network, creator, name, nodes
        wanted: dict[str, Any] = {"creator": creator, "group": name, "group_size": 3}
        self.tasks = [network.create(fee=ETHER, **wanted) for _ in range(3)]
        self.key = network.key(creator, name)

    def play(self, answers: str) -> Receipt:
        """A letter is a result; all is committed, revealed and compared."""
        network = self.network
        for task, node in zip(self.tasks, self.nodes, strict=True):
            network.start(task, node)
        played = zip(self.tasks, self.nodes, answers, strict=True)
        spoken = [each for each in played if each[2] != SILENT]
        for task, node, does in spoken:
            network.commit(task, node, answer_of(self.key, result(does)))
        silent = {*self.tasks} - {task for task, _, _ in spoken}
        time_out(network, sorted(silent))
        for task, _, _ in spoken:
            network.reveal(task)
        return self.compare()

    def compare(self) -> Receipt:
        call = self.network.does.validateGroup(self.name, self.tasks)
        return self.network.by(self.creator, call)

    def settle(self, result: int = 0) -> Receipt:
        call = self.network.does.settleContest(self.key, self.tasks, word(result))
        return self.network.by(self.network.admin, call)


def result(letter: str) -> int:
    return 0 if letter == ERROR else ord(letter)


@pytest.fixture
def first(network: Network) -> Group:
    return Group(network, network.creator, FIRST, network.nodes[:3])


def second_of(first: Group, *, link: bool = True) -> Group:
    network = first.network
    second = Group(network, network.dispatcher, SECOND, network.nodes[3:6])
    if link:
        network.by(network.dispatcher, network.does.revalidate(first.key, SECOND))
    return second


def standings(group: Group) -> list[Standing]:
    return [group.network.standing(node) for node in group.nodes]


IN, OUT = Standing.ACTIVE, Standing.SLASHED


@pytest.mark.parametrize(
    ("says", "slashed"),
    [
        # The second group agrees with the first one's majority, with its minority, with neither.
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
def test_the_second_group_decides(first: Group, says: str, slashed: list[Standing]):
    network = first.network
    first_says, second_says, proof = says.split()
    first.play(first_says)
    second_of(first).play(second_says)
    settled = first.settle(result(proof))

    assert standings(first) == slashed
    assert [network.node(node)["open"] for node in first.nodes] == [0, 0, 0]
    taken = MIN_STAKE * slashed.count(OUT)
    cost = TOLL if taken and proof != ERROR else 0
    assert settled.names.count("NodeSlashed") == slashed.count(OUT)
    assert sum(s.args["amount"] for s in settled.events if s.event == "Credited") == taken
    tolls = TOLL * second_says.count(SILENT)
    assert network.owed(network.treasury) == taken - cost + tolls


def test_a_minority_is_contested_and_its_fee_and_score_are_as_ever(network: Network, first: Group):
    said = first.play("AAB")

    assert ends(said, first.tasks) == ["Succeeded", "Refunded", "Invalidated"]
    assert said.only("NodeContested") == {"node": first.nodes[2], "task": first.tasks[2]}
    assert standings(first) == [IN, IN, IN]
    assert network.owed(first.nodes[0]) == ETHER
    assert network.owed(network.treasury) == 0


def test_a_unanimous_group_holds_nobody(network: Network, first: Group):
    first.play("AA-")
    assert [network.node(node)["open"] for node in first.nodes] == [0, 0, 0]
    with pytest.raises(RevertedError, match="NotContested"):
        first.settle()


def test_who_is_contested_goes_on_working(network: Network, first: Group):
    first.play("AAB")
    network.begun(first.nodes[2])


@pytest.mark.parametrize("place", [0, 2])
def test_neither_side_of_a_contest_saves_its_stake_by_leaving(
    network: Network, first: Group, place: int
):
    """Two that lied alike would be gone before the second group has spoken."""
    liar = first.nodes[place]
    first.play("AAB")
    network.by(liar, network.does.quit())
    assert network.owed(liar) == (ETHER if place == 0 else 0)
    second_of(first).play("BBB" if place == 0 else "AAA")
    first.settle(ord("B") if place == 0 else ord("A"))

    assert network.standing(liar) is OUT
    assert network.owed(liar) == (ETHER if place == 0 else 0)


def test_who_was_kicked_out_meanwhile_loses_its_stake_all_the_same(network: Network, first: Group):
    oracle = network.chain.deploy("testing/PlainOracle")
    network.by(network.admin, network.does.setOracle(oracle.address))
    first.play("AAB")
    kick = oracle.functions.kick(network.contract.address, first.nodes[2], word(5))
    network.chain.send(kick)
    second_of(first).play("AAA")
    settled = first.settle(ord("A"))

    forfeited = settled.only("StakeForfeited")
    assert forfeited == {"node": first.nodes[2], "amount": MIN_STAKE}
    assert network.standing(first.nodes[2]) is Standing.KICKED_OUT
    assert network.owed(first.nodes[2]) == 0


def test_a_slash_aborts_what_the_node_runs_by_then(network: Network, first: Group):
    first.play("AAB")
    second_of(first).play("AAA")
    running = network.begun(first.nodes[2])
    names = first.settle(ord("A")).names

    assert names.index("TaskAborted") < names.index("NodeSlashed")
    assert network.told(running)["status"] == 11


def test_a_stake_is_taken_once(network: Network, first: Group):
    other = Group(network, network.creator, word(9), [*network.nodes[3:5], first.nodes[2]])
    first.play("AAB")
    other.play("AAB")
    second_of(first).play("AAA")
    first.settle(ord("A"))
    network.chain.later(WINDOW + 1)
    other.settle()

    assert network.standing(first.nodes[2]) is OUT
    assert network.balance() == MIN_STAKE * 5 + sum(map(network.owed, network.chain.accounts))


# --- the window ---


def test_without_a_second_group_nobody_is_slashed(network: Network, first: Group):
    first.play("AAB")
    compared = network.chain.time
    network.chain.at(compared + WINDOW)
    with pytest.raises(RevertedError, match="ContestOpen") as early:
        first.settle()
    assert early.value.values[1] == compared + WINDOW
    network.chain.at(compared + WINDOW + 1)
    cleared = first.settle().only("NodeCleared")

    assert cleared == {"node": first.nodes[2], "task": first.tasks[2]}
    assert standings(first) == [IN, IN, IN]
    assert [network.node(node)["open"] for node in first.nodes] == [0, 0, 0]


def test_a_second_group_that_speaks_too_late_slashes_nobody(network: Network, first: Group):
    first.play("AAB")
    second = second_of(first)
    second.play("AAA")
    network.chain.later(WINDOW + 1)

    assert first.settle(ord("A")).names == ["NodeCleared"]


def test_a_second_group_is_not_named_after_the_window(network: Network, first: Group):
    first.play("AAB")
    network.chain.later(WINDOW + 1)
    network.chain.mine()
    with pytest.raises(RevertedError, match="NotContested"):
        second_of(first)


def test_a_contest_is_settled_once(network: Network, first: Group):
    first.play("AAB")
    second_of(first).play("AAA")
    first.settle(ord("A"))
    with pytest.raises(RevertedError, match="NotContested"):
        first.settle(ord("A"))


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
