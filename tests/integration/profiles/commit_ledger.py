"""The expected state of a network with commit and disclosure, by the network's own rules.

The driver of the contracts keeps this ledger without reading logs. Its events use the vocabulary
of docs/reference/events-and-jsonl.md#vocabulary.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

TIMEOUT = 900
KICKOUT_THRESHOLD = 20
UNKNOWN_SCORE = 20
POINTS = (10, 9, 6)
ERROR = b"error"

Line = dict[str, Any]


class At(NamedTuple):
    """The position and time of a transaction."""

    block: int
    tx: int
    time: int


@dataclass
class Part:
    """The run of one node in a task, with an `At` for each action; `result` ERROR:
    an error report.
    """

    node: str
    round: int
    started: At
    committed: At | None = None
    disclosed: At | None = None
    reported: At | None = None
    result: bytes | None = None
    ending: str | None = None


@dataclass
class Job:
    """A task; `parts` is empty while it waits."""

    number: int
    creator: str
    fee: int
    parts: list[Part] = field(default_factory=list)
    commits: list[Part] = field(default_factory=list)
    disclosures: list[Part] = field(default_factory=list)
    is_aborted: bool = False
    winner: Part | None = None
    ending: str | None = None

    @property
    def errors(self) -> int:
        return sum(part.result == ERROR for part in self.parts)

    @property
    def open_parts(self) -> list[Part]:
        return [part for part in self.parts if part.ending is None]

    def points(self, part: Part) -> int:
        """Return the points of the contract for the order of commitment and of disclosure."""
        if part not in self.disclosures:
            return 0
        return POINTS[self.disclosures.index(part)] + POINTS[self.commits.index(part)]

    def compensation(self, part: Part) -> int:
        """Return the points of the contract after the time limit."""
        if len(self.commits) == 3:
            return self.points(part)
        if not self.commits:
            return 2 * POINTS[part.round]
        return 2 * POINTS[self.commits.index(part)] if part in self.commits else 0

    def keeps_waiting(self, part: Part) -> bool:
        """Return whether the other nodes wait for this one, so that it is to blame.

        See docs/explanation/crynux.md#commit-and-disclose-contracts.
        """
        if len(self.commits) < 3:
            return part not in self.commits
        return part not in self.disclosures or part is self.winner


@dataclass
class Member:
    """A node: `status` as in `replay`; `request` is a pause or quit that
    waits for the end of its task.
    """

    status: str = "unknown"
    gpu: str = ""
    vram: int = 0
    request: str | None = None
    job: Job | None = None
    points: list[int] = field(default_factory=lambda: [UNKNOWN_SCORE] * 3)

    @property
    def is_in(self) -> bool:
        return self.status in {"available", "busy", "paused"}


class Ledger:
    """Applies the network's rules; every action has its position on the chain."""

    def __init__(self, queue_limit: int) -> None:
        self.queue_limit = queue_limit
        self.members: dict[str, Member] = {}
        self.jobs: dict[int, Job] = {}
        self.queue: list[Job] = []
        self.available: list[str] = []
        self.lines: list[Line] = []
        self._at = At(0, 0, 0)

    def begin(self, at: At) -> None:
        """Set the transaction of the following actions."""
        self._at = at

    def emit(self, event: str, **values: Any) -> None:
        at = self._at
        place = {"block": at.block, "tx": at.tx, "log": len(self.lines), "time": at.time}
        self.lines.append({"type": event, **place, **values})

    def _say_of(self, event: str, job: Job, part: Part | None = None, **values: Any) -> None:
        node = {} if part is None else {"node": part.node}
        self.emit(event, task=key(job), **node, **values)

    # --- nodes ---

    def join(self, node: str, gpu: str, vram: int) -> None:
        member = self.members.setdefault(node, Member())
        member.gpu, member.vram = gpu, vram
        self.emit("node_joined", node=node, gpu_name=gpu, gpu_vram=vram)
        self._becomes_available(node)

    def pause(self, node: str) -> None:
        member = self.members[node]
        if member.job is not None:
            member.request = "paused"
            return
        self._takes_effect(node, "paused")

    def resume(self, node: str) -> None:
        self.emit("node_resumed", node=node)
        self._becomes_available(node)

    def quit(self, node: str) -> None:
        member = self.members[node]
        if member.job is not None:
            member.request = "quit"
            return
        self._takes_effect(node, "quit")

    def _takes_effect(self, node: str, request: str) -> None:
        self._leave(node, request)
        self.emit(f"node_{request}", node=node)

    def _becomes_available(self, node: str) -> None:
        self.members[node].status = "available"
        self.available.append(node)
        while self.queue and len(self.available) >= 3:
            # Of equal fees, the task that has waited longest.
            best = max(self.queue, key=lambda job: job.fee)
            self.queue.remove(best)
            self._start(best)

    def _leave(self, node: str, status: str) -> None:
        member = self.members[node]
        if node in self.available:
            self.available.remove(node)
        member.status, member.job, member.request = status, None, None
        if status in {"kicked_out", "slashed"}:
            member.points = [UNKNOWN_SCORE] * 3

    def _free(self, part: Part, points: int) -> None:
        """End a node's run: the node is kicked out, its request takes effect,
        or it gets the next task.
        """
        member = self.members[part.node]
        member.points = [*member.points[1:], points]
        member.job = None
        if sum(member.points) <= KICKOUT_THRESHOLD:
            self._leave(part.node, "kicked_out")
            self.emit("node_kicked_out", node=part.node)
        elif member.request is not None:
            self._takes_effect(part.node, member.request)
        else:
            self._becomes_available(part.node)

    # --- tasks ---

    def create(self, number: int, creator: str, fee: int) -> None:
        job = self.jobs[number] = Job(number, creator, fee)
        starts = len(self.available) >= 3
        if not starts:
            self._enqueue(job)
        self._say_of("task_created", job, creator=creator, kind="sd")
        if starts:
            self._start(job)

    def _enqueue(self, job: Job) -> None:
        if len(self.queue) == self.queue_limit:
            cheapest = min(self.queue, key=lambda waiting_job: waiting_job.fee)
            self.queue.remove(cheapest)
            cheapest.ending = "aborted"
            self._say_of("task_aborted", cheapest, reason="fee_too_low")
        self.queue.append(job)

    def _start(self, job: Job) -> None:
        chosen = self.available[:3]
        self.available[:] = self.available[3:]
        for place, node in enumerate(chosen):
            self.members[node].status, self.members[node].job = "busy", job
            part = Part(node, place, self._at)
            job.parts.append(part)
            self._say_of("task_started", job, part, round=place)

    def commit(self, number: int, place: int) -> None:
        job = self.jobs[number]
        part = job.parts[place]
        part.committed = self._at
        job.commits.append(part)
        self._say_of("result_committed", job, part)

    def report_error(self, number: int, place: int) -> None:
        job = self.jobs[number]
        part = job.parts[place]
        part.reported, part.result = self._at, ERROR
        job.commits.append(part)
        job.disclosures.append(part)
        self._say_of("task_error_reported", job, part)
        if job.errors == 2:
            job.is_aborted = True
            self._succeed(job, part)
            self._succeed(job, job.disclosures[0])
            for committed_part in [candidate for candidate in job.parts if candidate.committed]:
                self._slash(job, committed_part)
        elif job.errors == 3:
            self._succeed(job, part)

    def disclose(self, number: int, place: int, result: bytes) -> None:
        job = self.jobs[number]
        part = job.parts[place]
        part.disclosed, part.result = self._at, result
        job.disclosures.append(part)
        self._say_of("result_disclosed", job, part)
        same = [disclosure for disclosure in job.disclosures[:-1] if disclosure.result == result]
        if job.winner is not None:
            (self._succeed if result == job.winner.result else self._slash)(job, part)
        elif same:
            self._succeed(job, part)
            for differing_part in [
                disclosure for disclosure in job.disclosures if disclosure.result != result
            ]:
                self._slash(job, differing_part)
            job.winner = same[0]
            self._say_of("task_validated", job)
        elif len(job.disclosures) == 3:
            job.is_aborted = True
            for disclosure in job.disclosures:
                self._cancel(job, disclosure, job.points(disclosure), "aborted")

    def upload(self, number: int) -> None:
        job = self.jobs[number]
        assert job.winner is not None
        self._succeed(job, job.winner)

    def cancel(self, number: int) -> None:
        job = self.jobs[number]
        if not job.is_aborted:
            self._say_of("task_cancelled", job)
            job.is_aborted = True
        if not job.parts:
            self.queue.remove(job)
            job.ending = "aborted"
        for part in job.open_parts:
            blamed = "timed_out" if job.keeps_waiting(part) else "aborted"
            self._cancel(job, part, job.compensation(part), blamed)

    def _cancel(self, job: Job, part: Part, points: int, ending: str) -> None:
        self._ends(job, part, ending)
        self._free(part, points)
        self._say_of("task_cancelled", job, part)

    def _succeed(self, job: Job, part: Part) -> None:
        self._ends(job, part, "succeeded")
        self._free(part, job.points(part))
        self._say_of("task_succeeded", job, part)

    def _slash(self, job: Job, part: Part) -> None:
        self._ends(job, part, "invalidated")
        self._leave(part.node, "slashed")
        self.emit("node_slashed", node=part.node)
        self._say_of("task_invalidated", job, part)

    @staticmethod
    def _ends(job: Job, part: Part, ending: str) -> None:
        part.ending = ending
        if not job.open_parts:
            job.ending = ending


def key(job: Job) -> str:
    """Return the task's key: its number as 32 bytes."""
    return f"0x{job.number:064x}"
