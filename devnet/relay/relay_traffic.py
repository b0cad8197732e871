"""Generates a relay's history: single tasks and groups of three, in the relay's order of rows.

Rows that the relay commits in one transaction are committed together here, in the same order
(docs/reference/crynux-relay.md#order-inside-one-transaction).
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

from devnet.relay.published_rows import (
    AbortCode,
    RowBody,
    TaskState,
    aborted,
    kicked_out,
    of_node,
    of_task,
    score_of,
)
from devnet.relay.relay_cast import CAST, HONEST, RelayLies, RelayNode
from devnet.relay.relay_figures import RANK_SCORES, RelayFigures
from devnet.relay.relay_history import RelayHistory, TimedRow
from devnet.relay.relay_jobs import GroupEnd, RelayGroup, RelayTask, group_ends
from oracle.domain.ids import Address, TaskKey

_NETWORK = "crynux-on-base"
_CREATOR = Address("0x" + "c0" * 20)
_LIMIT_SECONDS = 80.0
_UPLOAD_LIMIT_SECONDS = 120.0
# A creator does not validate a group that cannot be closed.
_VALIDATION_LIMIT_SECONDS = 600.0
_CANCELLED_AFTER_SECONDS = 4.0
_GROUP = 3


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    """The traffic to generate: from `start`, in relay seconds, for `seconds` seconds.

    A task is ordered every `gap_seconds` on average; `group_share` of them are groups of three.
    `time_scale` multiplies all durations of the cast, orders included. `address_by_name` gives
    addresses by name; other nodes get an address of their own. `slashes`: a wrong result is
    slashed at once. `cancelled_share` of the groups lose a member that their creator cancels in
    the queue.
    """

    seed: int = 1
    start: int = 1_790_000_000
    seconds: int = 7200
    gap_seconds: float = 8.0
    group_share: float = 0.3
    cast: Sequence[RelayNode] = CAST
    lies: RelayLies = HONEST
    slashes: bool = False
    cancelled_share: float = 0.0
    time_scale: float = 1.0
    at: Mapping[str, Address] = field(default_factory=dict)


def generated(plan: TrafficPlan) -> RelayHistory:
    """Generate a history; the same plan gives the same rows, figures and lies."""
    play = _Play(plan)
    play.run()
    return RelayHistory(tuple(play.rows), play.figures.books, play.cast)


def address_of(name: str) -> Address:
    """Return the address of a cast member, derived from the name."""
    return Address("0x" + hashlib.sha256(f"relay node {name}".encode()).hexdigest()[:40])


class _Play:
    def __init__(self, plan: TrafficPlan) -> None:
        # Not for secrets: the simulation must be repeatable.
        self._chance = random.Random(plan.seed)  # noqa: S311
        self._plan = plan
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._now = float(plan.start)
        self._counted = dict.fromkeys(("task", "entry", "group", "zero", "timeout", "end"), 0)
        self.cast: dict[Address, RelayNode] = {
            plan.at.get(one.name, address_of(one.name)): one for one in plan.cast
        }
        self._idle: list[Address] = []
        self.figures = RelayFigures()
        self.rows: list[TimedRow] = []

    def run(self) -> None:
        """Let all nodes join, then order tasks until the time is over; running tasks are ended."""
        for place, node in enumerate(self.cast):
            self._after(2.0 * place + self._chance.random(), partial(self._join, node))
        self._after(2.0 * len(self.cast), self._order)
        if self._plan.lies.restart_at:
            at = self._plan.lies.restart_at - self._plan.start
            self._after(at / self._plan.time_scale, lambda: self.figures.restart(self._now))
        while self._due:
            self._now, _, deed = heappop(self._due)
            deed()

    # --- the frame ---

    def _after(self, seconds: float, deed: Callable[[], None]) -> None:
        heappush(
            self._due, (self._now + seconds * self._plan.time_scale, self._next("entry"), deed)
        )

    def _next(self, counter: str) -> int:
        self._counted[counter] += 1
        return self._counted[counter]

    def _say(self, *bodies: RowBody) -> None:
        """Commit rows in one transaction: consecutive ids, one time."""
        for body in bodies:
            self.rows.append(TimedRow(self._now, body.numbered(len(self.rows) + 1)))

    # --- nodes ---

    def _join(self, node: Address) -> None:
        stake = self.cast[node].stake
        self.figures.join(node, self._now, stake)
        self._say(
            of_node("NodeJoin", node, _NETWORK),
            of_node("NodeStaking", node, _NETWORK, staking_amount=str(stake)),
        )
        self._idle.append(node)

    def _finish(self, job: RelayTask) -> list[RowBody]:
        """Release the node of a task that ends, and return the rows of a due kickout."""
        job.has_ended = True
        lied = self._next("end") == self._plan.lies.early_kick
        if not (self.figures.books[job.node].is_due or lied):
            self._idle.append(job.node)
            return []
        self.figures.leave(job.node, self._now)
        gone = of_node("NodeQuit", job.node, _NETWORK, blockchain_transaction_id=1)
        return [gone, kicked_out(job.node, job.task, _NETWORK)]

    # --- tasks ---

    def _order(self) -> None:
        if self._now > self._plan.start + self._plan.seconds:
            return
        self._after(self._chance.expovariate(1 / self._plan.gap_seconds), self._order)
        free = [
            n for n in self._idle if not self.figures.at(n, self._now).is_excluded_at(self._now)
        ]
        size = _GROUP if self._chance.random() < self._plan.group_share else 1
        if len(free) < size:
            return
        nodes = self._chance.sample(sorted(free), size)
        share = self._plan.cancelled_share if size == _GROUP else 0.0
        is_cancelled = share > 0 and self._chance.random() < share
        jobs = [self._start(node) for node in nodes[is_cancelled:]]
        if size == _GROUP:
            group = RelayGroup(jobs, queued=int(is_cancelled))
            for job in jobs:
                job.group = group
            if is_cancelled:
                self._after(_CANCELLED_AFTER_SECONDS, lambda: self._cancel_queued(group))

    def _is_excluded(self, node: Address) -> bool:
        return self.figures.at(node, self._now).is_excluded_at(self._now)

    def _cancel_queued(self, group: RelayGroup) -> None:
        group.queued = 0
        self._say(aborted(self._new_task(), _CREATOR, TaskState.QUEUED, AbortCode.CANCELLED))
        self._look_at(group)

    def _new_task(self) -> TaskKey:
        number = f"task {self._plan.seed} {self._next('task')}"
        return TaskKey("0x" + hashlib.sha256(number.encode()).hexdigest())

    def _start(self, node: Address) -> RelayTask:
        self._idle.remove(node)
        job = RelayTask(self._new_task(), node, self._now)
        self._say(of_task("TaskStarted", job.task, node))
        behaves = self.cast[node]
        job.is_silent = self._chance.random() < behaves.silent
        if job.is_silent:
            self._after(_LIMIT_SECONDS, lambda: self._time_out(job))
        else:
            seconds = min(behaves.seconds * self._chance.uniform(0.8, 1.2), _LIMIT_SECONDS - 5)
            self._after(seconds, lambda: self._answer(job))
        return job

    def _answer(self, job: RelayTask) -> None:
        behaves = self.cast[job.node]
        job.elapsed = self._now - job.started
        is_error = self._chance.random() < behaves.refuses
        job.is_error = is_error
        is_wrong = self._chance.random() < behaves.wrong
        job.said = "error" if job.is_error else score_of(job.task)
        if job.group is not None and not job.is_error and not is_wrong:
            job.said = score_of(f"right of {job.group.jobs[0].task}")
        if job.is_error:
            self._say(of_task("TaskErrorReported", job.task, job.node, task_error=1))
        else:
            self._say(of_task("TaskScoreReady", job.task, job.node, score=job.said))
        if job.group is None:
            self._after(1.0, lambda: self._validate(job))
        else:
            self._look_at(job.group)

    def _time_out(self, job: RelayTask) -> None:
        lied = self._next("timeout") == self._plan.lies.free_timeout
        if not lied:
            self.figures.penalize(job.node, self._now)
        end = aborted(job.task, _CREATOR, TaskState.STARTED, AbortCode.TIMEOUT)
        self._say(*self._finish(job), end)
        if job.group is not None:
            self._look_at(job.group)

    def _validate(self, job: RelayTask) -> None:
        if job.is_error:
            ended = self._finish(job)
            code = AbortCode.ERROR_REPORTED
            self._say(*ended, aborted(job.task, _CREATOR, TaskState.ERROR_REPORTED, code))
            return
        self._say(of_task("TaskValidated", job.task, job.node))
        self._upload(job, "TaskEndSuccess", TaskState.VALIDATED)

    def _upload(self, job: RelayTask, kind: str, state: TaskState) -> None:
        if self._chance.random() < self.cast[job.node].forgets:
            self._after(_UPLOAD_LIMIT_SECONDS, lambda: self._miss_upload(job, state))
        else:
            self._after(2.0, lambda: self._succeed(job, kind))

    def _succeed(self, job: RelayTask, kind: str) -> None:
        self.figures.boost(job.node, self._now)
        self._say(*self._finish(job), of_task(kind, job.task, job.node))

    def _miss_upload(self, job: RelayTask, state: TaskState) -> None:
        self.figures.penalize(job.node, self._now)
        end = aborted(job.task, _CREATOR, state, AbortCode.RESULT_UPLOAD_TIMEOUT)
        self._say(*self._finish(job), end)

    # --- groups ---

    def _look_at(self, group: RelayGroup) -> None:
        if group.is_complete:
            self._after(1.0, lambda: self._judge(group))

    def _judge(self, group: RelayGroup) -> None:
        finishers = group.finishers()
        ends = group_ends(finishers) if finishers else None
        if ends is None:
            for job in finishers:
                why = AbortCode.CREATOR_VALIDATION_TIMEOUT
                self._after(_VALIDATION_LIMIT_SECONDS, partial(self._give_up, job, why))
            return
        self._score(group, finishers, ends)
        for job, end in zip(finishers, ends, strict=True):
            self._end_member(job, end)

    def _end_member(self, job: RelayTask, end: GroupEnd) -> None:
        if end is GroupEnd.VALIDATED:
            self._say(of_task("TaskValidated", job.task, job.node))
            self._upload(job, "TaskEndGroupSuccess", TaskState.GROUP_VALIDATED)
        elif end is GroupEnd.REFUND:
            self.figures.boost(job.node, self._now)
            self._say(*self._finish(job), of_task("TaskEndGroupRefund", job.task, job.node))
        elif end is GroupEnd.INVALIDATED:
            self._invalidate(job)
        else:
            self._give_up(job, _ABORT_CODES[end])

    def _give_up(self, job: RelayTask, why: AbortCode) -> None:
        """Abort a task whose answer is worth nothing."""
        ended = self._finish(job)
        self._say(*ended, aborted(job.task, _CREATOR, job.answered_state, why))

    def _invalidate(self, job: RelayTask) -> None:
        end = of_task("TaskEndInvalidated", job.task, job.node)
        if not self._plan.slashes:
            self._say(end, *self._finish(job))
            return
        job.has_ended = True
        stake = self.figures.at(job.node, self._now).stake
        self.figures.leave(job.node, self._now)
        gone = of_node("NodeQuit", job.node, _NETWORK, blockchain_transaction_id=1)
        slashed = of_node("NodeSlashed", job.node, _NETWORK, amount=str(stake))
        self._say(end, gone, slashed)

    def _score(
        self, group: RelayGroup, finishers: Sequence[RelayTask], ends: Sequence[GroupEnd]
    ) -> None:
        """Add the scores to the books, except those of wrong results."""
        scores = list(RANK_SCORES[: len(finishers)])
        if self._next("group") == self._plan.lies.swapped_group and len(scores) > 1:
            scores[:2] = reversed(scores[:2])
        for job, score, end in zip(finishers, scores, ends, strict=True):
            if end is not GroupEnd.INVALIDATED:
                self.figures.score(job.node, self._now, score)
        for job in group.jobs:
            if job.elapsed is None and self._next("zero") != self._plan.lies.forgotten_zero:
                self.figures.score(job.node, self._now, 0)


_ABORT_CODES = {
    GroupEnd.INCORRECT: AbortCode.INCORRECT_RESULT,
    GroupEnd.GROUP_TIMEOUT: AbortCode.GROUP_TIMEOUT,
}
