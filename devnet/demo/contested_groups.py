"""The groups of the demo's tasks, and the contests of those in which a node has lied."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from devnet.demo.cast import DemoNode
from devnet.demo.stage import Stage
from oracle.bindings.contest_calls import compute_answer
from oracle.domain.ids import Address, GroupKey, Hash


@dataclass(slots=True)
class DemoTask:
    """One task of a wave; blocks by height, None: not (yet) so.

    `result`: the hash of what honest nodes find; `group`: the contract's name of its group, None
    where it is in none. `answers_at`: where its node is going to answer, None: never. `settled`
    once its node has committed to an answer, or it was timed out; `shown` once revealed, or timed
    out. `is_probe`: the dispatcher's, which judges it and times it out. `is_lie`: its node answers
    garbage.
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
        """What its node commits to: in a group bound to it, so that no other group can copy it."""
        result = hashlib.sha256(self.key).digest() if self.is_lie else self.result
        if self.group is None:
            return result
        group, hashed = GroupKey("0x" + self.group.hex()), Hash("0x" + result.hex())
        return bytes.fromhex(compute_answer(group, hashed)[2:])


@dataclass(slots=True)
class Group:
    """The jobs of one validation group.

    `id`: the creator's name of it, or the contract's where the dispatcher is the creator.
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
    """Judged groups with a lie, until an honest member has settled by the second group's verdict.

    The nodes settle as real ones would: whoever has its stake held knows the result, and calls
    `settleContest` when the second group was compared.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        # By the contract's name of the group, and of its second group where that was ordered.
        self._waiting: dict[bytes, Group] = {}
        self._ordered: dict[bytes, Group] = {}
        self._decided: list[Group] = []

    @property
    def are_open(self) -> bool:
        """Whether a contest waits for its second group, or for its settlement."""
        return bool(self._waiting or self._ordered or self._decided)

    def add(self, group: Group) -> None:
        """Add a group that is being compared: it waits for its second group."""
        key = group.jobs[0].group
        if key is not None:
            self._waiting[key] = group

    def add_second_group(self, contested: bytes, second: bytes) -> bytes | None:
        """Return the result that honest nodes of the second group find; None: no such contest."""
        group = self._waiting.pop(contested, None)
        if group is None:
            return None
        self._ordered[second] = group
        return group.jobs[0].result

    def note_comparison(self, group: bytes) -> None:
        """Let a member settle, where this is the second group of a contest."""
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
