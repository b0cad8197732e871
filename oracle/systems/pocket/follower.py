"""Pocket's selector along a history of our events (docs/explanation/pocket.md).

The failure flag of `portal_api_head` depends on when nodes are looked at. Upstream looks at every
node of the session for every relay; here an evaluation happens at each `task_started`, of every
member, in the scope of that task, just before the assignment. Asking for verdicts is reading: it
changes nothing, so that the same events give the same state however often somebody asks.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from oracle.domain.events import network_events as said
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.requirements import Out, misfit_reason, requirement_of
from oracle.systems.pocket.explain_row import parts_of
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import Parameters
from oracle.systems.pocket.ranking import Ranking
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from oracle.systems.policy import CandidateVerdict, PolicyInput

Terminal = (
    said.TaskSucceeded
    | said.TaskRefunded
    | said.TaskInvalidated
    | said.TaskAborted
    | said.TaskTimedOut
    | said.TaskCancelled
)
# What stops a part's clock; a disclosure comes after it.
Answer = said.TaskSubmitted | said.TaskErrorReported | said.ResultCommitted
# Ended tasks that are remembered, so that nothing is made of what a chain says of them later.
_MOST_ENDED = 100_000


@dataclass(slots=True)
class Part:
    """One node's part in a task; the only one, unless the network commits and discloses.

    `started`, `answered`: when its execution clock started and stopped, in milliseconds.
    `disclosed`: nothing more is wanted of it before its result is accepted.
    """

    node: Address
    scope: str
    started: int
    place: int | None
    answered: int | None = None
    disclosed: bool = False
    ended: bool = False


@dataclass(slots=True)
class OpenTask:
    """A task that has not ended."""

    created: bool = False
    kind: said.TaskKind | None = None
    accepted: bool = False
    parts: list[Part] = field(default_factory=list)

    def waits_for(self, part: Part) -> bool:
        """Tell whether a cancellation blames this part (`oracle.domain.fold.task_lifecycle`)."""
        if any(one.answered is None for one in self.parts):
            return part.answered is None
        return self.accepted or not part.disclosed

    def part_of(self, node: Address | None) -> Part | None:
        """Return the part that the node has in it."""
        return next((part for part in self.parts if part.node == node), None)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a part ended; `took_ms` None: it failed. `is_fault` False: nobody's fault."""

    node: Address
    scope: str
    took_ms: int | None
    is_fault: bool


def scope_of(kind: said.TaskKind | None) -> str:
    """Return the scope of work of that kind."""
    return "any" if kind is None else kind.value


class Attribution:
    """Follows tasks from creation to end. The scope of a task is its kind."""

    def __init__(self) -> None:
        self._open: dict[TaskKey, OpenTask] = {}
        self._ended: set[TaskKey] = set()
        self._ended_in_order: deque[TaskKey] = deque()

    def created(self, event: said.TaskCreated) -> None:
        """Remember what a task asks for."""
        if event.task in self._ended:
            return
        task = self._open.setdefault(event.task, OpenTask())
        if task.created:
            return
        task.created, task.kind = True, event.kind

    def started(self, event: said.TaskStarted) -> str | None:
        """Return the scope in which a node has got a task; None: it has not."""
        if event.task in self._ended:
            return None
        task = self._open.setdefault(event.task, OpenTask())
        if not _may_start(task, event):
            return None
        scope = scope_of(task.kind)
        task.parts.append(Part(event.node, scope, event.ms, event.round))
        return scope

    def answered(self, event: Answer) -> None:
        """Stop a part's clock: at the submission, the commitment or the error report."""
        task = self._open.get(event.task)
        part = None if task is None else task.part_of(event.node)
        if part is None or part.ended or part.answered is not None:
            return
        alone = part.place is None
        if isinstance(event, said.TaskErrorReported) or alone == _is_submission(event):
            part.answered = event.ms
            part.disclosed = isinstance(event, said.TaskErrorReported)

    def disclosed(self, event: said.ResultDisclosed) -> None:
        """Note that a part has disclosed what it committed to."""
        task = self._open.get(event.task)
        part = None if task is None else task.part_of(event.node)
        if part is not None and not part.ended and part.answered is not None:
            part.disclosed = True

    def accepted(self, event: said.TaskValidated) -> None:
        """Note that a result was accepted, which its node now has to bring."""
        task = self._open.get(event.task)
        if task is not None and any(part.disclosed for part in task.parts):
            task.accepted = True

    def ended(self, event: Terminal) -> list[TaskOutcome]:
        """Return how the parts ended that this terminal ends."""
        task = self._open.get(event.task)
        if task is None or not task.parts:
            # Only an abort is legal for a task that nobody has started.
            if _is_of_nobody(event) and event.task not in self._ended:
                self._close(event.task)
            return []
        ending = [part for part in task.parts if not part.ended and _is_meant(part, event)]
        for part in ending:
            part.ended = True
        if all(part.ended for part in task.parts):
            self._close(event.task)
        return [_outcome(task, part, event) for part in ending]

    def _close(self, key: TaskKey) -> None:
        self._open.pop(key, None)
        self._ended.add(key)
        self._ended_in_order.append(key)
        if len(self._ended_in_order) > _MOST_ENDED:
            self._ended.discard(self._ended_in_order.popleft())


def _may_start(task: OpenTask, event: said.TaskStarted) -> bool:
    if not task.parts:
        return True
    alone = event.round is None or task.parts[0].place is None
    taken = any(part.place == event.round or part.node == event.node for part in task.parts)
    return not alone and not taken


def _is_submission(event: Answer) -> bool:
    return isinstance(event, said.TaskSubmitted)


