"""Contested groups, and the second groups that decide them, on a test's network."""

from typing import Any

from tests.support.evm.chain import Receipt
from tests.support.evm.groups import time_out_tasks
from tests.support.evm.network import ETHER, Network, Standing, compute_answer, encode_word

SECOND = encode_word(2)
WINDOW = 86_400
ERROR, SILENT = "e", "-"
IN, OUT = Standing.ACTIVE, Standing.SLASHED


class Group:
    """A group of three: its creator, the creator's id of the group, its tasks and nodes."""

    def __init__(
        self,
        network: Network,
        creator: str,
        name: bytes,
        nodes: list[str],
        running: list[bytes] | None = None,
    ) -> None:
        """Create the group; `running` are its tasks if they are already created and started."""
        self.network, self.creator, self.name, self.nodes = network, creator, name, nodes
        self.is_started = running is not None
        order_fields: dict[str, Any] = {"creator": creator, "group": name, "group_size": 3}
        self.tasks = running or [network.create(fee=ETHER, **order_fields) for _ in range(3)]
        self.key = network.key(creator, name)

    def play(self, answers: str) -> Receipt:
        """Let the members commit and reveal, and compare the answers; each letter is a result."""
        network = self.network
        if not self.is_started:
            for task, node in zip(self.tasks, self.nodes, strict=True):
                network.start(task, node)
        played = zip(self.tasks, self.nodes, answers, strict=True)
        spoken = [move for move in played if move[2] != SILENT]
        for task, node, does in spoken:
            network.commit(task, node, compute_answer(self.key, make_result(does)))
        silent = {*self.tasks} - {task for task, _, _ in spoken}
        time_out_tasks(network, sorted(silent))
        for task, _, _ in spoken:
            network.reveal(task)
        return self.compare()

    def compare(self) -> Receipt:
        call = self.network.does.validateGroup(self.name, self.tasks)
        return self.network.by(self.creator, call)

    def settle(self, result: int = 0) -> Receipt:
        call = self.network.does.settleContest(self.key, self.tasks, encode_word(result))
        return self.network.by(self.network.admin, call)


def make_result(letter: str) -> int:
    return 0 if letter == ERROR else ord(letter)


def create_second_group(first: Group) -> Group:
    """Start the dispatcher's own group, which repeats the work of the first group."""
    network = first.network
    nodes = network.nodes[3:6]
    tasks = list_created_tasks(order_second_group(network, first.key, SECOND, nodes))
    return Group(network, network.dispatcher, SECOND, nodes, tasks)


def order_second_group(
    network: Network, contested: bytes, name: bytes, nodes: list[str], **order_fields: Any
) -> Receipt:
    """Fund the dispatcher's balance; order, link and start a second group in one call."""
    network.by(network.admin, network.does.fund(network.dispatcher), ETHER * len(nodes))
    plain: dict[str, Any] = {"id": make_first_id(name), "group": name, "group_size": len(nodes)}
    order = network.order(**plain | order_fields)
    call = network.does.probe(order, ETHER, nodes, contested)
    return network.by(network.dispatcher, call)


def make_first_id(name: bytes) -> bytes:
    """Return an id that no other task of a test has."""
    return encode_word((int.from_bytes(name) << 64) + (1 << 40))


def list_created_tasks(receipt: Receipt) -> list[bytes]:
    return [bytes(event.args["task"]) for event in receipt.events if event.event == "TaskCreated"]


def list_standings(group: Group) -> list[Standing]:
    return [group.network.standing(node) for node in group.nodes]
