"""Generates the history of a relay, with single tasks and groups of three.

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
    build_aborted_row,
    build_kickout_row,
    build_node_row,
    build_task_row,
    hash_result,
)
from devnet.relay.relay_figures import RANK_SCORES, RelayBooks
from devnet.relay.relay_history import RelayHistory, TimedRow
from devnet.relay.relay_jobs import GroupOutcome, RelayGroup, RelayTask, decide_outcomes
from devnet.relay.relay_nodes import HONEST, RELAY_NODES, RelayLies, RelayNode
from oracle.domain.ids import Address, TaskKey

_NETWORK = "crynux-on-base"
_CREATOR = Address("0x" + "c0" * 20)
_TASK_TIMEOUT_SECONDS = 80.0
_UPLOAD_TIMEOUT_SECONDS = 120.0
# No creator validates a group that cannot be closed, so such a group times out.
_VALIDATION_TIMEOUT_SECONDS = 600.0
_CANCELLED_AFTER_SECONDS = 4.0
_GROUP_SIZE = 3


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    """The traffic to generate in `seconds` seconds from `start` (relay seconds).

    An order is placed every `gap_seconds` on average; `group_share` is the share of orders that
    are groups of three. `time_scale` multiplies all durations, including the gaps between orders.
    A node that is not in `address_by_name` gets an address derived from its name. If `slashes` is
    set, a node with a wrong result is slashed at once. `cancelled_share` is the share of groups in
    which the creator cancels one queued member.
    """

    seed: int = 1
    start: int = 1_790_000_000
    seconds: int = 7200
    gap_seconds: float = 8.0
    group_share: float = 0.3
    relay_nodes: Sequence[RelayNode] = RELAY_NODES
    lies: RelayLies = HONEST
    slashes: bool = False
    cancelled_share: float = 0.0
    time_scale: float = 1.0
    address_by_name: Mapping[str, Address] = field(default_factory=dict)


def generate_history(plan: TrafficPlan) -> RelayHistory:
    """Generate a history.

    The same plan produces the same rows, figures and lies.
    """
    simulation = _TrafficSimulation(plan)
    simulation.run()
    return RelayHistory(
        tuple(simulation.rows), simulation.books.state_history_by_node, simulation.node_by_address
    )


def derive_node_address(name: str) -> Address:
    """Derive the address of a demo node from its name."""
    return Address("0x" + hashlib.sha256(f"relay node {name}".encode()).hexdigest()[:40])


class _TrafficSimulation:
    def __init__(self, plan: TrafficPlan) -> None:
        # These numbers are not secret; the seed makes a simulation repeatable.
        self._random = random.Random(plan.seed)  # noqa: S311
        self._plan = plan
        self._scheduled: list[tuple[float, int, Callable[[], None]]] = []
        self._now = float(plan.start)
        self._counters = dict.fromkeys(("task", "entry", "group", "zero", "timeout", "end"), 0)
        self.node_by_address: dict[Address, RelayNode] = {
            plan.address_by_name.get(node.name, derive_node_address(node.name)): node
            for node in plan.relay_nodes
        }
        self._idle_nodes: list[Address] = []
        self.books = RelayBooks()
        self.rows: list[TimedRow] = []

    def run(self) -> None:
        """Let all nodes join, order tasks until the time is over, and end running tasks."""
        for node_index, node in enumerate(self.node_by_address):
            self._schedule(
                2.0 * node_index + self._random.random(), partial(self._join_node, node)
            )
        self._schedule(2.0 * len(self.node_by_address), self._order_tasks)
        if self._plan.lies.restart_at:
            restart_delay = self._plan.lies.restart_at - self._plan.start
            self._schedule(
                restart_delay / self._plan.time_scale,
                lambda: self.books.reset_pools_to_mean(self._now),
            )
        while self._scheduled:
            self._now, _, action = heappop(self._scheduled)
            action()

    # --- the schedule and the rows ---

    def _schedule(self, seconds: float, action: Callable[[], None]) -> None:
        heappush(
            self._scheduled,
            (
                self._now + seconds * self._plan.time_scale,
                self._increment_counter("entry"),
                action,
            ),
        )

    def _increment_counter(self, counter: str) -> int:
        self._counters[counter] += 1
        return self._counters[counter]

    def _commit_rows(self, *bodies: RowBody) -> None:
        """Commit rows in one transaction.

        They get consecutive ids and the same time.
        """
        for body in bodies:
            self.rows.append(TimedRow(self._now, body.with_id(len(self.rows) + 1)))

    # --- nodes ---

    def _join_node(self, node: Address) -> None:
        stake = self.node_by_address[node].stake
        self.books.record_join(node, self._now, stake)
        self._commit_rows(
            build_node_row("NodeJoin", node, _NETWORK),
            build_node_row("NodeStaking", node, _NETWORK, staking_amount=str(stake)),
        )
        self._idle_nodes.append(node)

    def _finish_task(self, task: RelayTask) -> list[RowBody]:
        """Release the node of a task that ended.

        If a kickout is due, its rows are returned.
        """
        task.has_ended = True
        is_early_kick = self._increment_counter("end") == self._plan.lies.early_kick
        if not (self.books.state_history_by_node[task.node].is_due or is_early_kick):
            self._idle_nodes.append(task.node)
            return []
        self.books.record_leave(task.node, self._now)
        quit_row = build_node_row("NodeQuit", task.node, _NETWORK, blockchain_transaction_id=1)
        return [quit_row, build_kickout_row(task.node, task.task_key, _NETWORK)]

    # --- tasks ---

    def _order_tasks(self) -> None:
        if self._now > self._plan.start + self._plan.seconds:
            return
        self._schedule(self._random.expovariate(1 / self._plan.gap_seconds), self._order_tasks)
        available_nodes = [
            node
            for node in self._idle_nodes
            if not self.books.get_state(node, self._now).is_excluded_at(self._now)
        ]
        task_count = _GROUP_SIZE if self._random.random() < self._plan.group_share else 1
        if len(available_nodes) < task_count:
            return
        nodes = self._random.sample(sorted(available_nodes), task_count)
        cancelled_share = self._plan.cancelled_share if task_count == _GROUP_SIZE else 0.0
        is_cancelled = cancelled_share > 0 and self._random.random() < cancelled_share
        running_nodes = nodes[1:] if is_cancelled else nodes
        tasks = [self._start_task(node) for node in running_nodes]
        if task_count == _GROUP_SIZE:
            group = RelayGroup(tasks, queued_count=int(is_cancelled))
            for task in tasks:
                task.group = group
            if is_cancelled:
                self._schedule(_CANCELLED_AFTER_SECONDS, lambda: self._cancel_queued_member(group))

    def _cancel_queued_member(self, group: RelayGroup) -> None:
        group.queued_count = 0
        self._commit_rows(
            build_aborted_row(
                self._create_task_key(), _CREATOR, TaskState.QUEUED, AbortCode.CANCELLED
            )
        )
        self._schedule_group_end_if_complete(group)

    def _create_task_key(self) -> TaskKey:
        seed_text = f"task {self._plan.seed} {self._increment_counter('task')}"
        return TaskKey("0x" + hashlib.sha256(seed_text.encode()).hexdigest())

    def _start_task(self, node: Address) -> RelayTask:
        self._idle_nodes.remove(node)
        task = RelayTask(self._create_task_key(), node, self._now)
        self._commit_rows(build_task_row("TaskStarted", task.task_key, node))
        role = self.node_by_address[node]
        task.is_silent = self._random.random() < role.silent_chance
        if task.is_silent:
            self._schedule(_TASK_TIMEOUT_SECONDS, lambda: self._time_out_task(task))
        else:
            seconds = min(
                role.mean_seconds * self._random.uniform(0.8, 1.2), _TASK_TIMEOUT_SECONDS - 5
            )
            self._schedule(seconds, lambda: self._answer_task(task))
        return task

    def _answer_task(self, task: RelayTask) -> None:
        role = self.node_by_address[task.node]
        task.elapsed_seconds = self._now - task.started_at
        is_error = self._random.random() < role.error_chance
        task.is_error = is_error
        is_wrong = self._random.random() < role.wrong_chance
        task.result = "error" if task.is_error else hash_result(task.task_key)
        if task.group is not None and not task.is_error and not is_wrong:
            task.result = hash_result(f"right of {task.group.tasks[0].task_key}")
        if task.is_error:
            self._commit_rows(
                build_task_row("TaskErrorReported", task.task_key, task.node, task_error=1)
            )
        else:
            self._commit_rows(
                build_task_row("TaskScoreReady", task.task_key, task.node, score=task.result)
            )
        if task.group is None:
            self._schedule(1.0, lambda: self._validate_task(task))
        else:
            self._schedule_group_end_if_complete(task.group)

    def _time_out_task(self, task: RelayTask) -> None:
        is_free = self._increment_counter("timeout") == self._plan.lies.free_timeout
        if not is_free:
            self.books.record_timeout(task.node, self._now)
        aborted_row = build_aborted_row(
            task.task_key, _CREATOR, TaskState.STARTED, AbortCode.TIMEOUT
        )
        self._commit_rows(*self._finish_task(task), aborted_row)
        if task.group is not None:
            self._schedule_group_end_if_complete(task.group)

    def _validate_task(self, task: RelayTask) -> None:
        if task.is_error:
            kickout_rows = self._finish_task(task)
            abort_code = AbortCode.ERROR_REPORTED
            self._commit_rows(
                *kickout_rows,
                build_aborted_row(task.task_key, _CREATOR, TaskState.ERROR_REPORTED, abort_code),
            )
            return
        self._commit_rows(build_task_row("TaskValidated", task.task_key, task.node))
        self._schedule_result_upload(task, "TaskEndSuccess", TaskState.VALIDATED)

    def _schedule_result_upload(self, task: RelayTask, row_type: str, state: TaskState) -> None:
        if self._random.random() < self.node_by_address[task.node].missed_upload_chance:
            self._schedule(_UPLOAD_TIMEOUT_SECONDS, lambda: self._time_out_upload(task, state))
        else:
            self._schedule(2.0, lambda: self._complete_task(task, row_type))

    def _complete_task(self, task: RelayTask, row_type: str) -> None:
        self.books.record_success(task.node, self._now)
        self._commit_rows(
            *self._finish_task(task), build_task_row(row_type, task.task_key, task.node)
        )

    def _time_out_upload(self, task: RelayTask, state: TaskState) -> None:
        self.books.record_timeout(task.node, self._now)
        aborted_row = build_aborted_row(
            task.task_key, _CREATOR, state, AbortCode.RESULT_UPLOAD_TIMEOUT
        )
        self._commit_rows(*self._finish_task(task), aborted_row)

    # --- groups ---

    def _schedule_group_end_if_complete(self, group: RelayGroup) -> None:
        if group.is_complete:
            self._schedule(1.0, lambda: self._end_group(group))

    def _end_group(self, group: RelayGroup) -> None:
        answered_tasks = group.list_answered_tasks_by_speed()
        outcomes = decide_outcomes(answered_tasks) if answered_tasks else None
        if outcomes is None:
            for task in answered_tasks:
                abort_code = AbortCode.CREATOR_VALIDATION_TIMEOUT
                self._schedule(
                    _VALIDATION_TIMEOUT_SECONDS,
                    partial(self._abort_answered_task, task, abort_code),
                )
            return
        self._score_group(group, answered_tasks, outcomes)
        for task, outcome in zip(answered_tasks, outcomes, strict=True):
            self._end_group_member(task, outcome)

    def _end_group_member(self, task: RelayTask, outcome: GroupOutcome) -> None:
        if outcome is GroupOutcome.VALIDATED:
            self._commit_rows(build_task_row("TaskValidated", task.task_key, task.node))
            self._schedule_result_upload(task, "TaskEndGroupSuccess", TaskState.GROUP_VALIDATED)
        elif outcome is GroupOutcome.REFUND:
            self.books.record_success(task.node, self._now)
            self._commit_rows(
                *self._finish_task(task),
                build_task_row("TaskEndGroupRefund", task.task_key, task.node),
            )
        elif outcome is GroupOutcome.INVALIDATED:
            self._invalidate_task(task)
        else:
            self._abort_answered_task(task, _ABORT_CODE_BY_OUTCOME[outcome])

    def _abort_answered_task(self, task: RelayTask, abort_code: AbortCode) -> None:
        """Abort an answered task, so that its node earns nothing."""
        kickout_rows = self._finish_task(task)
        self._commit_rows(
            *kickout_rows,
            build_aborted_row(task.task_key, _CREATOR, task.answered_state, abort_code),
        )

    def _invalidate_task(self, task: RelayTask) -> None:
        invalidated_row = build_task_row("TaskEndInvalidated", task.task_key, task.node)
        if not self._plan.slashes:
            self._commit_rows(invalidated_row, *self._finish_task(task))
            return
        task.has_ended = True
        stake = self.books.get_state(task.node, self._now).stake
        self.books.record_leave(task.node, self._now)
        quit_row = build_node_row("NodeQuit", task.node, _NETWORK, blockchain_transaction_id=1)
        slashed_row = build_node_row("NodeSlashed", task.node, _NETWORK, amount=str(stake))
        self._commit_rows(invalidated_row, quit_row, slashed_row)

    def _score_group(
        self,
        group: RelayGroup,
        answered_tasks: Sequence[RelayTask],
        outcomes: Sequence[GroupOutcome],
    ) -> None:
        """Add the scores of a group's tasks to the books, except those of wrong results."""
        scores = list(RANK_SCORES[: len(answered_tasks)])
        if self._increment_counter("group") == self._plan.lies.swapped_group and len(scores) > 1:
            scores[:2] = reversed(scores[:2])
        for task, score, outcome in zip(answered_tasks, scores, outcomes, strict=True):
            if outcome is not GroupOutcome.INVALIDATED:
                self.books.add_score(task.node, self._now, score)
        for task in group.tasks:
            if (
                task.elapsed_seconds is None
                and self._increment_counter("zero") != self._plan.lies.forgotten_zero
            ):
                self.books.add_score(task.node, self._now, 0)


_ABORT_CODE_BY_OUTCOME = {
    GroupOutcome.INCORRECT: AbortCode.INCORRECT_RESULT,
    GroupOutcome.GROUP_TIMEOUT: AbortCode.GROUP_TIMEOUT,
}
