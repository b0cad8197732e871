"""A group is started completely, with a node for each task, or not at all."""

from collections.abc import Callable, Sequence

import pytest

from tests.support.evm.chain import Chain, Receipt, RevertedError
from tests.support.evm.network import Network, Status

pytestmark = pytest.mark.evm

GROUP = b"g" * 32
# The start names no seed block.
NO_BLOCK = (0, bytes(32))


@pytest.fixture(scope="module")
def busy(fresh_chain: Chain) -> Network:
    """Return a network with four nodes."""
    network = Network.deployed(fresh_chain)
    for node in network.nodes[:4]:
        network.join(node)
    return network


@pytest.fixture
def network(busy: Network, chain: Chain) -> Network:
    return busy


def order_group(network: Network, size: int = 3, created: int = 3) -> list[bytes]:
    return [network.create(group=GROUP, group_size=size) for _ in range(created)]


def start(
    network: Network,
    tasks: Sequence[bytes],
    nodes: Sequence[str],
    as_of: tuple[int, bytes] = NO_BLOCK,
    sender: str = "",
) -> Receipt:
    call = network.does.startGroup(list(tasks), list(nodes), *as_of)
    return network.by(sender or network.dispatcher, call)


def last_block(network: Network) -> tuple[int, bytes]:
    number = network.chain.block
    header = network.chain.rpc("eth_getBlockByNumber", hex(number), False)
    return number, bytes.fromhex(header["hash"][2:])


def test_all_tasks_of_a_group_start_together(network: Network):
    tasks = order_group(network)
    nodes = network.nodes[:3]
    receipt = start(network, tasks, nodes, last_block(network))

    assert receipt.names == ["GroupStarted", *["TaskDrawn", "TaskStarted"] * 3]
    assert receipt.only("GroupStarted") == {
        "group": network.key(network.creator, GROUP),
        "tasks": tasks,
        "nodes": nodes,
    }
    assert [network.read_task(task)["node"] for task in tasks] == nodes


def test_group_start_without_a_draw_block_emits_no_draw_event(network: Network):
    receipt = start(network, order_group(network), network.nodes[:3])
    assert receipt.names == ["GroupStarted", *["TaskStarted"] * 3]


def _pause_node(network: Network, _: list[bytes]) -> None:
    network.by(network.nodes[2], network.does.pause())


def _busy(network: Network, _: list[bytes]) -> None:
    network.create_started_task(network.nodes[2])


def _quit_node(network: Network, _: list[bytes]) -> None:
    network.by(network.nodes[2], network.does.quit())


def _start_elsewhere(network: Network, tasks: list[bytes]) -> None:
    network.start(tasks[2], network.nodes[3])


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_pause_node, "NodeIsPaused"),
        (_busy, "NodeBusy"),
        (_quit_node, "NotMember"),
        (_start_elsewhere, "WrongStatus"),
    ],
)
def test_group_start_reverts_if_its_last_task_cannot_start(
    network: Network, spoil: Callable[[Network, list[bytes]], None], error: str
):
    tasks = order_group(network)
    spoil(network, tasks)
    with pytest.raises(RevertedError, match=error):
        start(network, tasks, network.nodes[:3])
    assert [network.status(task) for task in tasks[:2]] == [Status.CREATED] * 2


@pytest.mark.parametrize("spoil", ["pause", "quit", "updateVersion"])
def test_group_start_with_an_unsuitable_node_reverts_with_little_gas(network: Network, spoil: str):
    """Without the check it cost the dispatcher 245,670 gas, for 28,614 of the node's own."""
    tasks = order_group(network)
    node = network.nodes[2]
    args = (9, 0, 0) if spoil == "updateVersion" else ()
    network.by(node, getattr(network.does, spoil)(*args))
    with pytest.raises(RevertedError):
        start(network, tasks, network.nodes[:3], last_block(network))
    block = network.chain.rpc("eth_getBlockByNumber", "latest", False)
    assert int(block["gasUsed"], 16) < 80_000


def test_group_start_that_names_a_node_twice_is_rejected(network: Network):
    tasks = order_group(network)
    (first_node, second_node, *_) = network.nodes
    with pytest.raises(RevertedError, match="TookPart"):
        start(network, tasks, [first_node, second_node, first_node])


@pytest.mark.parametrize("part", [slice(0), slice(2), slice(1, 3)])
def test_starting_only_part_of_a_group_is_rejected(network: Network, part: slice):
    tasks = order_group(network)[part]
    with pytest.raises(RevertedError, match="WrongMembers"):
        start(network, tasks, network.nodes[: len(tasks)])


def test_duplicate_or_foreign_task_in_group_start_is_rejected(network: Network):
    first_task, second_task, _ = order_group(network)
    for third in (second_task, network.create(), bytes(32)):
        with pytest.raises(RevertedError, match="WrongMembers"):
            start(network, [first_task, second_task, third], network.nodes[:3])


def test_group_start_of_a_task_without_a_group_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="WrongMembers"):
        start(network, [network.create()], network.nodes[:1])


@pytest.mark.parametrize("many", [2, 4])
def test_node_count_must_equal_task_count(network: Network, many: int):
    with pytest.raises(RevertedError, match="WrongMembers"):
        start(network, order_group(network), network.nodes[:many])


def test_start_of_group_with_missing_tasks_is_rejected(network: Network):
    with pytest.raises(RevertedError, match="WrongMembers"):
        start(network, order_group(network, size=4), network.nodes[:3])


def test_group_start_with_wrong_block_hash_is_rejected(network: Network):
    tasks = order_group(network)
    (number, _) = last_block(network)
    with pytest.raises(RevertedError, match="Reorged"):
        start(network, tasks, network.nodes[:3], (number, b"\x01" * 32))


def test_only_dispatcher_may_start_group(network: Network):
    tasks = order_group(network)
    with pytest.raises(RevertedError, match="NotDispatcher"):
        start(network, tasks, network.nodes[:3], sender=network.creator)
