"""Traffic without a daemon: in each wave, every selectable node gets a task in a group of three.

A wave has eight blocks. Tasks are created and started in the first block, and answered in the
following ones. In the last block, the silent nodes' tasks time out, the other nodes reveal, and
the groups are validated.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from devnet.demo.demo_nodes import (
    DEMO_NODES,
    GROUP_SIZE,
    HOPELESS,
    MOODY,
    TASK_TIMEOUT,
    TURTLE,
    DemoNode,
)
from devnet.demo.stage import ETHER, MODEL, VERSION, Stage
from devnet.demo.traffic import SALT, compute_commitment
from oracle.bindings.codec import decode_result, encode_call
from oracle.bindings.contest_calls import compute_answer
from oracle.domain.ids import Address, GroupKey, Hash

Transaction = dict[str, str]
_FEE = ETHER // 10
_IMAGE = 0
WAVE_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Assignment:
    """One task of a wave.

    `blocks`: the number of blocks until the node answers, or None if it never does. `answer`: the
    result as the node commits to it, bound to the group.
    """

    node: DemoNode
    id: bytes
    key: bytes
    answer: bytes
    blocks: int | None


class DealtTraffic:
    """Generates wave after wave; the same seed and the same nodes give the same waves."""

    def __init__(self, stage: Stage, dispatcher: str, seed: int) -> None:
        """Create the traffic; `dispatcher` is the network's dispatcher, an unlocked account."""
        self._stage = stage
        self._dispatcher = dispatcher
        # Not for secrets: the traffic must be the same at every run.
        self._chance = random.Random(seed)  # noqa: S311
        self._gone: set[str] = set()
        # The creator of this wave: with a single creator, a kickout would wait for an operator.
        self._creator = stage.creator

    def leave(self, name: str) -> None:
        """Mark a node as gone, so that it gets no more tasks."""
        self._gone.add(name)

    def wave(self, number: int) -> Iterator[list[Transaction]]:
        """Yield the transactions of each of the wave's eight blocks."""
        self._creator = self._stage.creators[number % len(self._stage.creators)]
        present = self._selectable(number)
        groups = split_into_groups_of_three(present, self._chance)
        dealt = [self._deal(number, place, group) for place, group in enumerate(groups)]
        assignments = [assignment for group in dealt for assignment in group]
        yield [*self._moves(number), *self._starts(number, dealt)]
        for block in range(1, WAVE_BLOCKS - 1):
            yield [
                self._answer(assignment)
                for assignment in assignments
                if assignment.blocks == block
            ]
        silent = [assignment for assignment in assignments if assignment.blocks is None]
        yield [
            *(self._say("timeOutTask", assignment.key) for assignment in silent),
            *(
                self._reveal(assignment)
                for assignment in assignments
                if assignment.blocks is not None
            ),
            *(
                self._say(
                    "validateGroup",
                    _make_group_id(number, place),
                    [assignment.key for assignment in group],
                )
                for place, group in enumerate(dealt)
            ),
        ]

    def _selectable(self, number: int) -> list[DemoNode]:
        """Return the present nodes that the scores contract reports as selectable."""
        here = [
            node
            for node in DEMO_NODES
            if node.name not in self._gone and number not in node.away_waves
        ]
        calls = [
            (
                "eth_call",
                {
                    "to": self._stage.hot_set,
                    "data": _encode_is_selectable_call(self._account(node)),
                },
            )
            for node in here
        ]
        answers = self._stage.chain.make_batch_request([(*call, "latest") for call in calls])
        return [
            node
            for node, answer in zip(here, answers, strict=True)
            if decode_result("roots/QoSWords", "isSelectable", answer)[0]
        ]

    def _deal(self, wave: int, place: int, group: list[DemoNode]) -> list[Assignment]:
        key = GroupKey("0x" + self._key(_make_group_id(wave, place)).hex())
        answer = bytes.fromhex(compute_answer(key, _compute_result(wave, place))[2:])
        dealt = []
        for member, node in enumerate(group):
            task = _make_id("task", wave, place, member)
            blocks = node.sample_answer_delay(wave, self._chance)
            dealt.append(Assignment(node, task, self._key(task), answer, blocks))
        return dealt

    def _moves(self, number: int) -> list[Transaction]:
        """Return the pauses and resumptions of nodes that are away for some waves."""
        moves = []
        for node in (
            cast_node
            for cast_node in DEMO_NODES
            if cast_node.away_waves and cast_node.name not in self._gone
        ):
            if number in node.away_waves and number - 1 not in node.away_waves:
                moves.append(
                    self._stage.build_transaction(self._account(node), "TaskNetwork", "pause")
                )
            if number not in node.away_waves and number - 1 in node.away_waves:
                moves.append(
                    self._stage.build_transaction(self._account(node), "TaskNetwork", "resume")
                )
        return moves

    def _starts(self, number: int, dealt: list[list[Assignment]]) -> list[Transaction]:
        created = [
            self._say(
                "createTask", _build_order(assignment, _make_group_id(number, place)), value=_FEE
            )
            for place, group in enumerate(dealt)
            for assignment in group
        ]
        stage = self._stage
        started = [
            stage.build_transaction(
                self._dispatcher,
                "TaskNetwork",
                "startTask",
                assignment.key,
                self._account(assignment.node),
            )
            for group in dealt
            for assignment in group
        ]
        return created + started

    def _answer(self, assignment: Assignment) -> Transaction:
        account = self._account(assignment.node)
        commitment = compute_commitment(assignment.key, account, assignment.answer)
        return self._stage.build_transaction(
            account, "TaskNetwork", "commitAnswer", assignment.key, commitment
        )

    def _reveal(self, assignment: Assignment) -> Transaction:
        account = self._account(assignment.node)
        reveal = (assignment.key, assignment.answer, SALT)
        return self._stage.build_transaction(account, "TaskNetwork", "revealAnswer", *reveal)

    def _say(self, function: str, *arguments: object, value: int = 0) -> Transaction:
        stage = self._stage
        return stage.build_transaction(
            self._creator, "TaskNetwork", function, *arguments, value=value
        )

    def _account(self, node: DemoNode) -> Address:
        return self._stage.nodes[node.name]

    def _key(self, name: bytes) -> bytes:
        """Return the contract's key of this creator's task or group."""
        stage = self._stage
        call = {
            "to": stage.network,
            "data": encode_call("TaskNetwork", "keyOf", self._creator, name),
        }
        answer = stage.chain.make_request("eth_call", call, "latest")
        key: bytes = decode_result("TaskNetwork", "keyOf", answer)[0]
        return key


