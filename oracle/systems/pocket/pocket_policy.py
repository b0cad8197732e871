"""Pocket's two profiles as policies.

`article` is the default, and `portal_api_head` has the bugs of the original. A policy runs
Pocket's selector along a history of domain events (docs/explanation/pocket.md). The failure flag
of `portal_api_head` depends on when nodes are evaluated. The original code evaluates every node of
the session for every relay. Here, each `task_started` triggers an evaluation of every member, in
the scope of that task, just before the assignment. Computing verdicts changes nothing, so the same
events always give the same state.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from oracle.domain.events import network_events
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Membership, Node, Task
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    build_requirement,
    find_misfit_reason,
)
from oracle.systems.pocket import parameters
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import Parameters
from oracle.systems.pocket.ranking import Ranking, build_ticket_components
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from oracle.systems.policy import CandidateVerdict, PolicyInput

Terminal = (
    network_events.TaskSucceeded
    | network_events.TaskRefunded
    | network_events.TaskInvalidated
    | network_events.TaskAborted
    | network_events.TaskTimedOut
    | network_events.TaskCancelled
)
# Events that stop the clock for a node's part of a task. A disclosure follows later.
Answer = (
    network_events.TaskSubmitted
    | network_events.TaskErrorReported
    | network_events.ResultCommitted
)
# Number of ended tasks that are remembered, so that later events about them are ignored.
_MAX_ENDED_TASKS = 100_000


@dataclass(slots=True)
class Part:
    """A node's part in a task.

    A task has one part unless the network commits and discloses. `started_ms` and `answered_ms`
    are the times, in milliseconds, at which the node's execution clock started and stopped. If
    `disclosed`, no further event is expected before the node's result is accepted.
    """

    node: Address
    scope: str
    started_ms: int
    place: int | None
    answered_ms: int | None = None
    disclosed: bool = False
    ended: bool = False


@dataclass(slots=True)
class OpenTask:
    """A task that has not ended."""

    created: bool = False
    kind: network_events.TaskKind | None = None
    accepted: bool = False
    parts: list[Part] = field(default_factory=list)

    def is_waiting_for(self, part: Part) -> bool:
        """Return whether the node of this part is to blame if the task is cancelled.

        The rule is the same as in `oracle.domain.fold.task_lifecycle`.
        """
        if any(other_part.answered_ms is None for other_part in self.parts):
            return part.answered_ms is None
        return self.accepted or not part.disclosed

    def find_part(self, node: Address | None) -> Part | None:
        return next((part for part in self.parts if part.node == node), None)


def get_latency_scope(kind: network_events.TaskKind | None) -> str:
    """Return the scope in which latencies of this kind of task are compared."""
    return "any" if kind is None else kind.value


class TaskTracker:
    """Tracks tasks from creation to end, to attribute their outcomes to nodes.

    The scope of a task is its kind.
    """

    def __init__(self) -> None:
        self._open_tasks: dict[TaskKey, OpenTask] = {}
        self._ended_tasks: set[TaskKey] = set()
        self._ended_task_queue: deque[TaskKey] = deque()

    def record_creation(self, event: network_events.TaskCreated) -> None:
        """Record the kind of a task."""
        if event.task in self._ended_tasks:
            return
        task = self._open_tasks.setdefault(event.task, OpenTask())
        if task.created:
            return
        task.created, task.kind = True, event.kind

    def record_start(self, event: network_events.TaskStarted) -> str | None:
        """Record that a node started a task, and return the task's scope.

        The result is None if the start is invalid.
        """
        if event.task in self._ended_tasks:
            return None
        task = self._open_tasks.setdefault(event.task, OpenTask())
        if not _can_start(task, event):
            return None
        scope = get_latency_scope(task.kind)
        task.parts.append(Part(event.node, scope, event.timestamp_ms, event.round))
        return scope

    def record_answer(self, event: Answer) -> None:
        """Stop the clock of a part when its node submits, commits or reports an error."""
        task = self._open_tasks.get(event.task)
        part = None if task is None else task.find_part(event.node)
        if part is None or part.ended or part.answered_ms is not None:
            return
        is_single_node = part.place is None
        is_submission = isinstance(event, network_events.TaskSubmitted)
        if isinstance(event, network_events.TaskErrorReported) or is_single_node == is_submission:
            part.answered_ms = event.timestamp_ms
            part.disclosed = isinstance(event, network_events.TaskErrorReported)

    def record_disclosure(self, event: network_events.ResultDisclosed) -> None:
        """Record that a part has disclosed its committed result."""
        task = self._open_tasks.get(event.task)
        part = None if task is None else task.find_part(event.node)
        if part is not None and not part.ended and part.answered_ms is not None:
            part.disclosed = True

    def record_acceptance(self, event: network_events.TaskValidated) -> None:
        """Record that a result was accepted, so that its node has to upload it next."""
        task = self._open_tasks.get(event.task)
        if task is not None and any(part.disclosed for part in task.parts):
            task.accepted = True

    def record_ending(self, event: Terminal) -> list[RelayOutcome]:
        """End the parts to which a terminal event applies, and return their outcomes."""
        task = self._open_tasks.get(event.task)
        if task is None or not task.parts:
            # A task that was never started can legally end only by an abort.
            if _ends_unstarted_task(event) and event.task not in self._ended_tasks:
                self._close_task(event.task)
            return []
        ending_parts = [
            part for part in task.parts if not part.ended and _is_part_ended(part, event)
        ]
        for part in ending_parts:
            part.ended = True
        if all(part.ended for part in task.parts):
            self._close_task(event.task)
        return [_build_outcome(task, part, event) for part in ending_parts]

    def _close_task(self, key: TaskKey) -> None:
        self._open_tasks.pop(key, None)
        self._ended_tasks.add(key)
        self._ended_task_queue.append(key)
        if len(self._ended_task_queue) > _MAX_ENDED_TASKS:
            self._ended_tasks.discard(self._ended_task_queue.popleft())


def _can_start(task: OpenTask, event: network_events.TaskStarted) -> bool:
    if not task.parts:
        return True
    is_single_node = event.round is None or task.parts[0].place is None
    is_taken = any(part.place == event.round or part.node == event.node for part in task.parts)
    return not is_single_node and not is_taken


def _ends_unstarted_task(event: Terminal) -> bool:
    if isinstance(event, network_events.TaskCancelled):
        return event.node is None
    return isinstance(event, network_events.TaskAborted)


def _is_part_ended(part: Part, event: Terminal) -> bool:
    """Return whether a terminal event ends this part.

    The node that the event names is ignored if the task has only one part.
    """
    if isinstance(event, network_events.TaskCancelled):
        return part.place is not None and event.node == part.node
    return part.place is None or event.node in (None, part.node)


def _build_outcome(task: OpenTask, part: Part, event: Terminal) -> RelayOutcome:
    """Build the outcome of a part.

    It is a timeout if the node is to blame.
    """
    stopped_ms = event.timestamp_ms if part.answered_ms is None else part.answered_ms
    has_succeeded = isinstance(event, network_events.TaskSucceeded | network_events.TaskRefunded)
    is_fault = isinstance(event, network_events.TaskInvalidated | network_events.TaskTimedOut)
    if isinstance(event, network_events.TaskCancelled):
        # This part does not have to be marked as ended yet, because only answers are compared.
        is_fault = task.is_waiting_for(part)
    kind = OutcomeKind.TIMEOUT if is_fault else OutcomeKind.CANCELLED
    latency_ms = 0
    if has_succeeded:
        kind = OutcomeKind.OK
        latency_ms = max(0, stopped_ms - part.started_ms)
    return RelayOutcome(part.node, part.scope, event.timestamp_ms, kind, latency_ms)


class StakeIneligibility(StrEnum):
    """The reason why a member's stake keeps it from being a candidate.

    See docs/explanation/pocket.md#stake-and-height.
    """

    # The node's stake is unknown.
    UNKNOWN = "stake_unknown"
    NONE = "not_staked"


class PocketEvaluator:
    """The `CandidateEvaluator` of both Pocket policies.

    The memory that it takes grows with the numbers of nodes, scopes and open tasks, and not with
    the length of the history.
    """

    def __init__(self, params: Parameters) -> None:
        self.selector = NodeSelector(params)
        self._tasks = TaskTracker()
        self._members: set[Address] = set()
        self._handlers: dict[type[DomainEvent], Callable[[Any], None]] = {
            network_events.NodeJoined: self._handle_join,
            network_events.NodeQuit: self._handle_leave,
            network_events.NodeQuitAsked: self._handle_leave,
            network_events.NodeSlashed: self._handle_leave,
            network_events.NodeKickedOut: self._handle_leave,
            network_events.TaskCreated: self._tasks.record_creation,
            network_events.TaskStarted: self._handle_start,
            network_events.TaskSubmitted: self._tasks.record_answer,
            network_events.TaskErrorReported: self._tasks.record_answer,
            network_events.ResultCommitted: self._tasks.record_answer,
            network_events.ResultDisclosed: self._tasks.record_disclosure,
            network_events.TaskValidated: self._tasks.record_acceptance,
            network_events.TaskSucceeded: self._handle_ending,
            network_events.TaskRefunded: self._handle_ending,
            network_events.TaskInvalidated: self._handle_ending,
            network_events.TaskAborted: self._handle_ending,
            network_events.TaskTimedOut: self._handle_ending,
            network_events.TaskCancelled: self._handle_ending,
        }

    def apply_event(self, event: DomainEvent) -> None:
        """Apply an event.

        An event that breaks a rule changes nothing. See
        docs/reference/events-and-jsonl.md#what-is-legal.
        """
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def evaluate_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member for this task, sorted by address."""
        ranking = self.rank_candidates(task, policy_input)
        verdicts = [
            CandidateVerdict(row.node, row.chances, None, build_ticket_components(row))
            for row in ranking.rows
        ]
        verdicts += [
            CandidateVerdict(address, None, reason) for address, reason in ranking.left_out.items()
        ]
        return sorted(verdicts, key=lambda verdict: verdict.node)

    def rank_candidates(self, task: Task, policy_input: PolicyInput) -> Ranking:
        """Rank the members that could get the task.

        Members of equal rank are sorted by address. All other members are left out, each with the
        reason.
        """
        members = sorted(
            address
            for address, node in policy_input.nodes.items()
            if node.membership is Membership.MEMBER
        )
        reason_by_omitted_node = {}
        for address in members:
            reason = self.find_ineligibility_reason(
                policy_input.nodes[address], task, policy_input
            )
            if reason is not None:
                reason_by_omitted_node[address] = reason.value
        now_ms = policy_input.time * 1000
        return self.selector.rank_nodes(
            get_latency_scope(task.kind), members, now_ms, reason_by_omitted_node
        )

    def find_ineligibility_reason(
        self, node: Node, task: Task, policy_input: PolicyInput
    ) -> IneligibilityReason | StakeIneligibility | None:
        """Return why a member cannot get the task, or None if it can."""
        if node.paused:
            return IneligibilityReason.PAUSED
        if node.running:
            return IneligibilityReason.BUSY
        if node.address in policy_input.reserved:
            return IneligibilityReason.TAKEN
        if self.selector.params.needs_stake and not node.stake:
            return StakeIneligibility.UNKNOWN if node.stake is None else StakeIneligibility.NONE
        return find_misfit_reason(node, build_requirement(task))

    def _handle_join(self, event: network_events.NodeJoined) -> None:
        """Clear the history of a joining node in every scope."""
        if event.node in self._members:
            return
        self._members.add(event.node)
        self.selector.reset_node(event.node)

    def _handle_leave(
        self,
        event: network_events.NodeQuit
        | network_events.NodeQuitAsked
        | network_events.NodeSlashed
        | network_events.NodeKickedOut,
    ) -> None:
        """Remove a member that has left or asked to quit.

        A member that asked to quit gets no more tasks.
        """
        self._members.discard(event.node)

    def _handle_start(self, event: network_events.TaskStarted) -> None:
        scope = self._tasks.record_start(event)
        if scope is not None:
            self.selector.update_failure_flags(scope, self._members, event.timestamp_ms)

    def _handle_ending(
        self,
        event: network_events.TaskSucceeded
        | network_events.TaskRefunded
        | network_events.TaskInvalidated
        | network_events.TaskAborted
        | network_events.TaskTimedOut
        | network_events.TaskCancelled,
    ) -> None:
        for outcome in self._tasks.record_ending(event):
            self.selector.record_outcome(outcome)


@dataclass(frozen=True, slots=True)
class PocketPolicy:
    """A selection policy of Pocket.

    It compares latencies only within one kind of task.
    """

    name: str
    version: int
    params: Parameters

    def create_evaluator(self) -> PocketEvaluator:
        """Create an evaluator that has received no event yet."""
        return PocketEvaluator(self.params)


ARTICLE = PocketPolicy("article", 2, parameters.ARTICLE)
PORTAL_API_HEAD = PocketPolicy("portal_api_head", 1, parameters.PORTAL_API_HEAD)
