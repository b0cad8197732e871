"""The demo's groups of tasks, and the contests about groups with a lying node."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from devnet.demo.demo_nodes import DemoNode
from devnet.demo.stage import Stage
from oracle.bindings.contest_calls import compute_answer
from oracle.domain.ids import Address, GroupKey, Hash


@dataclass(slots=True)
class DemoTask:
    """A task in a wave of the demo.

    `result` is the hash that honest nodes compute. `group` is the contract's key of the group, or
    None without a group. `started_at` is the block of the start, or None before the start.
    `answer_due_at` is the block in which the node will answer, or None if the node never answers.
    `is_committed` is set if the node has committed to an answer, and `is_revealed` if it has
    revealed the answer; both are also set if the task timed out. `is_probe` is set if the task is
    a system task, which the dispatcher validates and times out. `is_false` is set if the node's
    answer is garbage.
    """

    id: bytes
    contract_key: bytes
    creator: Address
    result: bytes
    group: bytes | None
    node: DemoNode | None = None
    started_at: int | None = None
    answer_due_at: int | None = None
    is_committed: bool = False
    is_revealed: bool = False
    is_probe: bool = False
    is_false: bool = False

    @property
    def commitment_hash(self) -> bytes:
        """The hash that the node commits to.

        In a group the hash depends on the group's key, so that other groups cannot copy it.
        """
        result = hashlib.sha256(self.contract_key).digest() if self.is_false else self.result
        if self.group is None:
            return result
        group_key = GroupKey("0x" + self.group.hex())
        result_hash = Hash("0x" + result.hex())
        return bytes.fromhex(compute_answer(group_key, result_hash)[2:])


@dataclass(slots=True)
class DemoGroup:
    """The tasks of a validation group.

    `id` is the creator's id of the group, or the contract's key if the dispatcher is the creator.
    """

    id: bytes
    tasks: list[DemoTask] = field(default_factory=list)

    @property
    def is_fully_committed(self) -> bool:
        return all(task.is_committed for task in self.tasks)

    @property
    def is_fully_revealed(self) -> bool:
        return all(task.is_revealed for task in self.tasks)

    @property
    def has_false_answer(self) -> bool:
        return any(task.is_false for task in self.tasks)


class ContestTracker:
    """Tracks each group with a wrong answer until its contest is settled.

    The nodes settle contests as real nodes would. A member whose stake is held knows the result,
    and calls `settleContest` after the second group was compared.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        # The first dict is keyed by the contract's key of the contested group. Once a second group
        # has been ordered, the second dict is keyed by that group's key.
        self._group_by_contest: dict[bytes, DemoGroup] = {}
        self._group_by_second_group: dict[bytes, DemoGroup] = {}
        self._decided_groups: list[DemoGroup] = []

    @property
    def has_open_contests(self) -> bool:
        """Whether a contest waits for its second group or for its settlement."""
        return bool(self._group_by_contest or self._group_by_second_group or self._decided_groups)

    def add_contested_group(self, group: DemoGroup) -> None:
        """Track a contested group until its second group decides the contest."""
        group_key = group.tasks[0].group
        if group_key is not None:
            self._group_by_contest[group_key] = group

    def link_second_group(self, contested_key: bytes, second_group_key: bytes) -> bytes | None:
        """Record the second group of a contest, and return the result of its honest nodes.

        Return None if there is no open contest about the group `contested_key`.
        """
        group = self._group_by_contest.pop(contested_key, None)
        if group is None:
            return None
        self._group_by_second_group[second_group_key] = group
        return group.tasks[0].result

    def mark_contest_decided(self, group_key: bytes) -> None:
        """Mark a contest as decided if `group_key` is its second group."""
        if group_key in self._group_by_second_group:
            self._decided_groups.append(self._group_by_second_group.pop(group_key))

    def build_settlements(self) -> Iterator[dict[str, str]]:
        """Yield a transaction that settles each decided contest."""
        while self._decided_groups:
            yield self._build_settlement(self._decided_groups.pop())

    def _build_settlement(self, group: DemoGroup) -> dict[str, str]:
        honest_task, name = next(
            (member, member.node.name)
            for member in group.tasks
            if member.node is not None and member.answer_due_at is not None and not member.is_false
        )
        keys = [task.contract_key for task in group.tasks]
        arguments = (honest_task.group, keys, honest_task.result)
        node_address = self._stage.nodes[name]
        return self._stage.build_transaction(
            node_address, "TaskNetwork", "settleContest", *arguments
        )
