"""Shared code of the backtest tests: a policy with given weights, and a fold of a history."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.backtest.event_history import History as Kept, write_history
from lab.backtest.measurement import MeasurementPlan, measure_system
from lab.backtest.results import Measurement
from lab.backtest.system_columns import SystemColumn
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.policy import CandidateVerdict, PolicyInput
from tests.support.histories import History, make_node_address


@dataclass
class ByName:
    """A policy whose candidates are free members with a weight by name, 1 by default."""

    weights: Mapping[str, int] = field(default_factory=dict)
    name: str = "by_name"
    version: int = 1
    seen: list[DomainEvent] = field(default_factory=list)
    judged_tasks: list[Task] = field(default_factory=list)

    def create_evaluator(self) -> "ByName":
        return self

    def apply_event(self, event: DomainEvent) -> None:
        self.seen.append(event)

    def evaluate_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        self.judged_tasks.append(task)
        by_node = {make_node_address(name): weight for name, weight in self.weights.items()}
        return [
            self._verdict(address, policy_input, by_node.get(address, 1))
            for address, candidate in sorted(policy_input.nodes.items())
            if candidate.membership is Membership.MEMBER
        ]

    def _verdict(
        self, address: Address, policy_input: PolicyInput, weight: int
    ) -> CandidateVerdict:
        candidate = policy_input.nodes[address]
        is_out = candidate.running or candidate.paused or address in policy_input.reserved
        return CandidateVerdict(address, None if is_out else weight)


@dataclass
class Bench:
    """Folds histories in a folder of the test."""

    folder: Path
    kept: Kept | None = None

    def measure(
        self,
        history: History,
        rules: Rules = CRYNUX,
        policy: ByName | None = None,
        plan: MeasurementPlan | None = None,
        blocks: tuple[int, int | None] = (0, None),
    ) -> Measurement:
        self.kept = write_history(history.events, self.folder / "events", *blocks)
        column = SystemColumn("under test", rules, "by_name")
        return measure_system(column, policy or ByName(), self.kept, plan or MeasurementPlan())
