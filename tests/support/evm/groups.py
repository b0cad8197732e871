"""Validation groups on a test's network; each letter of a word is a member's answer."""

from collections.abc import Sequence
from typing import Any

from tests.support.evm.chain import Receipt
from tests.support.evm.network import ETHER, NOTHING, TIMEOUT, Network, encode_word

GROUP = encode_word(77)

# The behaviour of a member; any other letter is the result that it submits.
ERROR, SILENT = "e", "-"


def create_member_tasks(network: Network, size: int = 3, **order_fields: Any) -> list[bytes]:
    """Create the tasks of a group, with fees of 1, 2, 3 … ether."""
    order_fields = {"group": GROUP, "group_size": size, **order_fields}
    return [network.create(fee=place * ETHER, **order_fields) for place in range(1, size + 1)]


def play_group(network: Network, answers: str) -> list[bytes]:
    """Run a group on the nodes in order, ten seconds apart; every member that answers reveals."""
    tasks = create_member_tasks(network, len(answers))
    played = list(zip(tasks, network.nodes, answers, strict=False))
    for task, node, _ in played:
        network.start(task, node)
    for task, node, does in played:
        submit_answer(network, task, node, does)
    time_out_tasks(network, [task for task, _, does in played if does == SILENT])
    for task, _, does in played:
        if does != SILENT:
            network.reveal(task)
    return tasks


def time_out_tasks(network: Network, tasks: list[bytes]) -> None:
    if not tasks:
        return
    network.chain.later(TIMEOUT + 1)
    network.chain.mine()
    for task in tasks:
        network.time_out(task)


def submit_answer(network: Network, task: bytes, node: str, does: str) -> None:
    network.chain.later(10)
    if does != SILENT:
        network.commit(task, node, NOTHING if does == ERROR else encode_word(ord(does)))


def compare_answers(network: Network, tasks: list[bytes], group: bytes = GROUP) -> Receipt:
    return network.by(network.creator, network.does.validateGroup(group, tasks))


def list_task_ends(receipt: Receipt, tasks: list[bytes]) -> list[str]:
    """Return how a transaction ended each task, or "" for a task that it did not end."""
    terminals = ("TaskSucceeded", "TaskRefunded", "TaskInvalidated", "TaskAborted")
    end_by_task = {s.args["task"]: s.event for s in receipt.events if s.event in terminals}
    return [end_by_task.get(task, "").removeprefix("Task") for task in tasks]


def score_nodes_in_order(network: Network, nodes: Sequence[str], number: int) -> None:
    """Run a separate group in which these nodes rank in order, so that each gets a score.

    The last node is started first, so a few seconds are enough, and no period ends meanwhile.
    """
    name = encode_word(1_000 + number)
    played = list(zip(create_member_tasks(network, len(nodes), group=name), nodes, strict=True))
    for task, node in reversed(played):
        network.start(task, node)
    for task, node in played:
        network.commit(task, node, encode_word(ord("a")))
    for task, _ in played:
        network.reveal(task)
    compare_answers(network, [task for task, _ in played], name)


def score_nodes_equally(network: Network, nodes: Sequence[str]) -> None:
    """Run as many groups as there are nodes; each node is first, and last, in one of them."""
    for turn in range(len(nodes)):
        score_nodes_in_order(network, [*nodes[turn:], *nodes[:turn]], turn)
