"""The results of several systems on one history, side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.backtest.results import DueInterval, ExclusionInterval, Measured
from lab.backtest.statistics import gini, rank_correlation, ranks_of
from lab.backtest.system_columns import SystemColumn
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.event_history import History
from oracle.systems.rule_overrides import format_rules

_ABSENT = "-"


@dataclass(frozen=True, slots=True)
class FinalRank:
    """A node's final score, in units of 10^-18, and its rank, 1 for the best."""

    score: int
    rank: int


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Totals over all intervals of exclusion under a system; times in seconds."""

    intervals: int
    nodes: int
    total: int
    longest: int


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system of a comparison.

    `final_ranks` covers the members at the end. The Gini coefficients are over all nodes that were
    members at any counted moment or had a task, in units of 10^-18; None without tasks.
    """

    column: SystemColumn
    measured: Measured
    final_ranks: Mapping[Address, FinalRank]
    exclusion: Exclusion
    gini_actual: int | None
    gini_expected: int | None
    # Totals of the spread: all starts, and all chances.
    started: int
    placed: int

    def actual(self, node: Address) -> int:
        """Return the number of tasks that the node started."""
        return self.measured.spread.actual.get(node, 0)

    def expected(self, node: Address) -> int:
        """Return the tasks that the policy was expected to give the node, in units of 10^-27."""
        return self.measured.spread.expected.get(node, 0)

    def actual_share(self, node: Address) -> int | None:
        """Return the node's share of all tasks, in units of 10^-18, or None without tasks."""
        return _share(self.actual(node), self.started)

    def expected_share(self, node: Address) -> int | None:
        """Return the node's share of the tasks that the policy could place, or None if none."""
        return _share(self.expected(node), self.placed)

    def intervals_of(self, node: Address) -> list[ExclusionInterval]:
        """Return the node's intervals of exclusion, in order of time."""
        return [interval for interval in self.measured.intervals if interval.node == node]

    def kickouts_of(self, node: Address) -> list[DueInterval]:
        """Return the intervals in which the node's kickout was due, in order."""
        return [due for due in self.measured.kickouts if due.node == node]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Systems side by side.

    `judged`: the number of starts that the policies judged. `instants`: the block times of the
    scores over time, empty if they are not needed.
    """

    history: History
    sides: Sequence[SystemResult]
    judged: int
    instants: Sequence[int]

    @property
    def present(self) -> tuple[Address, ...]:
        """All nodes that were members at any counted moment or had a task."""
        return self.sides[0].measured.present

    def correlation(self, one: SystemResult, other: SystemResult) -> int | None:
        """Return Spearman's rank correlation of the final scores, in units of 10^-18.

        Only nodes with a score under both systems count; None if one system gives all of them the
        same rank.
        """
        both = [node for node in one.final_ranks if node in other.final_ranks]
        return rank_correlation(
            [one.final_ranks[node].score for node in both],
            [other.final_ranks[node].score for node in both],
        )


def _share(part: int, total: int) -> int | None:
    return part * UNIT // total if total else None


def side_of(column: SystemColumn, measured: Measured) -> SystemResult:
    """Summarise the result of one system on a history."""
    spread, intervals = measured.spread, measured.intervals
    return SystemResult(
        column=column,
        measured=measured,
        final_ranks=_final_ranks(measured),
        exclusion=Exclusion(
            intervals=len(intervals),
            nodes=len({interval.node for interval in intervals}),
            total=sum(interval.seconds for interval in intervals),
            longest=max((interval.seconds for interval in intervals), default=0),
        ),
        gini_actual=gini([spread.actual.get(node, 0) for node in measured.present]),
        gini_expected=gini([spread.expected.get(node, 0) for node in measured.present]),
        started=sum(spread.actual.values()),
        placed=sum(spread.expected.values()),
    )


def _final_ranks(measured: Measured) -> dict[Address, FinalRank]:
    scored = {end.node: end.score for end in measured.nodes if end.score is not None}
    ranks = ranks_of(list(scored.values()))
    return {
        node: FinalRank(score, rank)
        for (node, score), rank in zip(scored.items(), ranks, strict=True)
    }


def differing(columns: Sequence[SystemColumn]) -> dict[str, list[str]]:
    """Return the rules and policy parameters in which systems differ, with a text per system.

    Names and values are written as in a change, for example `legacy.vram_weight`; "-" means that
    the system has none. A rule that only some of the systems with rules have is a difference;
    parameters are compared only among policies that have them.
    """
    rules = [_rules_of(column) for column in columns]
    numbers = [column.parameters for column in columns]
    found = {
        name: rules for name in _names(rules) if len({row.get(name) for row in rules if row}) > 1
    } | {
        name: numbers
        for name in _names(numbers)
        if len({row[name] for row in numbers if name in row}) > 1
    }
    return {name: [row.get(name, _ABSENT) for row in rows] for name, rows in found.items()}


def _names(rows: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _rules_of(column: SystemColumn) -> dict[str, str]:
    return format_rules(json.loads(column.rules.to_json())) if column.has_rules else {}
