"""Pocket's selector along a history of our events (docs/explanation/pocket.md).

The failure flag depends on when nodes are looked at. Upstream looks at every node of the session
for every relay; here an evaluation happens at each `task_started`, of every member, in the scope
of that task, just before the assignment. Asking for verdicts is reading: it changes nothing, so
that the same events give the same state however often somebody asks.
"""

from collections.abc import Callable, Mapping
from typing import Any

from oracle.domain.events import network_events as said
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.requirements import Out, Requirement, misfit, requirement_of
from oracle.systems.pocket.attribution import Attribution, TaskOutcome
from oracle.systems.pocket.explain_row import parts_of
from oracle.systems.pocket.parameters import Parameters
from oracle.systems.pocket.ranking import Ranking, evaluate
from oracle.systems.pocket.record_scope import RecordScope
from oracle.systems.policy import CandidateVerdict, PolicyInput


def why_out(node: Node, wanted: Requirement, policy_input: PolicyInput) -> Out | None:
    """Return why a member cannot have the task, None where it can."""
    if node.paused:
        return Out.PAUSED
    if node.running:
        return Out.BUSY
    if node.address in policy_input.taken:
        return Out.TAKEN
    return misfit(node, wanted)


# Removed for failing early, or busy to its cap: not a matter of the scene (parameters).
LEFT_OUT = "left_out"


class PocketFollower:
    """Satisfies `Follower`. `special`: the parameters of scopes that have their own.

    Its memory grows with nodes, scopes and open tasks, not with the length of the history.
    """

    def __init__(
        self, params: Parameters, special: Mapping[str, Parameters], *, by_kind: bool
    ) -> None:
        self._params = params
        self._special = special
        self._tasks = Attribution(by_kind=by_kind)
        self._members: set[Address] = set()
        self.scopes: dict[str, RecordScope] = {}
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
        members = sorted(
            address
            for address, node in policy_input.nodes.items()
            if node.membership is Membership.MEMBER
        )
        wanted = requirement_of(task)
        out = {
            address: why_out(policy_input.nodes[address], wanted, policy_input)
            for address in members
        }
        ranking = self.ranking(
            self._tasks.scope_of(task.kind),
            [address for address in members if out[address] is None],
            policy_input.time,
        )
        rows = {row.node: row for row in ranking.rows}
        return [
            CandidateVerdict(address, rows[address].chances, None, parts_of(rows[address]))
            if address in rows
            else CandidateVerdict(address, None, out[address] or LEFT_OUT)
            for address in members
        ]

    def ranking(self, scope: str, candidates: list[Address], time: int) -> Ranking:
        """Rank candidates in a scope at a block time; changes nothing."""
        known = self.scopes.get(scope)
        if known is None:
            return evaluate({}, candidates, time, self._params_of(scope))
        return evaluate(known.records, candidates, time, known.params)

    def _params_of(self, scope: str) -> Parameters:
        return self._special.get(scope, self._params)

    def _scope(self, name: str) -> RecordScope:
        if name not in self.scopes:
            self.scopes[name] = RecordScope(self._params_of(name))
        return self.scopes[name]

    def _joined(self, event: said.NodeJoined) -> None:
        """A node that joins starts anew: its history is cleared in every scope."""
        if event.node in self._members:
            return
        self._members.add(event.node)
        for scope in self.scopes.values():
            scope.forget(event.node)

    def _left(
        self,
        event: said.NodeQuit | said.NodeQuitAsked | said.NodeSlashed | said.NodeKickedOut,
    ) -> None:
        """Who asks to quit gets no further task, whenever it takes effect."""
        self._members.discard(event.node)

    def _started(self, event: said.TaskStarted) -> None:
        name = self._tasks.started(event)
        if name is None:
            return
        scope = self._scope(name)
        scope.look(self._members, event.time)
        scope.assigned(event.node)

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
            self._record(outcome, event.time)

    def _record(self, outcome: TaskOutcome, time: int) -> None:
        scope = self._scope(outcome.scope)
        scope.released(outcome.node)
        if outcome.duration is not None:
            scope.succeeded(outcome.node, outcome.duration, time, outcome.size)
        elif outcome.is_fault:
            scope.failed(outcome.node, time, outcome.early_by)