def _compute_result(wave: int, place: int) -> Hash:
    """Return a group's result, which is the same for all members.

    All nodes are honest.
    """
    return Hash("0x" + hashlib.sha256(_make_id("task", wave, place, 0)[:-1]).hexdigest())


def _build_order(assignment: Assignment, group: bytes) -> tuple[object, ...]:
    """Return the struct Order of TaskNetwork."""
    any_gpu = (0, "", 0)
    return (assignment.id, group, GROUP_SIZE, _IMAGE, *any_gpu, [MODEL], *VERSION, 1, TASK_TIMEOUT)


def _encode_is_selectable_call(node: Address) -> str:
    return encode_call("roots/QoSWords", "isSelectable", node)


def _make_group_id(wave: int, place: int) -> bytes:
    return _make_id("group", wave, place, 0)


def _make_id(kind: str, wave: int, place: int, member: int) -> bytes:
    """Return a 32-byte id; the ids of a group's members differ only in the last byte."""
    head = hashlib.sha256(f"{kind} {wave} {place}".encode()).digest()[:31]
    return head + bytes([member])


# These nodes never meet in a group, because each must show its own behaviour.
_SOLOISTS = (TURTLE, HOPELESS, MOODY)


def split_into_groups_of_three(
    present: list[DemoNode], chance: random.Random
) -> list[list[DemoNode]]:
    """Split the nodes into groups of three at random; the remaining nodes rest for this wave.

    A group has at most one soloist.
    """
    count = len(present) // GROUP_SIZE
    soloists = [node for node in present if node in _SOLOISTS][:count]
    other_nodes = [node for node in present if node not in _SOLOISTS]
    chance.shuffle(other_nodes)
    groups = [[node] for node in soloists] + [[] for _ in range(count - len(soloists))]
    for group in groups:
        while len(group) < GROUP_SIZE:
            group.append(other_nodes.pop())
        chance.shuffle(group)
    return groups