def _is_of_nobody(event: Terminal) -> bool:
    if isinstance(event, said.TaskCancelled):
        return event.node is None
    return isinstance(event, said.TaskAborted)


def _is_meant(part: Part, event: Terminal) -> bool:
    """What a terminal says of the node of a task of one part is information only."""
    if isinstance(event, said.TaskCancelled):
        return part.place is not None and event.node == part.node
    return part.place is None or event.node in (None, part.node)


def _outcome(task: OpenTask, part: Part, event: Terminal) -> TaskOutcome:
    stopped = event.ms if part.answered is None else part.answered
    well = isinstance(event, said.TaskSucceeded | said.TaskRefunded)
    fault = isinstance(event, said.TaskInvalidated | said.TaskTimedOut)
    if isinstance(event, said.TaskCancelled):
        # Its own end is not looked at: all answers that count came before.
        fault = task.waits_for(part)
    took_ms = max(0, stopped - part.started) if well else None
    return TaskOutcome(part.node, part.scope, took_ms, fault)


class StakeOut(StrEnum):
    """Why a member is no candidate for its stake alone.

    See docs/explanation/pocket.md#stake-and-height.
    """

    # The chain never said what it has staked.
    UNKNOWN = "stake_unknown"
    NONE = "not_staked"


class PocketFollower:
    """Satisfies `Follower`.

    Its memory grows with nodes, scopes and open tasks, not with the length of the history.
    """

    def __init__(self, params: Parameters) -> None:
        self.selector = NodeSelector(params)
        self._tasks = Attribution()
        self._members: set[Address] = set()
        self._deeds: dict[type[DomainEvent], Callable[[Any], None]] = {
            said.NodeJoined: self._joined,
            said.NodeQuit: self._left,
            said.NodeQuitAsked: self._left,
            said.NodeSlashed: self._left,
            said.NodeKickedOut: self._left,
            said.TaskCreated: self._tasks.created,
            said.TaskStarted: self._started,
            said.TaskSubmitted: self._tasks.answered,
            said.TaskErrorReported: self._tasks.answered,
            said.ResultCommitted: self._tasks.answered,
            said.ResultDisclosed: self._tasks.disclosed,
            said.TaskValidated: self._tasks.accepted,
            said.TaskSucceeded: self._ended,
            said.TaskRefunded: self._ended,
            said.TaskInvalidated: self._ended,
            said.TaskAborted: self._ended,
            said.TaskTimedOut: self._ended,
            said.TaskCancelled: self._ended,
        }

    def take(self, event: DomainEvent) -> None:
        """See one event; those that break a rule change nothing.

        See docs/reference/events-and-jsonl.md#what-is-legal.
        """
        deed = self._deeds.get(type(event))
        if deed is not None:
            deed(event)

    def verdicts(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Judge every member of the scene for the task, ascending by address."""
        ranking = self.ranking(task, policy_input)
        verdicts = [
            CandidateVerdict(row.node, row.chances, None, parts_of(row)) for row in ranking.rows
        ]
        verdicts += [
            CandidateVerdict(address, None, reason) for address, reason in ranking.left_out.items()
        ]
        return sorted(verdicts, key=lambda verdict: verdict.node)

    def ranking(self, task: Task, policy_input: PolicyInput) -> Ranking:
        """Rank the members that could have the task; ties ascend by address.

        Left out are the others, each with the reason.
        """
        members = sorted(
            address
            for address, node in policy_input.nodes.items()
            if node.membership is Membership.MEMBER
        )
        left_out = {}
        for address in members:
            reason = self.why_out(policy_input.nodes[address], task, policy_input)
            if reason is not None:
                left_out[address] = reason.value
        now = policy_input.time * 1000
        return self.selector.rank(scope_of(task.kind), members, now, left_out)

    def why_out(self, node: Node, task: Task, policy_input: PolicyInput) -> Out | StakeOut | None:
        """Return why a member cannot have the task, None where it can."""
        if node.paused:
            return Out.PAUSED
        if node.running:
            return Out.BUSY
        if node.address in policy_input.taken:
            return Out.TAKEN
        if self.selector.params.needs_stake and not node.stake:
            return StakeOut.UNKNOWN if node.stake is None else StakeOut.NONE
        return misfit_reason(node, requirement_of(task))

    def _joined(self, event: said.NodeJoined) -> None:
        """A node that joins starts anew: its history is cleared in every scope."""
        if event.node in self._members:
            return
        self._members.add(event.node)
        self.selector.forget(event.node)

    def _left(
        self,
        event: said.NodeQuit | said.NodeQuitAsked | said.NodeSlashed | said.NodeKickedOut,
    ) -> None:
        """Who asks to quit gets no further task, whenever it takes effect."""
        self._members.discard(event.node)

    def _started(self, event: said.TaskStarted) -> None:
        scope = self._tasks.started(event)
        if scope is not None:
            self.selector.looked(scope, self._members, event.ms)

    def _ended(
        self,
        event: said.TaskSucceeded
        | said.TaskRefunded
        | said.TaskInvalidated
        | said.TaskAborted
        | said.TaskTimedOut
        | said.TaskCancelled,
    ) -> None:
        for outcome in self._tasks.ended(event):
            self._record(outcome, event.ms)

    def _record(self, outcome: TaskOutcome, at: int) -> None:
        if outcome.took_ms is not None:
            kind = OutcomeKind.OK
        elif outcome.is_fault:
            kind = OutcomeKind.TIMEOUT
        else:
            return
        self.selector.take(
            RelayOutcome(outcome.node, outcome.scope, at, kind, outcome.took_ms or 0)
        )
