"""Compares the results of several systems for one history."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.backtest.event_history import History
from lab.backtest.results import DueInterval, ExclusionInterval, Measurement
from lab.backtest.statistics import compute_gini, compute_ranks
from lab.backtest.system_columns import SystemColumn
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.rank_correlation import compute_rank_correlation
from oracle.systems.overrides import format_rule_values

_NO_VALUE = "-"


@dataclass(frozen=True, slots=True)
class FinalRank:
    """A node's final score in units of 10^-18, and its rank, 1 being the best."""

    score: int
    rank: int


@dataclass(frozen=True, slots=True)
class ExclusionTotals:
    """The totals of all exclusion intervals under a system.

    Times are in seconds.
    """

    interval_count: int
    node_count: int
    total_seconds: int
    longest_seconds: int


@dataclass(frozen=True, slots=True)
class SystemResult:
    """The results of one system in a comparison.

    `final_ranks` maps each member at the end to its score and rank. The Gini coefficients of the
    tasks include all nodes that were members at any counted moment or had a task; they are in
    units of 10^-18, or None without tasks. `started` is the number of all started tasks.
    `placed_chances` is the sum of the expected tasks of all nodes, in units of 10^-27.
    """

    column: SystemColumn
    measurement: Measurement
    final_ranks: Mapping[Address, FinalRank]
    exclusion: ExclusionTotals
    gini_actual: int | None
    gini_expected: int | None
    started: int
    placed_chances: int

    def get_started_task_count(self, node: Address) -> int:
        """Return the number of tasks started by a node."""
        return self.measurement.spread.actual.get(node, 0)

    def get_expected_task_count(self, node: Address) -> int:
        """Return a node's expected number of tasks under the policy.

        The unit is 10^-27.
        """
        return self.measurement.spread.expected.get(node, 0)

    def compute_actual_share(self, node: Address) -> int | None:
        """Return a node's share of all tasks in units of 10^-18, or None without tasks."""
        return _compute_share(self.get_started_task_count(node), self.started)

    def compute_expected_share(self, node: Address) -> int | None:
        """Return the share of tasks that a node was expected to get.

        Only tasks with at least one candidate are counted. The share is in units of 10^-18, or
        None if there were no such tasks.
        """
        return _compute_share(self.get_expected_task_count(node), self.placed_chances)

    def list_exclusion_intervals(self, node: Address) -> list[ExclusionInterval]:
        """Return a node's exclusion intervals in chronological order."""
        return [interval for interval in self.measurement.intervals if interval.node == node]

    def list_kickout_due_intervals(self, node: Address) -> list[DueInterval]:
        """Return the intervals in which a node's kickout was due, in chronological order."""
        return [interval for interval in self.measurement.kickouts if interval.node == node]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of all systems for one history.

    `results` has the result of each system. `judged` is the number of task starts that the
    policies judged. `instants` are the block times at which scores were recorded; it may be empty.
    """

    history: History
    results: Sequence[SystemResult]
    judged: int
    instants: Sequence[int]

    @property
    def present_nodes(self) -> tuple[Address, ...]:
        """All nodes that had a task or were members at some time in the counted range."""
        return self.results[0].measurement.present_nodes

    def compute_rank_correlation(
        self, first_result: SystemResult, second_result: SystemResult
    ) -> int | None:
        """Return Spearman's rank correlation of the final scores under two systems.

        The unit is 10^-18. Only nodes with a score under both systems count. The result is None
        with fewer than two such nodes, or if one system gives all of them the same rank.
        """
        common_nodes = [
            node for node in first_result.final_ranks if node in second_result.final_ranks
        ]
        return compute_rank_correlation(
            [first_result.final_ranks[node].score for node in common_nodes],
            [second_result.final_ranks[node].score for node in common_nodes],
        )


def _compute_share(part: int, total: int) -> int | None:
    return part * UNIT // total if total else None


def summarize_system(column: SystemColumn, measurement: Measurement) -> SystemResult:
    """Compute the ranks, totals and Gini coefficients of one system's measurement."""
    task_spread, intervals = measurement.spread, measurement.intervals
    return SystemResult(
        column=column,
        measurement=measurement,
        final_ranks=_compute_final_ranks(measurement),
        exclusion=ExclusionTotals(
            interval_count=len(intervals),
            node_count=len({interval.node for interval in intervals}),
            total_seconds=sum(interval.seconds for interval in intervals),
            longest_seconds=max((interval.seconds for interval in intervals), default=0),
        ),
        gini_actual=compute_gini(
            [task_spread.actual.get(node, 0) for node in measurement.present_nodes]
        ),
        gini_expected=compute_gini(
            [task_spread.expected.get(node, 0) for node in measurement.present_nodes]
        ),
        started=sum(task_spread.actual.values()),
        placed_chances=sum(task_spread.expected.values()),
    )


def _compute_final_ranks(measurement: Measurement) -> dict[Address, FinalRank]:
    score_by_node = {
        final_state.node: final_state.score
        for final_state in measurement.nodes
        if final_state.score is not None
    }
    ranks = compute_ranks(list(score_by_node.values()))
    return {
        node: FinalRank(score, rank)
        for (node, score), rank in zip(score_by_node.items(), ranks, strict=True)
    }


def list_rule_differences(columns: Sequence[SystemColumn]) -> dict[str, list[str]]:
    """Return the rules and policy parameters that differ, with each system's value.

    Names and values are written as in a change, for example `legacy.vram_weight`. The value "-"
    means that the system does not have the rule or parameter. A rule that only some of the systems
    with rules have is a difference. A parameter is only compared among the policies that have it.
    """
    rules = [_format_rules(column) for column in columns]
    parameters = [column.policy_parameters for column in columns]
    rows_by_name = {
        name: rules
        for name in _collect_names(rules)
        if len({row.get(name) for row in rules if row}) > 1
    } | {
        name: parameters
        for name in _collect_names(parameters)
        if len({parameter_row[name] for parameter_row in parameters if name in parameter_row}) > 1
    }
    return {
        name: [row.get(name, _NO_VALUE) for row in rows] for name, rows in rows_by_name.items()
    }


def _collect_names(rows: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _format_rules(column: SystemColumn) -> dict[str, str]:
    return format_rule_values(json.loads(column.rules.to_json())) if column.has_rules else {}
