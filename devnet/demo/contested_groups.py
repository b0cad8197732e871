"""The demo's task groups, and the contests of groups in which a node submitted a false result."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from devnet.demo.cast import DemoNode
from devnet.demo.stage import Stage
from oracle.bindings.contest_calls import compute_answer
from oracle.domain.ids import Address, GroupKey, Hash


@dataclass(slots=True)
class DemoTask:
    """One task of a wave.

    Events are block numbers, None until they happen. `result` is the hash that honest nodes
    compute; `group` is the contract's key of the group, or None. `answer_due_at` is the block in
    which the node will answer, None if it never does. `is_committed`: the node has committed to an
    answer, or the task timed out. `is_revealed`: the answer was revealed, or the task timed out.
    `is_probe`: a system task, which the dispatcher validates and times out. `is_false`: the node's
    answer is garbage.
    """

    id: bytes
    key: bytes
    creator: Address
    result: bytes
    group: bytes | None
    node: DemoNode | None = None
    started_at: int | None = None
    answers_at: int | None = None
    settled: bool = False
    shown: bool = False
    is_probe: bool = False
    is_lie: bool = False

    @property
    def answer(self) -> bytes:
        """The hash that the node commits to.

        In a group the hash is bound to the group, so that no other group can copy it.
        """
        result = hashlib.sha256(self.key).digest() if self.is_lie else self.result
        if self.group is None:
            return result
        group, hashed = GroupKey("0x" + self.group.hex()), Hash("0x" + result.hex())
        return bytes.fromhex(compute_answer(group, hashed)[2:])


@dataclass(slots=True)
class Group:
    """The tasks of one validation group.

    `id` is the creator's id of the group, or the contract's key if the dispatcher is the creator.
    """

    id: bytes
    jobs: list[DemoTask] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        return all(job.settled for job in self.jobs)

    @property
    def is_shown(self) -> bool:
        return all(job.shown for job in self.jobs)

    @property
    def has_lie(self) -> bool:
        return any(job.is_lie for job in self.jobs)


class OpenContests:
    """Judged groups with a false answer, until an honest member settles the contest.

    The nodes settle as real ones would: a member whose stake is held knows the result, and calls
    `settleContest` after the second group was compared.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        # Keyed by the contract's key of the group, and of its second group once that was ordered.
        self._waiting: dict[bytes, Group] = {}
        self._ordered: dict[bytes, Group] = {}
        self._decided: list[Group] = []

    @property
    def are_open(self) -> bool:
        """Whether a contest waits for its second group, or for its settlement."""
        return bool(self._waiting or self._ordered or self._decided)

    def add(self, group: Group) -> None:
        """Add a group whose results are being compared; a second group will follow."""
        key = group.jobs[0].group
        if key is not None:
            self._waiting[key] = group

    def add_second_group(self, contested: bytes, second: bytes) -> bytes | None:
        """Return the result that honest nodes of the second group compute, or None.

        None means that no contest of this key is open.
        """
        group = self._waiting.pop(contested, None)
        if group is None:
            return None
        self._ordered[second] = group
        return group.jobs[0].result

    def note_comparison(self, group: bytes) -> None:
        """Let a member settle, if the group is the second group of a contest."""
        if group in self._ordered:
            self._decided.append(self._ordered.pop(group))

    def settlements(self) -> Iterator[dict[str, str]]:
        """Yield the transaction that settles each decided contest, once."""
        while self._decided:
            yield self._settlement(self._decided.pop())

    def _settlement(self, group: Group) -> dict[str, str]:
        honest, name = next(
            (job, job.node.name)
            for job in group.jobs
            if job.node is not None and job.answers_at is not None and not job.is_lie
        )
        keys = [job.key for job in group.jobs]
        arguments = (honest.group, keys, honest.result)
        account = self._stage.nodes[name]
        return self._stage.call(account, "TaskNetwork", "settleContest", *arguments)
