"""Folds a history under one system, and measures what a comparison shows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lab.backtest.candidate_weights import weighing_of
from lab.backtest.intervals import Exclusions, HistoryRange, Kickouts
from lab.backtest.results import Measured, NodeEnd
from lab.backtest.score_series import scores_by_policy, scores_by_rules
from lab.backtest.system_columns import SystemColumn
from lab.backtest.task_distribution import TaskSpreadMeter
from oracle.domain.events.network_events import DomainEvent, NodeKickedOut, TaskKind, TaskStarted
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import get_status
from oracle.domain.state.node import Membership, Node
from oracle.queries.event_history import History
from oracle.systems.policy import Follower, PolicyInput, SelectionPolicy


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """Optional measurements, beside scores, intervals and kickouts.

    `judges_starts`: whether the policy judges starts; `chosen_starts`: the numbers of the judged
    starts, counted from 0, None for all. `instants`: ascending block times at which scores are
    recorded.
    """

    judges: bool = True
    chosen: frozenset[int] | None = None
    instants: tuple[int, ...] = ()


def measure(
    column: SystemColumn,
    policy: SelectionPolicy,
    history: History,
    asked: MeasurementPlan,
    told: Callable[[int], None] = lambda _: None,
) -> Measured:
    """Fold the whole history under one system.

    `on_progress` is called after every few thousand events with the number of folded events.
    """
    # A follower is only needed if the policy judges starts or gives the scores.
    follower = policy.create_follower() if asked.judges or not column.has_rules else None
    weighing = weighing_of(policy, follower, column.rules) if follower and asked.judges else None
    spreading = TaskSpreadMeter(column.rules, weighing, asked.chosen)
    run = _Run(column, _Seen(history, asked), follower, spreading)
    done = 0
    for chunk in history.read_chunks():
        run.fold.fold_events(run.watched(chunk), is_complete=False)
        run.fold.drain_changes()
        done += len(chunk)
        told(done)
    return run.result()


class _Seen(NamedTuple):
    """A history, and what to measure of it."""

    history: History
    asked: MeasurementPlan


class _Run:
    """A running fold and its measurements."""

    def __init__(
        self,
        column: SystemColumn,
        seen: _Seen,
        follower: Follower | None,
        spreading: TaskSpreadMeter,
    ) -> None:
        self.column, self.history, self.asked = column, seen.history, seen.asked
        self.follower, self.spreading = follower, spreading
        self.fold = Fold(column.rules)
        self.exclusions = Exclusions(column.rules)
        self.kickouts = Kickouts()
        # Nodes that were members at any counted moment; a dict keeps their order.
        self.present: dict[Address, None] = {}
        self.counting = False
        self.last: DomainEvent | None = None
        # Started tasks by kind, if the policy gives the scores.
        self.kinds: dict[TaskKind, int] = {}
        self.noted: list[Mapping[Address, int]] = []

    def watched(self, events: list[DomainEvent]) -> Iterator[DomainEvent]:
        """Yield every event to the fold, with measurements before and after it is folded."""
        for event in events:
            self._before(event)
            yield event
            self._after(event)

    def _before(self, event: DomainEvent) -> None:
        if self.fold.ledger.closing and self.last is not None:
            self.fold.finish_transaction(event.at)
            self._note_changes(self.last)
        if not self.counting and event.at.block >= self.history.first_block:
            self.counting = True
            self.present.update(dict.fromkeys(self._members()))
        self._note_until(event.time)
        if isinstance(event, TaskStarted):
            ledger = self.fold.ledger
            if not self.column.has_rules and (task := ledger.tasks.get(event.task)):
                self._count(task.kind)
            if self.counting:
                self.spreading.look(event, ledger.tasks, ledger.nodes)
            else:
                self.spreading.pass_by(event, ledger.tasks)

    def _after(self, event: DomainEvent) -> None:
        self.last = event
        self._note_changes(event)
        if isinstance(event, NodeKickedOut):
            self.kickouts.record_kickout(event)
        if self.follower is not None:
            self.follower.apply_event(event)

    def _note_changes(self, event: DomainEvent) -> None:
        """Record what the fold changed since the last call, as of an event."""
        changes = self.fold.ledger.changes
        for node in changes.nodes.values():
            self._look(node, event)
        changes.nodes.clear()
        self.kickouts.note_intervals(changes.kickouts, event)
        changes.kickouts.clear()

    def _count(self, kind: TaskKind | None) -> None:
        if kind is not None:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def _look(self, node: Node, event: DomainEvent) -> None:
        if self.column.has_rules:
            self.exclusions.look(node, event)
        self.spreading.note(node)
        if self.counting and node.membership is Membership.MEMBER:
            self.present[node.address] = None

    def _members(self) -> Iterator[Address]:
        for node in self.fold.ledger.nodes.values():
            if node.membership is Membership.MEMBER:
                yield node.address

    def _note_until(self, time: int) -> None:
        """Record the scores of every instant before `time`; no event changes them any more."""
        instants = self.asked.instants
        while len(self.noted) < len(instants) and instants[len(self.noted)] < time:
            self.noted.append(self._scores(instants[len(self.noted)]))

    def _scores(self, time: int) -> Mapping[Address, int]:
        nodes, rules = self.fold.ledger.nodes, self.column.rules
        if self.column.has_rules or self.follower is None:
            return scores_by_rules(nodes, time, rules)
        # Pocket compares tasks of one kind: the most frequent kind of this network.
        kind = max(sorted(self.kinds), key=self.kinds.__getitem__, default=None)
        most = int(self.column.parameters["max_tickets"])
        return scores_by_policy(self.follower, PolicyInput(nodes, rules, time), kind, most)

    def result(self) -> Measured:
        """Return the measurements after the end of the history."""
        self.fold.finish_transaction()
        if self.last is not None:
            self._note_changes(self.last)
        for instant in self.asked.instants[len(self.noted) :]:
            self.noted.append(self._scores(instant))
        spread = self.spreading.sum_up()
        present = tuple(sorted({*self.present, *spread.actual}))
        counted = HistoryRange(
            self.history.first_block, self.history.from_time, self.history.to_time
        )
        is_judged = self.column.has_rules
        return Measured(
            nodes=self._nodes(),
            present=present,
            intervals=self.exclusions.within(counted),
            kickouts=self.kickouts.within(counted) if is_judged else (),
            kicks=self.kickouts.kicks(counted),
            spread=spread,
            over_time={node: tuple(scores.get(node) for scores in self.noted) for node in present},
        )

    def _nodes(self) -> tuple[NodeEnd, ...]:
        scores = self._scores(self.history.to_time)
        nodes = sorted(self.fold.ledger.nodes.items())
        return tuple(
            NodeEnd(
                node=address,
                status=get_status(node),
                gpu_name=node.gpu_name,
                gpu_vram=node.gpu_vram,
                score=scores.get(address),
            )
            for address, node in nodes
        )
