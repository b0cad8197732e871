"""Pocket's selector along a history of our events (docs/explanation/pocket.md).

The failure flag of `portal_api_head` depends on when nodes are looked at. Upstream looks at every
node of the session for every relay; here an evaluation happens at each `task_started`, of every
member, in the scope of that task, just before the assignment. Asking for verdicts is reading: it
changes nothing, so that the same events give the same state however often somebody asks.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from oracle.domain.events import network_events as said
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.requirements import Out, misfit_reason, requirement_of
from oracle.systems.pocket.attribution import Attribution, TaskOutcome, scope_of
from oracle.systems.pocket.explain_row import parts_of
from oracle.systems.pocket.node_selector import NodeSelector
from oracle.systems.pocket.parameters import Parameters
from oracle.systems.pocket.ranking import Ranking
from oracle.systems.pocket.relay_outcomes import OutcomeKind, RelayOutcome
from oracle.systems.policy import CandidateVerdict, PolicyInput


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
