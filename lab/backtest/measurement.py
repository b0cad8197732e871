"""Processes a history under one system, and measures the results for a comparison.

In a system with rules, the rules determine the scores; in a system without rules, the policy does.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from lab.backtest.event_history import History
from lab.backtest.intervals import ExclusionTracker, HistoryRange, KickoutTracker
from lab.backtest.results import FinalNodeState, Measurement
from lab.backtest.system_columns import SystemColumn
from lab.backtest.task_distribution import TaskSpreadMeter, create_candidate_weights
from oracle.domain.events.network_events import DomainEvent, NodeKickedOut, TaskKind, TaskStarted
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_scores import compute_node_qos, get_status
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, create_task
from oracle.systems.policy import (
    CandidateEvaluator,
    CandidateVerdict,
    PolicyInput,
    SelectionPolicy,
)

# In a system without rules, this part of a verdict is the score
# (docs/explanation/pocket.md#evaluation: tickets / max_tickets).
_TICKETS = "tickets"
_ANY_TASK = create_task(TaskKey("0x" + 64 * "0"))


def compute_scores_by_rules(
    nodes: Mapping[Address, Node], time: int, rules: Rules
) -> dict[Address, int]:
    """Return each member's score under the rules, in units of 10^-18.

    The score is the QoS or, under legacy rules, the combined score.
    """
    population_maxima = compute_population_maxima(nodes.values(), time, rules)
    scores = {
        address: compute_node_qos(node, time, rules, population_maxima)
        for address, node in nodes.items()
        if node.membership is Membership.MEMBER
    }
    return {address: score for address, score in scores.items() if score is not None}


def compute_scores_by_policy(
    evaluator: CandidateEvaluator,
    policy_input: PolicyInput,
    kind: TaskKind | None,
    max_tickets: int,
) -> dict[Address, int]:
    """Return each member's tickets as a fraction of `max_tickets`.

    The unit is 10^-18. The policy judges a task of the kind `kind` without other requirements, as
    if all members were free.
    """
    free_nodes = {
        address: replace(node, running=0, paused=False)
        for address, node in policy_input.nodes.items()
        if node.membership is Membership.MEMBER
    }
    any_task = replace(_ANY_TASK, kind=kind)
    verdicts = evaluator.evaluate_candidates(any_task, replace(policy_input, nodes=free_nodes))
    return {verdict.node: _get_tickets(verdict) * UNIT // max_tickets for verdict in verdicts}


def _get_tickets(verdict: CandidateVerdict) -> int:
    """Return the number of tickets of a verdict.

    The weight is only used if the verdict does not state the tickets, because a node without
    tickets may still have a small weight.
    """
    tickets = verdict.parts.get(_TICKETS)
    return (verdict.weight or 0) if tickets is None else int(tickets)


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """The optional measurements, besides final scores, exclusions and kickouts.

    If `measures_task_spread` is set, the policy judges task starts. `chosen_starts` are the
    numbers of the starts to judge, counted from 0, or None for all starts. `instants` are the
    block times at which scores are recorded, in ascending order.
    """

    measures_task_spread: bool = True
    chosen_starts: frozenset[int] | None = None
    instants: tuple[int, ...] = ()


def measure_system(
    column: SystemColumn,
    policy: SelectionPolicy,
    history: History,
    plan: MeasurementPlan,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Measurement:
    """Process the complete history under one system, and measure the results.

    `on_progress` is called after each chunk of events with the number of events folded so far.
    """
    # An evaluator is needed only if the policy evaluates starts or provides the scores.
    evaluator = (
        policy.create_evaluator() if plan.measures_task_spread or not column.has_rules else None
    )
    candidate_weights = (
        create_candidate_weights(policy, evaluator, column.rules)
        if evaluator and plan.measures_task_spread
        else None
    )
    spread_meter = TaskSpreadMeter(column.rules, candidate_weights, plan.chosen_starts)
    measurement_run = _MeasurementRun(column, history, plan, evaluator, spread_meter)
    event_count = 0
    for chunk in history.read_chunks():
        measurement_run.fold.fold_events(
            measurement_run.iter_observed_events(chunk), is_complete=False
        )
        measurement_run.fold.drain_changes()
        event_count += len(chunk)
        on_progress(event_count)
    return measurement_run.finish_measurement()


class _MeasurementRun:
    """The run of one system over a history, with the measurements so far."""

    def __init__(
        self,
        column: SystemColumn,
        history: History,
        plan: MeasurementPlan,
        evaluator: CandidateEvaluator | None,
        spread_meter: TaskSpreadMeter,
    ) -> None:
        self.column, self.history, self.plan = column, history, plan
        self.evaluator, self.spread_meter = evaluator, spread_meter
        self.fold = Fold(column.rules)
        self.exclusions = ExclusionTracker(column.rules)
        self.kickouts = KickoutTracker()
        # Nodes that were members at any time that counts. This is a dict, because a dict keeps
        # their order.
        self.present_nodes: dict[Address, None] = {}
        self.is_counting = False
        self.last_event: DomainEvent | None = None
        # Number of started tasks by kind. They are counted only if the policy provides the scores.
        self.task_count_by_kind: dict[TaskKind, int] = {}
        self.recorded_scores: list[Mapping[Address, int]] = []

    def iter_observed_events(self, events: list[DomainEvent]) -> Iterator[DomainEvent]:
        """Yield each event to be applied, and take measurements before and after that."""
        for event in events:
            self._measure_before_fold(event)
            yield event
            self._measure_after_fold(event)

    def _measure_before_fold(self, event: DomainEvent) -> None:
        if self.fold.ledger.closing_groups and self.last_event is not None:
            self.fold.score_groups_closed_in_transaction(event.at)
            self._record_changes(self.last_event)
        if not self.is_counting and event.at.block >= self.history.first_block:
            self.is_counting = True
            self.present_nodes.update(dict.fromkeys(self._iter_members()))
        self._record_scores_before(event.time)
        if isinstance(event, TaskStarted):
            ledger = self.fold.ledger
            if not self.column.has_rules and (task := ledger.tasks.get(event.task)):
                self._increment_task_kind_count(task.kind)
            if self.is_counting:
                self.spread_meter.evaluate_start(event, ledger.tasks, ledger.nodes)
            else:
                self.spread_meter.record_uncounted_start(event, ledger.tasks)

    def _measure_after_fold(self, event: DomainEvent) -> None:
        self.last_event = event
        self._record_changes(event)
        if isinstance(event, NodeKickedOut):
            self.kickouts.record_network_kickout(event)
        if self.evaluator is not None:
            self.evaluator.apply_event(event)

    def _record_changes(self, event: DomainEvent) -> None:
        """Record the changes since the last call.

        The changes get the time of `event`.
        """
        changes = self.fold.ledger.changes
        for node in changes.nodes.values():
            self._record_node_change(node, event)
        changes.nodes.clear()
        self.kickouts.update_intervals(changes.kickouts, event)
        changes.kickouts.clear()

    def _increment_task_kind_count(self, kind: TaskKind | None) -> None:
        if kind is not None:
            self.task_count_by_kind[kind] = self.task_count_by_kind.get(kind, 0) + 1

    def _record_node_change(self, node: Node, event: DomainEvent) -> None:
        if self.column.has_rules:
            self.exclusions.update_node(node, event)
        self.spread_meter.update_node(node)
        if self.is_counting and node.membership is Membership.MEMBER:
            self.present_nodes[node.address] = None

    def _iter_members(self) -> Iterator[Address]:
        for node in self.fold.ledger.nodes.values():
            if node.membership is Membership.MEMBER:
                yield node.address

    def _record_scores_before(self, time: int) -> None:
        """Record the scores at each instant before `time`.

        Later events cannot change them.
        """
        instants = self.plan.instants
        while (
            len(self.recorded_scores) < len(instants)
            and instants[len(self.recorded_scores)] < time
        ):
            self.recorded_scores.append(self._compute_scores(instants[len(self.recorded_scores)]))

    def _compute_scores(self, time: int) -> Mapping[Address, int]:
        nodes, rules = self.fold.ledger.nodes, self.column.rules
        if self.column.has_rules or self.evaluator is None:
            return compute_scores_by_rules(nodes, time, rules)
        # A Pocket policy compares nodes for only one kind of task. The network's most frequent
        # kind is used.
        kind = max(
            sorted(self.task_count_by_kind), key=self.task_count_by_kind.__getitem__, default=None
        )
        max_tickets = int(self.column.policy_parameters["max_tickets"])
        return compute_scores_by_policy(
            self.evaluator, PolicyInput(nodes, rules, time), kind, max_tickets
        )

    def finish_measurement(self) -> Measurement:
        """Finish the run after the last event, and return the measurements."""
        self.fold.score_groups_closed_in_transaction()
        if self.last_event is not None:
            self._record_changes(self.last_event)
        for instant in self.plan.instants[len(self.recorded_scores) :]:
            self.recorded_scores.append(self._compute_scores(instant))
        task_spread = self.spread_meter.build_spread()
        present_nodes = tuple(sorted({*self.present_nodes, *task_spread.actual}))
        history_range = HistoryRange(
            self.history.first_block, self.history.from_time, self.history.to_time
        )
        is_judged_by_rules = self.column.has_rules
        return Measurement(
            nodes=self._build_final_states(),
            present_nodes=present_nodes,
            intervals=self.exclusions.list_intervals(history_range),
            kickouts=self.kickouts.list_intervals(history_range) if is_judged_by_rules else (),
            kicks=self.kickouts.list_network_kickouts(history_range),
            spread=task_spread,
            scores_over_time={
                node: tuple(scores.get(node) for scores in self.recorded_scores)
                for node in present_nodes
            },
        )

    def _build_final_states(self) -> tuple[FinalNodeState, ...]:
        scores = self._compute_scores(self.history.to_time)
        nodes = sorted(self.fold.ledger.nodes.items())
        return tuple(
            FinalNodeState(
                node=address,
                status=get_status(node),
                gpu_name=node.gpu_name,
                gpu_vram=node.gpu_vram,
                score=scores.get(address),
            )
            for address, node in nodes
        )
